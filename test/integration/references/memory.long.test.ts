// A result that is much larger than the memory that the gateway may use for it, with unchanged clients of the official SDKs.
import { createHash } from 'node:crypto'
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { launchScript, type Serving } from '../../bench/launch.ts'
import { sha256Of } from '../../bench/large-text.ts'
import { resetPeak, peakMegabytes, residentMegabytes } from '../../bench/process-stats.ts'
import { type GatewayProcess, startGatewayProcess } from '../../support/gateway-process.ts'
import { bothEras } from '../../support/peers/clients.ts'
import { variantsOf } from '../../support/soak.ts'

const BYTES = 200_000_000
const MAX_MEGABYTES = 150

const script = fileURLToPath(new URL('../../bench/large-upstream.ts', import.meta.url))
const sha256 = sha256Of(BYTES)

const ways = [
  { way: 'over stdio', tool: 'child_get_text', more: {} },
  { way: 'as JSON over HTTP', tool: 'remote_get_text', more: {} },
  { way: 'as events over HTTP', tool: 'remote_get_text', more: { as_events: true } },
]
/** Each way with one of the eras in the ordinary run. */
const meetings = variantsOf(
  bothEras.flatMap((era) => ways.map((way) => ({ ...era, ...way }))),
  (_each, index) => index % 2 === 0,
)

let root = ''
let server: Serving
let gateway: GatewayProcess

beforeAll(async () => {
  root = mkdtempSync(join(tmpdir(), 'gatehouse-memory-'))
  server = await launchScript('large-upstream.ts')
  gateway = await startGatewayProcess({
    store: join(root, 'store'),
    features: { references: 'on', confirm: 'off' },
    upstreams: { child: { command: [process.execPath, script, '--stdio'] }, remote: { url: server.url } },
  })
})
afterAll(async () => {
  await gateway.close()
  await server.stop()
  rmSync(root, { recursive: true, force: true })
})

/** The SHA-256 of what a URL returns. */
async function sumOf(url: URL): Promise<string> {
  const hash = createHash('sha256')
  const { body } = await fetch(url)
  for await (const chunk of body ?? []) hash.update(chunk)
  return hash.digest('hex')
}

describe.skipIf(!existsSync('/proc/self/clear_refs'))('a result of 200 MB (needs /proc)', () => {
  it.each(meetings)('passes in bounded memory $way with $title', async ({ connect, tool, more }) => {
    const client = await connect({ transport: 'http', url: gateway.url })
    try {
      await client.call(tool, { bytes: 10, ...more })
      const idle = residentMegabytes(gateway.pid)
      resetPeak(gateway.pid)
      const result = await client.call(tool, { bytes: BYTES, ...more })
      expect(peakMegabytes(gateway.pid) - idle).toBeLessThan(MAX_MEGABYTES)
      expect(result.text).toContain(`${BYTES} bytes`)
      const [, id = ''] = /ref:\/\/(ref_[0-9a-f]+)/.exec(result.text) ?? []
      expect(await sumOf(new URL(`/data/${id}`, gateway.url))).toBe(sha256)
    } finally {
      await client.close()
    }
  })
})

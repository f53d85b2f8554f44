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

const BYTES = 200_000_000
const MAX_MEGABYTES = 150

const script = fileURLToPath(new URL('../../bench/large-upstream.ts', import.meta.url))
const sha256 = sha256Of(BYTES)

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
  describe.each(bothEras)('with $title', ({ connect }) => {
    it.each([
      ['over stdio', 'child_get_text', {}],
      ['as JSON over HTTP', 'remote_get_text', {}],
      ['as events over HTTP', 'remote_get_text', { as_events: true }],
    ])('passes in bounded memory %s', async (_way, tool, more) => {
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
})

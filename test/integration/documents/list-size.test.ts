// How much longer lists get by the gateway's additions: a model pays for every character, every time.
import { mkdtempSync, readdirSync, readFileSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { connect } from '../../support/fake-client.ts'
import { fiveServers, names } from '../../support/five-servers.ts'
import { localGateway } from '../../support/local-gateway.ts'
import type { RunningGateway } from '../../support/gateway.ts'
import { scriptedServer } from '../../support/scripted-server.ts'
import { isObject, type Json } from '../../support/server/json.ts'

/** The permitted growth factor of a tool list; and for tools of a line or two, the permitted bytes per tool. */
const MOST = 1.5
const MOST_BYTES = 300
const KEY = 'dev.gatehouse/dashdash'

const folder = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-test-')))
let described: RunningGateway
let bare: RunningGateway
beforeAll(async () => {
  described = await fiveServers(folder)
  bare = await fiveServers(folder, { features: 'none' })
}, 120_000)
afterAll(async () => {
  await Promise.all([described.close(), bare.close()])
  rmSync(folder, { recursive: true, force: true })
})

async function listed(url: string, revision: '2025-11-25' | '2026-07-28', more: Json = {}): Promise<Json[]> {
  const client = await connect({ transport: 'http', url, revision, ...more })
  const reply = await client.request('tools/list', {}, { timeoutMs: 60_000 })
  await client.close()
  const tools = reply.result?.['tools']
  return Array.isArray(tools) ? tools : []
}

const hintOf = ({ annotations }: Json): unknown => Object(annotations)['idempotentHint']

const length = (value: unknown): number => JSON.stringify(value).length

describe.each(['2025-11-25', '2026-07-28'] as const)('a client of %s', (revision) => {
  test.each([...names, ''])(
    'gets a tool list at /mcp/%s that is only slightly longer than the original',
    async (name) => {
      const path = name === '' ? '' : `/${name}`
      const [whole, plain] = [
        await listed(`${described.url}${path}`, revision),
        await listed(`${bare.url}${path}`, revision),
      ]
      expect(whole).toHaveLength(plain.length)
      expect(length(whole) / length(plain)).toBeLessThan(MOST)
      for (const tool of whole) {
        expect(tool['dashdash']).toMatchObject({ operationType: expect.any(String) })
        expect(Object(tool['_meta'])).not.toHaveProperty([KEY])
        const { idempotent, ...others } = Object(tool['dashdash'])
        // What is false is said only where the server says so.
        if (idempotent !== true) expect([undefined, hintOf(tool)]).toContain(idempotent)
        for (const value of Object.values(others)) expect([false, 0, []]).not.toContainEqual(value)
      }
    },
  )

  test('gets tool descriptions in _meta if it requests them', async () => {
    const capabilities = { extensions: { [KEY]: {} } }
    const asking = await listed(`${described.url}/memory`, revision, { capabilities })
    for (const tool of asking) expect(Object(tool['_meta'])[KEY]).toEqual(tool['dashdash'])
    const client = await connect({ transport: 'http', url: `${described.url}/memory`, revision })
    const { result } = await client.request('tools/list', { _meta: { [KEY]: true } })
    await client.close()
    expect(result?.['tools']).toEqual(asking)
  })
})

/** Tool lists of published servers, with most words removed from their descriptions. */
const shortened = fileURLToPath(new URL('../../fixtures/judgement/tuning', import.meta.url))

test.each(readdirSync(shortened))('a list of %s is only slightly longer than the original', async (file) => {
  const given: unknown = JSON.parse(readFileSync(join(shortened, file), 'utf8'))
  const entries: readonly Json[] = isObject(given) && Array.isArray(given['tools']) ? given['tools'] : []
  const tools = entries.map((entry) => entry['definition'])
  const server = await scriptedServer({ tools: {} }, { 'tools/list': () => ({ tools }) })
  const gateway = await localGateway({ upstreams: { it: { url: server.url } } })
  const whole = await listed(gateway.url, '2025-11-25')
  await gateway.close()
  await server.close()
  expect(length(whole)).toBeLessThan(
    Math.max(length(tools) * MOST, length(tools) + tools.length * MOST_BYTES),
  )
})

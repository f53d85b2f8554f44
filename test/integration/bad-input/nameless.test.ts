import { afterAll, beforeAll, expect, test } from 'vitest'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'

let servers: readonly FakeServer[]
let gateway: LocalGateway
beforeAll(async () => {
  const options = { revision: '2025-11-25', transport: 'http' } as const
  servers = await Promise.all([startFakeServer(options), startFakeServer(options)])
  const [one, two] = servers.map(({ url }) => ({ url, revision: '2025-11-25' }))
  gateway = await localGateway({ upstreams: { one, two } })
})
afterAll(async () => {
  await gateway.close()
  await Promise.all(servers.map((server) => server.close()))
})

const nameless = [
  ['tools/call', {}, 'name'],
  ['tools/call', { name: 7, arguments: {} }, 'name'],
  ['prompts/get', { arguments: {} }, 'name'],
  ['resources/read', {}, 'uri'],
  ['completion/complete', { argument: { name: 'a', value: 'b' } }, 'ref'],
  ['completion/complete', { ref: { type: 'ref/prompt' }, argument: { name: 'a', value: 'b' } }, 'ref'],
] as const

test.each(['2025-06-18', '2026-07-28'] as const)(
  'a client of %s that omits the name or URI of an aggregated request receives an error that names the field',
  async (revision) => {
    const client: FakeClient = await connect({ transport: 'http', url: gateway.url, revision })
    for (const [method, params, field] of nameless) {
      const { error } = await client.request(method, params)
      expect([method, error]).toMatchObject([
        method,
        { code: -32602, data: { code: 'INVALID_INPUT', field } },
      ])
    }
    const { error } = await client.request('vendor/unknown', {})
    expect(error).toMatchObject({ code: -32601 })
    await client.close()
  },
)

// Without references, large results and arguments that look like references pass as if the gateway were not there.
import { describe, expect, it, onTestFinished } from 'vitest'
import type { Reply } from '../../support/client/options.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { type FakeServer, startFakeServer } from '../../support/fake-server.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { type Json, objectAt, textAt } from '../../support/server/json.ts'
import { remoteTransport, type Revision, revisions } from '../../support/server/revisions.ts'
import { plainFeatures } from '../../support/undescribed.ts'

const requests: readonly (readonly [title: string, params: Json])[] = [
  ['a large result', { name: 'big', arguments: { bytes: 400_000 } }],
  [
    'references in arguments',
    { name: 'echo', arguments: { a: 'ref://ref_1', b: { $ref_id: 'ref_1' }, c: ['ref://x?rows=1#/y'] } },
  ],
  [
    'the flags of a request',
    {
      name: 'echo',
      arguments: { a: 1.0 },
      _meta: { 'dev.gatehouse/as_reference': true, 'dev.gatehouse/ref_id': '../x' },
    },
  ],
]

describe.each(revisions)('a server and a client of %s', (revision) => {
  const transport = remoteTransport(revision)

  it.each(requests)('exchange %s with the bytes that they exchange directly', async (_title, params) => {
    const server = await startFakeServer({ revision, transport })
    onTestFinished(() => server.close())
    const direct = await exchange(server, server.url, revision, params)
    const gateway = await gatewayTo(server, 'none')
    const through = await exchange(
      server,
      `${gateway}/${transport === 'sse' ? 'sse' : 'mcp'}/one`,
      revision,
      params,
    )
    expect(textAt(through.reply.text, ['result'])).toBe(textAt(direct.reply.text, ['result']))
    expect(textAt(through.got, ['params', 'arguments'])).toBe(textAt(direct.got, ['params', 'arguments']))
    expect(flagsIn(through.got)).toEqual(flagsIn(direct.got))
  })

  it('exchange the same content with all other features, and no tool for references is there', async () => {
    const server = await startFakeServer({ revision, transport })
    onTestFinished(() => server.close())
    const gateway = await gatewayTo(server, plainFeatures({ validate: 'off' }))
    const url = `${gateway}/${transport === 'sse' ? 'sse' : 'mcp'}/one`
    for (const [, params] of requests) {
      const direct = await exchange(server, server.url, revision, params)
      const { reply, got } = await exchange(server, url, revision, params)
      expect(textAt(reply.text, ['result', 'content'])).toBe(textAt(direct.reply.text, ['result', 'content']))
      expect(textAt(got, ['params', 'arguments'])).toBe(textAt(direct.got, ['params', 'arguments']))
      expect(flagsIn(got)).toEqual(flagsIn(direct.got))
      expect(reply.text).not.toContain('data_reference')
    }
    const client = await clientOf(url, revision)
    expect((await client.request('tools/list', {})).text).not.toContain('read_reference')
    // It may be a resource of the server.
    await client.request('resources/read', { uri: 'ref://ref_1' })
    expect(textAt(server.received('resources/read').at(-1)?.text ?? '', ['params', 'uri'])).toBe(
      '"ref://ref_1"',
    )
  })
})

async function gatewayTo(server: FakeServer, features: unknown): Promise<string> {
  const gateway = await localGateway({
    listen: { legacy_sse: 'on' },
    features,
    upstreams: { one: { url: server.url } },
  })
  onTestFinished(() => gateway.close())
  return gateway.origin
}

async function clientOf(url: string, revision: Revision): Promise<FakeClient> {
  const transport = remoteTransport(revision)
  const client = await connect({ transport, url, revision })
  onTestFinished(() => client.close().catch(() => undefined))
  return client
}

/** Makes a call: the answer as the client got it, and the request as the server got it. */
async function exchange(
  server: FakeServer,
  url: string,
  revision: Revision,
  params: Json,
): Promise<{ readonly reply: Reply; readonly got: string }> {
  const client = await clientOf(url, revision)
  const reply = await client.request('tools/call', params)
  return { reply, got: server.received('tools/call').at(-1)?.text ?? '' }
}

function flagsIn(text: string): Json {
  const meta = objectAt(objectAt(JSON.parse(text) as Json, 'params'), '_meta')
  return Object.fromEntries(Object.entries(meta).filter(([name]) => name.startsWith('dev.gatehouse/')))
}

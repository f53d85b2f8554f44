// Servers whose tool list fails: their tools can still be called, after a person confirmed the call.
import { describe, expect, test } from 'vitest'
import { closedAtEnd } from '../../support/closed-at-end.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { type ScriptedServer, scriptedServer } from '../../support/scripted-server.ts'
import type { Json } from '../../support/server/json.ts'

const done = { content: [{ type: 'text', text: 'done' }] }

/** A server that answers calls and handles lists like this, and a gateway in front of it. */
async function unlisted(
  list: () => Json | undefined,
  settings: Json = {},
): Promise<{ readonly gateway: LocalGateway; readonly server: ScriptedServer; readonly client: FakeClient }> {
  const server = closedAtEnd(
    await scriptedServer({ tools: {} }, { 'tools/list': list, 'tools/call': () => done }),
  )
  const gateway = closedAtEnd(
    await localGateway({ upstreams: { one: { url: server.url, start_timeout: '2s', ...settings } } }),
  )
  const client = closedAtEnd(
    await connect({
      transport: 'http',
      url: `${gateway.origin}/mcp/one`,
      revision: '2025-11-25',
      capabilities: { elicitation: {} },
      answers: { 'elicitation/create': () => ({ action: 'accept', content: { confirm: true } }) },
    }),
  )
  return { gateway, server, client }
}

const failures: readonly (readonly [string, () => Json | undefined])[] = [
  ['refuses', () => ({ error: { code: -32603, message: 'the database is down' } })],
  ['responds with something other than a list', () => ({ tools: 'none' })],
  ['does not respond', () => undefined],
]

describe.each(failures)('a server that %s when its tools are listed', (_what, list) => {
  test('runs a call after a person confirmed it, and the log gives the reason', async () => {
    const { client, gateway, server } = await unlisted(list)
    // Arguments are not validated: there is no schema.
    const call = { name: 'get_anything', arguments: { any: { thing: null } } }
    const reply = await client.request('tools/call', call)
    expect(reply.result).toMatchObject(done)
    expect(client.asked).toHaveLength(1)
    expect(server.seen.filter(({ method }) => method === 'tools/call')).toHaveLength(1)
    expect(gateway.lines).toContainEqual(
      expect.objectContaining({ level: 'warn', event: 'upstream.list_failed', upstream: 'one' }),
    )
  })

  test('follows the configured settings of its tools', async () => {
    const { client } = await unlisted(list, {
      tools: { 'get_*': { risk: 'safe' } },
      deny: { drop_all: true },
    })
    const read = await client.request('tools/call', { name: 'get_anything', arguments: {} })
    expect(read.result).toMatchObject(done)
    expect(client.asked).toHaveLength(0)
    const denied = await client.request('tools/call', { name: 'drop_all', arguments: {} })
    expect(denied.text).toContain('PERMISSION_DENIED')
  })
})

test('a list that never arrives is awaited only once', async () => {
  const { client } = await unlisted(() => undefined, {
    start_timeout: '4s',
    tools: { '*': { risk: 'safe' } },
  })
  const call = { name: 'get_anything', arguments: {} }
  await client.request('tools/call', call)
  const start = performance.now()
  for (let made = 0; made < 10; made++) await client.request('tools/call', call)
  // Ten times the time that the list is awaited for.
  expect(performance.now() - start).toBeLessThan(40_000)
})

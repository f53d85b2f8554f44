import { describe, expect, it, onTestFinished } from 'vitest'
import { textOf } from '../../support/client/options.ts'
import type { FakeClient } from '../../support/fake-client.ts'
import { clientOf, codeOf, folder, gatewayTo, httpServer, stdioServer } from '../../support/journey.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { alone } from '../../support/scattered.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

const LOST = 'dev.gatehouse/context_lost'
const http = { revision: '2025-11-25', transport: 'streamable' }
/** One tool under names that say what it does. */
const tools = { echo: { rename: 'navigate' }, big: { op: 'write' } }

const call = (client: FakeClient, name: string, args: Json = {}) =>
  client.request('tools/call', { name, arguments: args })

function lostIn(reply: Awaited<ReturnType<typeof call>>): unknown {
  return objectAt(reply.result, '_meta')[LOST]
}

describe('a server over HTTP that forgets its sessions', () => {
  it('says so to the session that had set something up: a write is refused once, unsent', async () => {
    const server = await httpServer()
    const gateway = await gatewayTo({ one: { url: server.url, ...http, tools } })
    const client = await clientOf(gateway)
    const other = await clientOf(gateway)
    expect(lostIn(await call(client, 'navigate'))).toBeUndefined()
    server.expireSessions()
    const sent = server.received('tools/call').length
    const refused = await call(client, 'big')
    expect(codeOf(refused)).toBe('CONFLICT')
    expect(JSON.stringify(refused.result)).toContain('navigate')
    // It was refused by the server, which forgot the session, and not sent again.
    expect(server.received('tools/call').length).toBeLessThanOrEqual(sent + 1)
    const again = await call(client, 'big')
    expect(codeOf(again)).toBeUndefined()
    expect(lostIn(again)).toBeUndefined()
    expect(codeOf(await call(other, 'big'))).toBeUndefined()
  })

  it('says so in the result of a call that sets it up again', async () => {
    const server = await httpServer()
    const client = await clientOf(await gatewayTo({ one: { url: server.url, ...http, tools } }))
    await call(client, 'navigate')
    server.expireSessions()
    const reply = await call(client, 'navigate', { n: 1 })
    expect(lostIn(reply)).toMatchObject({ tools: ['navigate'] })
    expect(textOf(reply)).toContain('{"n":1}')
    expect(JSON.stringify(reply.result?.['content'])).toContain('is lost')
    expect(lostIn(await call(client, 'navigate'))).toBeUndefined()
  })

  it.each([
    ['context: off', { context: 'off' }, { echo: { rename: 'navigate' } }, false],
    ['no tool that sets anything up', {}, { echo: { rename: 'look' } }, false],
    ['context: keeps', { context: 'keeps' }, { echo: { rename: 'add', op: 'write' } }, true],
    ['isolation: per_client', { isolation: 'per_client' }, { echo: { rename: 'add', op: 'write' } }, true],
  ])('with %s', async (_title, more, named, isRefused) => {
    const server = await httpServer()
    const one = { url: server.url, ...http, ...more, tools: { ...named, big: { op: 'write' } } }
    const client = await clientOf(await gatewayTo({ one }))
    await call(client, named.echo.rename)
    server.expireSessions()
    expect(codeOf(await call(client, 'big'))).toBe(isRefused ? 'CONFLICT' : undefined)
    expect(codeOf(await call(client, 'big'))).toBeUndefined()
  })
})

describe.each(['2025-11-25', '2026-07-28'] as const)(
  'a gateway that restarts, for a client of %s',
  (revision) => {
    it.each([
      ['what reads runs, and says so', 'slow', undefined],
      ['a write is refused once', 'big', 'CONFLICT'],
    ])('lost what a session had set up: %s', async (_title, name, code) => {
      alone('each gateway starts servers over stdio')
      const one = stdioServer({}, { tools: { ...tools, slow: { op: 'read' } } })
      const config = { features: { confirm: 'off' }, store: folder(), upstreams: { one } }
      const gateway = await localGateway(config)
      const client = await clientOf(gateway, { revision })
      await call(client, 'navigate')
      await gateway.close()
      const port = Number(new URL(gateway.origin).port)
      const next = await localGateway({ ...config, listen: { port } })
      onTestFinished(() => next.close())
      const reply = await call(client, name, { ms: 1, steps: 1 })
      expect(codeOf(reply)).toBe(code)
      expect(lostIn(reply)).toMatchObject({ tools: ['navigate'] })
      const again = await call(client, name, { ms: 1, steps: 1 })
      expect([codeOf(again), lostIn(again)]).toEqual([undefined, undefined])
    })
  },
)

describe.each(['2025-11-25', '2026-07-28'] as const)('a process of %s that ends', (revision) => {
  it('lost what a session had set up: what reads runs, and says so', async () => {
    alone('each gateway starts servers over stdio')
    const named = { ...tools, slow: { op: 'read' } }
    const client = await clientOf(await gatewayTo({ one: stdioServer({ revision }, { tools: named }) }), {
      revision,
    })
    await call(client, 'navigate')
    await call(client, 'crash').catch(() => undefined)
    const reply = await call(client, 'slow', { ms: 1, steps: 1 })
    expect(lostIn(reply)).toMatchObject({ tools: ['navigate'] })
    expect(codeOf(await call(client, 'big'))).toBeUndefined()
  })
})

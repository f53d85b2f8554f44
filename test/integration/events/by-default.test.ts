import { expect, test, vi } from 'vitest'
import { MemoryStore } from '../../../src/store/memory.ts'
import { authorizationServer, CALLERS, CLIENT } from '../../support/authorization-server.ts'
import { ask } from '../../support/event-stream-client.ts'
import { clientOf, gatewayTo, httpServer } from '../../support/journey.ts'
import { localGateway } from '../../support/local-gateway.ts'
import { protectedServer, unauthorized } from '../../support/protected-server.ts'
import { alone } from '../../support/scattered.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

/** What is called in the store, as `<operation> <kind of key>`, from now on. */
function storeCalls() {
  const calls: string[] = []
  const names = ['get', 'put', 'setIfAbsent', 'compareAndSwap', 'delete', 'compareAndDelete'] as const
  for (const name of names) {
    const real = MemoryStore.prototype[name] as (...args: never[]) => Promise<never>
    vi.spyOn(MemoryStore.prototype, name).mockImplementation(function (
      this: MemoryStore,
      ...args: unknown[]
    ) {
      calls.push(`${name} ${/^[a-z-]+/.exec(String(args[0]))?.[0]}`)
      return real.apply(this, args as never[])
    })
  }
  return calls
}

/** The calls of the store that belong to events. */
function ofEvents(calls: readonly string[]): string[] {
  return calls.filter((each) =>
    /^\S+ (?:event-|log$|subscription|dead-letter|verified|hook|watch)/.test(each),
  )
}

test('without clients that want events, calls neither read nor write the store for them', async () => {
  alone('it counts what one gateway asks its store')
  const server = await httpServer()
  const gateway = await localGateway({
    features: { confirm: 'off' },
    // It has a log of its own.
    observe: { calls: false },
    upstreams: { one: { url: server.url, tools: { separators: { op: 'write' } } } },
  })
  try {
    const client = await clientOf(gateway)
    const session = async (): Promise<void> => {
      await client.request('tools/list')
      await client.request('resources/list')
      await client.request('prompts/list')
      for (let times = 0; times < 5; times++) {
        await client.request('tools/call', { name: 'echo', arguments: { text: 'hello' } })
        await client.request('tools/call', { name: 'separators', arguments: {} })
      }
    }
    await session()
    const calls = storeCalls()
    await session()
    expect(ofEvents(calls)).toEqual([])
    await ask(`${gateway.origin}/mcp/one`, 'events/poll', { name: 'tools_changed', arguments: {} })
    await session()
    expect(ofEvents(calls)).not.toEqual([])
  } finally {
    vi.restoreAllMocks()
    await gateway.close()
  }
})

test('the tools of subscriptions are in no list of tools, unless `meta_tools: listed`', async () => {
  const server = await httpServer()
  const upstreams = { one: { url: server.url } }
  const toolsOf = async (config: Json): Promise<unknown> => {
    const client = await clientOf(await gatewayTo(upstreams, { config }))
    return objectAt(await client.request('tools/list'), 'result')['tools']
  }
  const own = ['subscribe_events', 'unsubscribe_events', 'list_events', 'poll_events']
  expect(await toolsOf({})).toEqual(await toolsOf({ features: { events: 'off' } }))
  const listed = own.map((name) => expect.objectContaining({ name }))
  expect(await toolsOf({ meta_tools: 'listed' })).toEqual(expect.arrayContaining(listed))
})

/** A server that takes the tokens of each user, and what sends requests of `alice` to it. */
async function personalServer(features: object) {
  const authority = await authorizationServer()
  const server = await protectedServer(async (token, url) => {
    const claims = token && (await authority.verify(token, url).catch(() => undefined))
    return claims ? undefined : unauthorized(url, 'read')
  })
  server.metadata = { resource: server.url, authorization_servers: [authority.issuer] }
  const oauth = { grant: 'token_exchange', client_id: CLIENT.id, client_secret: CLIENT.secret }
  const audience = 'https://gateway.example/mcp'
  const auth = { development: 'on', jwt: { ...CALLERS, audience } }
  const gateway = await gatewayTo(
    { one: { url: server.url, oauth } },
    { config: { auth, features }, warm: false },
  )
  const headers = { authorization: `Bearer ${await authority.tokenFor('alice', audience)}` }
  const capabilities = async () => {
    const result = await ask(gateway.url, 'server/discover', {}, { headers })
    return objectAt(result, 'capabilities')
  }
  const send = (method: string, params = {}) => ask(gateway.url, method, params, { headers })
  const seen = (method: string) => server.inner.received(method)
  return { send, seen, capabilities }
}

const params = { name: 'build.done', arguments: {}, delivery: { mode: 'webhook', url: 'https://a.example' } }
const methods = ['events/list', 'events/poll', 'events/stream', 'events/subscribe', 'events/unsubscribe']

test('a server for which each user has credentials gets the requests for its events unchanged', async () => {
  const { send, seen, capabilities } = await personalServer({})
  expect(await capabilities()).not.toHaveProperty('events')
  for (const method of methods) {
    expect(await send(method, params)).toMatchObject({ error: { code: -32601 } })
    expect(seen(method)).toMatchObject([{ message: { params } }])
  }
})

test('if the configuration turns events on, such a server has those of the gateway instead', async () => {
  const { send, seen, capabilities } = await personalServer({ events: 'on' })
  expect(await capabilities()).toHaveProperty('events')
  expect(await send('events/list')).toMatchObject({ events: expect.any(Array) })
  for (const method of methods) {
    await send(method, params)
    expect(seen(method)).toEqual([])
  }
})

test('with `methods: off`, no request for events reaches the server with the credentials of the gateway', async () => {
  const server = await httpServer({ revision: '2026-07-28' })
  const gateway = await gatewayTo({ one: { url: server.url } }, { config: { methods: 'off' } })
  for (const method of methods) {
    await ask(gateway.url, method, params)
    expect(server.received(method)).toEqual([])
  }
})

test('with `events: off`, the requests for events are for the server', async () => {
  const server = await httpServer({ revision: '2026-07-28' })
  const gateway = await gatewayTo({ one: { url: server.url } }, { config: { features: { events: 'off' } } })
  for (const method of methods) {
    expect(await ask(gateway.url, method, params)).toMatchObject({ error: { code: -32601 } })
    expect(server.received(method)).toMatchObject([{ message: { params } }])
  }
})

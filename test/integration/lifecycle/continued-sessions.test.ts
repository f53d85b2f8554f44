// Sessions of older clients outlive their gateway: another one with the same store continues them.
import { hash } from 'node:crypto'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { SSEClientTransport } from '@modelcontextprotocol/sdk/client/sse.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { describe, expect, onTestFinished, test } from 'vitest'
import { open, post, whole } from '../../support/client/raw.ts'
import type { SseEvent } from '../../support/client/sse-parser.ts'
import { knownCallers } from '../../support/auth/callers.ts'
import { folder, httpServer } from '../../support/journey.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { eventsUntil, messageOf, openSession, toolCall } from '../../support/raw-session.ts'
import { alone } from '../../support/scattered.ts'
import type { HeaderMap } from '../../support/server/journal.ts'
import { isObject, type Json, parse } from '../../support/server/json.ts'
import { watchedUri } from '../../support/server/world.ts'
import { callerHash } from '../../../src/records/principal.ts'
import { openStore } from '../../../src/store/open.ts'
import { silentLog } from '../../support/silent-log.ts'

let lastId = 0
const echo = (): Json => toolCall(`call ${++lastId}`, 'echo', { text: 'still here' })

/** A gateway that can be closed and started again, with the same store, at the same address. */
async function lasting(more: Json = {}) {
  const server = await httpServer()
  const store = folder()
  const config = { features: { confirm: 'off' }, store, upstreams: { one: { url: server.url } }, ...more }
  let gateway = await localGateway(config)
  const port = Number(new URL(gateway.origin).port)
  const { url } = gateway
  onTestFinished(() => gateway.close())
  return {
    server,
    store,
    url,
    gateway: (): LocalGateway => gateway,
    async restart(between?: () => Promise<void>) {
      await gateway.close()
      await between?.()
      const listen = { ...Object(more['listen']), port }
      gateway = await localGateway({ ...config, listen })
    },
  }
}

async function called(url: string, headers: HeaderMap): Promise<unknown> {
  const reply = await post(url, JSON.stringify(echo()), headers)
  const message = reply.events.length > 0 ? messageOf(reply.events.at(-1)) : parse(reply.text)
  return isObject(message) && isObject(message['result']) ? message['result']['content'] : reply.status
}

const answered = [{ type: 'text', text: '{"text":"still here"}' }]

describe.each(['2024-11-05', '2025-03-26', '2025-06-18', '2025-11-25'])('a session of %s', (revision) => {
  test('continues after a restart of the gateway, without another handshake', async () => {
    const { url, server, restart } = await lasting()
    const { headers } = await openSession(url, revision, { elicitation: {} })
    expect(await called(url, headers)).toEqual(answered)
    await restart()
    expect(await Promise.all([called(url, headers), called(url, headers)])).toEqual([answered, answered])
    expect(server.violations).toEqual([])
  })
})

describe('a continued session', () => {
  test('has its subscriptions and log level, and learns once that every list may have changed', async () => {
    const { url, server, restart } = await lasting()
    const session = await openSession(url, '2025-11-25')
    const request = (method: string, params: Json) =>
      session.post({ jsonrpc: '2.0', id: method, method, params })
    await request('resources/subscribe', { uri: watchedUri })
    await request('logging/setLevel', { level: 'error' })
    const before = await session.get()
    server.change('tools')
    const [last] = await eventsUntil(before.events(), isChange)
    await restart()
    const from = server.seen.length
    const [stream, ...replies] = await Promise.all([
      session.get(last?.id),
      ...[1, 2, 3].map(() => called(url, session.headers)),
    ])
    expect(replies).toEqual([answered, answered, answered])
    const events = stream.events()
    const read = await eventsUntil(events, (event) => String(event.data).includes('resources/list_changed'))
    expect(read.map(messageOf).map(({ method }) => method)).toEqual(
      ['tools', 'prompts', 'resources'].map((list) => `notifications/${list}/list_changed`),
    )
    server.change('watched')
    const [updated] = await eventsUntil(events, isChange)
    expect(messageOf(updated)).toMatchObject({
      method: 'notifications/resources/updated',
      params: { uri: watchedUri },
    })
    expect(
      server.seen.slice(from).filter(({ message }) => message?.['method'] === 'resources/subscribe'),
    ).toHaveLength(1)
    const { events: logged } = await session.post(toolCall(8, 'log', { levels: ['info', 'error'] }))
    const levels = logged.map(messageOf).filter(({ method }) => method === 'notifications/message')
    expect(levels.map(({ params }) => Object(params).level)).toEqual(['error'])
    stream.destroy()
  })

  test('keeps the capabilities of its client, which a server can rely on', async () => {
    const { url, restart } = await lasting()
    const session = await openSession(url, '2025-11-25', { elicitation: {} })
    await restart()
    const reply = await session.send(toolCall(9, 'ask_form'))
    const read = await eventsUntil(reply.events(), (event) => Boolean(event.data))
    expect(messageOf(read.at(-1))).toMatchObject({ method: 'elicitation/create' })
    reply.destroy()
  })

  test('outlives changes of the configuration', async () => {
    alone('the other gateways do not find sessions whose store was left')
    const { url, server, gateway } = await lasting()
    const { headers } = await openSession(url, '2025-06-18')
    await gateway().reload({
      store: 'memory',
      features: { confirm: 'off' },
      upstreams: { one: { url: server.url } },
    })
    expect(await called(url, headers)).toEqual(answered)
  })

  test('is continued by another gateway with the same store, only for its caller and endpoint', async () => {
    const { auth, bearer } = knownCallers(['ada', 'bob'])
    const { url, restart } = await lasting({ auth })
    const { headers } = await openSession(url, '2025-06-18', {}, bearer('ada'))
    await restart()
    for (let count = 0; count < 2; count++) {
      expect(await called(url, { ...headers, ...bearer('bob') })).toBe(404)
      expect(await called(`${url}/one`, headers)).toBe(404)
      expect(await called(url, headers)).toEqual(answered)
    }
  })

  test('does not continue once its client has deleted it', async () => {
    const { url, restart } = await lasting()
    const [one, other] = [await openSession(url, '2025-06-18'), await openSession(url, '2025-06-18')]
    const remove = (headers: HeaderMap) => open(url, { method: 'DELETE', headers }).then(whole)
    expect(await remove(one.headers)).toMatchObject({ status: 204 })
    expect(await called(url, one.headers)).toBe(404)
    await restart()
    expect(await called(url, one.headers)).toBe(404)
    // Also one that was not continued before.
    expect(await remove(other.headers)).toMatchObject({ status: 204 })
    expect(await called(url, other.headers)).toBe(404)
  })

  test('whose record cannot be read is not found, and the log says so', async () => {
    const texts = ['', 'null', '{"revision":', '{"revision":"2025-06-18","uris":[1]}', '[]', '\u0000']
    const { url, store, gateway, restart } = await lasting()
    const sessions = await Promise.all(texts.map(() => openSession(url, '2025-06-18')))
    const ids = sessions.map(({ headers }) => headers['mcp-session-id'] ?? '')
    await restart(async () => {
      const kept = openStore({ kind: 'folder', path: store }, silentLog)
      for (const [index, id] of ids.entries()) {
        const key = `client-session/${callerHash('anonymous')}:${hash('sha256', id).slice(0, 32)}`
        expect(await kept.get(key)).toContain('2025-06-18')
        expect(await kept.get(key)).not.toContain(id)
        await kept.put(key, texts[index] ?? '', 60_000)
      }
      await kept.close()
    })
    for (const { headers } of sessions) expect(await called(url, headers)).toBe(404)
    expect(gateway().lines.filter(({ event }) => event === 'session.unreadable')).toHaveLength(texts.length)
    const again = await openSession(url, '2025-06-18')
    expect(await called(url, again.headers)).toEqual(answered)
  })
})

describe('a client of the SDK 1.x', () => {
  test('lists and calls with the same object after a restart, and is notified', async () => {
    const { url, server, restart } = await lasting()
    const client = new Client({ name: 'sdk', version: '1' })
    const heard: string[] = []
    client.fallbackNotificationHandler = async ({ method }) => void heard.push(method)
    await client.connect(new StreamableHTTPClientTransport(new URL(url)))
    onTestFinished(() => client.close())
    const before = await client.listTools()
    await restart()
    expect(await client.listTools()).toEqual(before)
    expect(await client.callTool({ name: 'echo', arguments: { text: 'still here' } })).toMatchObject({
      content: answered,
    })
    await expect.poll(() => heard.length, { timeout: 10_000 }).toBe(3)
    server.change('tools')
    await expect.poll(() => heard.length).toBe(4)
  })
})

describe('a session over HTTP+SSE', () => {
  test('continues on the stream of a client that names it, and on no other', async () => {
    alone('a client that keeps the address of an earlier stream has to reach the gateway of the present one')
    const { url, restart } = await lasting({ listen: { legacy_sse: true } })
    const stream = (path: string, headers: HeaderMap) =>
      open(new URL(path, url).href, { method: 'GET', headers: { accept: 'text/event-stream', ...headers } })
    const first = await stream('/sse', {})
    const [endpoint] = await eventsUntil(first.events(), () => true)
    const id = endpoint?.id ?? ''
    expect(endpoint?.data).toMatch(new RegExp(`^/messages\\?session_id=${id}&at=[\\w-]+$`))
    const say = async (to: SseEvent | undefined, message: Json) => {
      const { status } = await post(new URL(to?.data ?? '', url).href, JSON.stringify(message))
      return status
    }
    const params = {
      protocolVersion: '2024-11-05',
      capabilities: {},
      clientInfo: { name: 'c', version: '1' },
    }
    const initialize = { jsonrpc: '2.0', id: 0, method: 'initialize', params }
    expect(await say(endpoint, initialize)).toBe(202)
    await eventsUntil(first.events(), (event) => messageOf(event)['id'] === 0)
    await restart()
    // Neither another transport nor another endpoint continues it.
    expect(await called(url, { 'mcp-session-id': id })).toBe(404)
    const other = await stream('/sse/one', { 'last-event-id': id })
    expect((await eventsUntil(other.events(), () => true))[0]?.id).not.toBe(id)
    for (let count = 0; count < 2; count++) {
      const next = await stream('/sse', { 'last-event-id': id })
      const events = next.events()
      expect(await eventsUntil(events, () => true)).toMatchObject([{ event: 'endpoint', id }])
      // Also for a client that keeps the address that it had.
      expect(await say(endpoint, echo())).toBe(202)
      const read = await eventsUntil(events, (event) => messageOf(event)['result'] !== undefined)
      expect(messageOf(read.at(-1))).toMatchObject({ result: { content: answered } })
    }
    // A client that begins again may do so.
    const last = (await stream('/sse', { 'last-event-id': id })).events()
    await eventsUntil(last, () => true)
    await say(endpoint, initialize)
    const read = await eventsUntil(last, (event) => messageOf(event)['id'] === 0)
    expect(messageOf(read.at(-1))).toMatchObject({ result: { protocolVersion: '2024-11-05' } })
  })

  test('is replaced by one that needs no handshake, for a client that says what it negotiated', async () => {
    const { url, restart } = await lasting({ listen: { legacy_sse: true } })
    const client = new Client({ name: 'sdk', version: '1' })
    const heard: string[] = []
    client.fallbackNotificationHandler = async ({ method }) => void heard.push(method)
    await client.connect(new SSEClientTransport(new URL('/sse', url)))
    onTestFinished(() => client.close())
    const before = await client.listTools()
    await restart()
    await expect.poll(() => heard.length, { timeout: 10_000 }).toBe(3)
    expect(await client.listTools()).toEqual(before)
    expect(await client.callTool({ name: 'echo', arguments: { text: 'still here' } })).toMatchObject({
      content: answered,
    })
  })
})

function isChange({ data }: SseEvent): boolean {
  return /list_changed|updated/.test(String(data))
}

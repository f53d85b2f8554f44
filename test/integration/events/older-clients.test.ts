// Events for clients without the events extension: unchanged clients of the official SDKs, and plain HTTP, in front of the
// published file system server, whose writes are the events, and of the published example server.
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { tokenHash } from '../../support/auth/token-hash.ts'
import { SseParser } from '../../support/client/sse-parser.ts'
import { until } from '../../support/condition.ts'
import { gatewayProgram } from '../../support/gateway-process.ts'
import { type RunningGateway, startGateway } from '../../support/gateway.ts'
import { type EventClient, eventSdk1, eventSdk2 } from '../../support/peers/event-clients.ts'
import type { Way } from '../../support/peers/client.ts'
import { everything, publishedServer } from '../../support/peers/servers.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

const kinds = [
  { title: 'the SDK 1.x over stdio', transport: 'stdio', connect: eventSdk1 },
  { title: 'the SDK 1.x over Streamable HTTP', transport: 'http', connect: eventSdk1 },
  { title: 'the SDK 1.x over HTTP+SSE', transport: 'sse', connect: eventSdk1 },
  { title: 'the SDK 2.x in an older revision over stdio', transport: 'stdio', connect: eventSdk2(false) },
  { title: 'the SDK 2.x in an older revision over HTTP', transport: 'http', connect: eventSdk2(false) },
  { title: 'the SDK 2.x in 2026-07-28 over stdio', transport: 'stdio', connect: eventSdk2(true) },
  { title: 'the SDK 2.x in 2026-07-28 over HTTP', transport: 'http', connect: eventSdk2(true) },
] as const

const TOKEN = 'token-of-ada-in-the-test'
const OTHER_TOKEN = 'token-of-bob-in-the-test'
const written = 'write_file.succeeded'
/** It is written, and masked. */
const CANARY = 'canary-of-the-content'

let root: string
let folder: string
let gateway: RunningGateway

function config(features: Json = {}, more: Json = {}): Json {
  const command = publishedServer('@modelcontextprotocol/server-filesystem', root)
  return {
    listen: { legacy_sse: true },
    store: join(folder, 'store'),
    features: { events: 'on', confirm: 'off', mask: { rules: [{ pattern: CANARY }] }, ...features },
    upstreams: { files: { command } },
    ...more,
  }
}

beforeAll(async () => {
  root = realpathSync(mkdtempSync(join(tmpdir(), 'gatehouse-files-')))
  folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  mkdirSync(join(root, 'notes'))
  const own = { ...config(), store: 'memory' }
  writeFileSync(join(folder, 'stdio.yaml'), JSON.stringify(own))
  gateway = await startGateway(own)
})
afterAll(async () => {
  await gateway.close()
  for (const each of [root, folder]) rmSync(each, { recursive: true, force: true })
})

function wayTo(transport: Way['transport'], { origin } = gateway): Way {
  if (transport === 'stdio')
    return {
      transport,
      command: [...gatewayProgram(), 'stdio', '--config', join(folder, 'stdio.yaml')],
    }
  return { transport, url: `${origin}/${transport === 'sse' ? 'sse' : 'mcp'}/files` }
}

async function write(client: EventClient, name: string): Promise<void> {
  const args = { path: join(root, 'notes', name), content: `with ${CANARY}` }
  expect(await client.call('write_file', args)).not.toMatchObject({ isError: true })
}

function eventsOf({ received }: EventClient): Json[] {
  return received.filter(({ method }) => method === 'notifications/event').map(({ params }) => params)
}

function pathsIn(events: readonly Json[]): string[] {
  const paths = events.map((event) => String(objectAt(objectAt(event, 'payload'), 'arguments')['path']))
  return paths.map((path) => path.slice(path.lastIndexOf('/') + 1))
}

describe.each(kinds)('$title', ({ transport, connect }) => {
  it('receives the events that it subscribed to in order, and polls them', async () => {
    const client = await connect(wayTo(transport))
    onTestFinished(() => client.close())
    const answer = await client.subscribe({
      events: [written],
      filter: { path: '*.txt' },
      ttl_seconds: 600,
    })
    expect(answer).toMatchObject({ status: 'active', supported_events: expect.arrayContaining([written]) })
    const id = answer['subscription_id']
    for (const name of ['1.txt', 'other.md', '2.txt', '3.txt']) await write(client, name)
    await expect.poll(() => pathsIn(eventsOf(client))).toEqual(['1.txt', '2.txt', '3.txt'])
    const [first] = eventsOf(client)
    expect(first).toMatchObject({
      type: 'event',
      subscription_id: id,
      event: written,
      event_type: written,
      event_id: expect.any(String),
      payload: { tool: 'write_file' },
      _meta: { 'dev.gatehouse/untrusted': true },
    })
    const again = await client.call('poll_events', { subscription_id: id, after: first?.['cursor'] })
    expect(pathsIn(again['events'] as Json[])).toEqual(['2.txt', '3.txt'])
    expect(JSON.stringify([client.received, again])).not.toContain(CANARY)
    const ended = await client.call('unsubscribe_events', { subscription_id: id })
    expect(ended).toEqual({ subscription_id: id, status: 'cancelled' })
    await write(client, '4.txt')
    const missing = await client.call('poll_events', { subscription_id: id })
    expect(missing).toMatchObject({ isError: true })
    expect(eventsOf(client)).toHaveLength(3)
  })
})

/** What arrives on `GET /events/<id>`. */
async function openStream(url: string, headers: Record<string, string> = {}) {
  const closing = new AbortController()
  const response = await fetch(url, { headers, signal: closing.signal })
  const parser = new SseParser()
  const events: { readonly id: string | undefined; readonly message: Json }[] = []
  const state = { isOver: false }
  const read = async (): Promise<void> => {
    const decoder = new TextDecoder()
    for await (const chunk of response.body ?? [])
      for (const { id, data = '' } of parser.push(decoder.decode(chunk, { stream: true })))
        events.push({ id, message: JSON.parse(data) as Json })
  }
  const done = response.ok ? read().catch(() => undefined) : Promise.resolve()
  void done.then(() => (state.isOver = true))
  const params = () => events.map(({ message }) => objectAt(message, 'params'))
  return { response, events, params, state, close: () => closing.abort() }
}

async function post(path: string, body: Json, { origin } = gateway, token?: string) {
  const headers = {
    'content-type': 'application/json',
    ...(token !== undefined && { authorization: `Bearer ${token}` }),
  }
  const response = await fetch(`${origin}${path}`, { method: 'POST', headers, body: JSON.stringify(body) })
  return { status: response.status, body: (await response.json()) as Json }
}

describe('plain HTTP', () => {
  it('subscribes, streams events, resumes after the last one, and unsubscribes', async () => {
    const client = await eventSdk1(wayTo('http'))
    onTestFinished(() => client.close())
    const { body } = await post('/subscribe?upstream=files', { events: [written] })
    expect(body).toMatchObject({ status: 'active' })
    const id = String(body['subscription_id'])
    const first = await openStream(`${gateway.origin}/events/${id}`)
    expect(first.response.headers.get('content-type')).toBe('text/event-stream')
    for (const name of ['1', '2', '3']) await write(client, name)
    await expect.poll(() => pathsIn(first.params())).toEqual(['1', '2', '3'])
    expect(first.events[0]?.message).toMatchObject({ jsonrpc: '2.0', method: 'notifications/event' })
    first.close()
    const lastEventId = first.events[0]?.id ?? ''
    const resumed = await openStream(`${gateway.origin}/events/${id}`, { 'last-event-id': lastEventId })
    await expect.poll(() => pathsIn(resumed.params())).toEqual(['2', '3'])
    const ended = await post('/unsubscribe', { subscription_id: id })
    expect(ended).toEqual({ status: 200, body: { subscription_id: id, status: 'cancelled' } })
    await expect.poll(() => resumed.state.isOver).toBe(true)
    expect((await post('/unsubscribe', { subscription_id: id })).status).toBe(404)
    expect((await openStream(`${gateway.origin}/events/${id}`)).response.status).toBe(404)
  })

  it('ends the stream with a notice when the subscription expires', async () => {
    const { body } = await post('/subscribe', { events: [written], ttl_seconds: 0.5 })
    const stream = await openStream(`${gateway.origin}/events/${String(body['subscription_id'])}`)
    await expect.poll(() => stream.state.isOver).toBe(true)
    expect(stream.events.map(({ message }) => message)).toEqual([
      {
        jsonrpc: '2.0',
        method: 'notifications/subscription_terminated',
        params: { subscription_id: body['subscription_id'], reason: 'expired' },
      },
    ])
  })

  it('gets an error for a body, an event or a cursor that does not fit', async () => {
    expect(await post('/subscribe', { events: ['nothing'] })).toMatchObject({
      status: 200,
      body: { status: 'denied' },
    })
    expect((await post('/subscribe', { events: 'x' })).status).toBe(400)
    expect((await post('/subscribe?upstream=none', { events: [written] })).status).toBe(404)
    const { body } = await post('/subscribe', { events: [written] })
    const url = `${gateway.origin}/events/${String(body['subscription_id'])}`
    expect((await openStream(url, { 'last-event-id': 'x' })).response.status).toBe(400)
  })
})

describe('a client of 2026-07-28', () => {
  it('gets the acknowledgement with its subscription before the first event, both tagged', async () => {
    const writer = await eventSdk1(wayTo('http'))
    onTestFinished(() => writer.close())
    const { body } = await post('/subscribe', { events: [written] })
    const id = String(body['subscription_id'])
    // It is pending before the stream opens.
    await write(writer, 'early')
    const unknown = '0b0f6c1e-4c6e-4f0e-9a58-3f2f6b1f0a11'
    const closing = new AbortController()
    onTestFinished(() => closing.abort())
    const response = await fetch(`${gateway.url}/files`, {
      method: 'POST',
      signal: closing.signal,
      headers: {
        'content-type': 'application/json',
        accept: 'application/json, text/event-stream',
        'mcp-protocol-version': '2026-07-28',
        'mcp-method': 'subscriptions/listen',
      },
      body: JSON.stringify({
        jsonrpc: '2.0',
        id: 'listening',
        method: 'subscriptions/listen',
        params: {
          notifications: { toolsListChanged: true, 'dev.gatehouse/events': [id, unknown] },
          _meta: {
            'io.modelcontextprotocol/protocolVersion': '2026-07-28',
            'io.modelcontextprotocol/clientInfo': { name: 'peer', version: '1.0.0' },
            'io.modelcontextprotocol/clientCapabilities': {},
          },
        },
      }),
    })
    const parser = new SseParser()
    const messages: Json[] = []
    const decoder = new TextDecoder()
    for await (const chunk of response.body ?? []) {
      for (const { data = '' } of parser.push(decoder.decode(chunk, { stream: true })))
        messages.push(JSON.parse(data) as Json)
      if (messages.length >= 2) break
    }
    const [acknowledged, event] = messages
    const tag = { 'io.modelcontextprotocol/subscriptionId': 'listening' }
    expect(acknowledged).toMatchObject({
      method: 'notifications/subscriptions/acknowledged',
      params: { notifications: { 'dev.gatehouse/events': [id] }, _meta: tag },
    })
    expect(event).toMatchObject({
      method: 'notifications/event',
      params: { subscription_id: id, event_type: written, _meta: tag },
    })
  })
})

describe('a gateway that starts again with the same store', () => {
  it('goes on with a subscription where it was, by polls and on a stream', async () => {
    const first = await startGateway(config())
    const client = await eventSdk1(wayTo('http', first))
    const { subscription_id: id } = await client.subscribe({ events: [written] })
    await write(client, '1')
    await expect.poll(() => pathsIn(eventsOf(client))).toEqual(['1'])
    await until(
      async () => (await client.call('poll_events', { subscription_id: id }))['cursor'],
      'a position',
    )
    await client.close()
    const watcher = await eventSdk1(wayTo('http', first))
    await watcher.subscribe({ events: ['tools_changed'] })
    const writer = await eventSdk1(wayTo('http', first))
    await write(writer, '2')
    await writer.close()
    await first.close()
    const ending = { method: 'notifications/subscription_terminated', params: { reason: 'shutdown' } }
    await expect.poll(() => watcher.received).toMatchObject([ending])
    await watcher.close()
    const second = await startGateway(config())
    onTestFinished(() => second.close())
    const next = await eventSdk1(wayTo('http', second))
    onTestFinished(() => next.close())
    const stream = await openStream(`${second.origin}/events/${String(id)}`)
    await expect.poll(() => pathsIn(stream.params())).toEqual(['2'])
    await write(next, '3')
    await expect.poll(() => pathsIn(stream.params())).toEqual(['2', '3'])
    stream.close()
  })
})

describe('a caller whose scopes are taken away by a reload', () => {
  it('gets a notice and no further event, on each channel', async () => {
    const all = ['read:files', 'write:files', 'delete:files']
    const withScopes = (scopes: readonly string[]): Json => {
      const ada = { hash: tokenHash(TOKEN), id: 'ada', scopes }
      const bob = { hash: tokenHash(OTHER_TOKEN), id: 'bob', scopes: all }
      return config({ events: { writes: 'all' } }, { auth: { opaque: { tokens: [ada, bob] } } })
    }
    const guarded = await startGateway({ ...withScopes(all), store: 'memory' })
    onTestFinished(() => guarded.close())
    const clients = await Promise.all([
      eventSdk1(wayTo('http', guarded), TOKEN),
      eventSdk1(wayTo('sse', guarded), TOKEN),
      eventSdk2(true)(wayTo('http', guarded), TOKEN),
    ])
    const bob = await eventSdk1(wayTo('http', guarded), OTHER_TOKEN)
    onTestFinished(async () => void (await Promise.all([...clients, bob].map((each) => each.close()))))
    for (const each of [...clients, bob])
      expect(await each.subscribe({ events: [written] })).toMatchObject({ status: 'active' })
    const { body } = await post('/subscribe', { events: [written] }, guarded, TOKEN)
    const url = `${guarded.origin}/events/${String(body['subscription_id'])}`
    const stream = await openStream(url, { authorization: `Bearer ${TOKEN}` })
    expect((await openStream(url)).response.status).toBe(401)
    const foreign = await openStream(url, { authorization: `Bearer ${OTHER_TOKEN}` })
    expect(foreign.response.status).toBe(404)
    await write(bob, '1')
    for (const each of [...clients, bob]) await expect.poll(() => pathsIn(eventsOf(each))).toEqual(['1'])
    await expect.poll(() => pathsIn(stream.params())).toEqual(['1'])
    guarded.configure({ ...withScopes(['read:files']), store: 'memory' })
    await guarded.logged(({ event }) => event === 'config.reloaded')
    await write(bob, '2')
    await expect.poll(() => pathsIn(eventsOf(bob))).toEqual(['1', '2'])
    const ending = { method: 'notifications/subscription_terminated', params: { reason: 'revoked' } }
    for (const each of clients) {
      await expect.poll(() => each.received.at(-1)).toMatchObject(ending)
      expect(pathsIn(eventsOf(each))).toEqual(['1'])
    }
    await expect.poll(() => stream.state.isOver).toBe(true)
    expect(stream.events.slice(1).map(({ message }) => message)).toMatchObject([ending])
  })
})

describe('the published example server', () => {
  it('updates a resource, and a client of an older revision receives the event', async () => {
    const command = publishedServer(everything, 'stdio')
    const shown = await startGateway({
      store: 'memory',
      features: { events: 'on' },
      upstreams: { shown: { command } },
    })
    onTestFinished(() => shown.close())
    const client = await eventSdk1({ transport: 'http', url: `${shown.url}/shown` })
    onTestFinished(() => client.close())
    const uri = 'demo://resource/dynamic/text/1'
    const answer = await client.subscribe({ events: ['resource_updated'], filter: { uri } })
    expect(answer).toMatchObject({ status: 'active' })
    await client.call('toggle-subscriber-updates', {})
    await expect
      .poll(() => eventsOf(client)[0])
      .toMatchObject({
        event: 'resource_updated',
        payload: { uri },
      })
  })
})

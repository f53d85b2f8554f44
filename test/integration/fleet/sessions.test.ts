// Sessions of older clients behind a load balancer that is not sticky: each is in one process, and the others forward to it.
import { hash } from 'node:crypto'
import { request } from 'node:http'
import { connect } from 'node:net'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js'
import { describe, expect, onTestFinished, test } from 'vitest'
import { createSeal, type Seal } from '../../../src/core/seal.ts'
import { createEnvelopes, type Decision } from '../../../src/downstream/http/hop/envelope.ts'
import { createMembership } from '../../../src/durable/members.ts'
import { callerHash } from '../../../src/records/principal.ts'
import { openStore } from '../../../src/store/open.ts'
import { knownCallers } from '../../support/auth/callers.ts'
import { open, post, whole } from '../../support/client/raw.ts'
import { callsOf, folder, gatewayProcessTo, httpServer } from '../../support/journey.ts'
import { type LocalGateway, localGateway } from '../../support/local-gateway.ts'
import { eventsUntil, messageOf, openSession, toolCall } from '../../support/raw-session.ts'
import { hasRedis, startRedis } from '../../support/redis-server.ts'
import { alone } from '../../support/scattered.ts'
import { scatteringFront } from '../../support/scattering-front.ts'
import type { HeaderMap } from '../../support/server/journal.ts'
import { type Json, objectAt } from '../../support/server/json.ts'
import { silentLog } from '../../support/silent-log.ts'

alone('the gateways are those of a fleet, of which each test chooses one')

const stores = hasRedis() ? (['folder', 'redis'] as const) : (['folder'] as const)

async function storeOf(kind: (typeof stores)[number]): Promise<string> {
  if (kind === 'folder') return folder()
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  return redis.url
}

/** Gateways that share a store, with a server behind them. */
async function sharing(
  count: number,
  { store = folder(), config = {} }: { store?: string; config?: Json } = {},
) {
  const server = await httpServer()
  const one = { features: { confirm: 'off' }, store, upstreams: { one: { url: server.url } }, ...config }
  const gateways: LocalGateway[] = []
  for (let index = 0; index < count; index++) gateways.push(closedOnce(await localGateway(one)))
  onTestFinished(async () => void (await Promise.all(gateways.map((gateway) => gateway.close()))))
  const at = (index: number): LocalGateway => gateways[index] ?? expect.unreachable()
  return { server, store, gateways, at, configuration: one }
}

function closedOnce(gateway: LocalGateway): LocalGateway {
  let closing: Promise<void> | undefined
  return { ...gateway, close: () => (closing ??= gateway.close()) }
}

/** The number of a metric of a gateway, over all labels that begin so. */
async function metric({ origin }: { readonly origin: string }, name: string): Promise<number> {
  const text = await (await fetch(`${origin}/metrics`)).text()
  const lines = text.split('\n').filter((line) => line.startsWith(name))
  return lines.reduce((sum, line) => sum + Number(line.split(' ').at(-1)), 0)
}

/** The key of the record of a session. */
function recordOf(headers: HeaderMap): string {
  const id = headers['mcp-session-id'] ?? ''
  return `client-session/${callerHash('anonymous')}:${hash('sha256', id).slice(0, 32)}`
}

const FORWARDS = 'gatehouse_fleet_forwards_total{outcome="answered"}'

async function called(url: string, headers: HeaderMap, message = toolCall(1, 'echo', { text: 'hi' })) {
  const reply = await post(url, JSON.stringify(message), headers)
  const last = reply.events.at(-1)
  return { status: reply.status, message: last ? messageOf(last) : (JSON.parse(reply.text || '{}') as Json) }
}

const answered = { status: 200, message: { result: { content: [{ text: '{"text":"hi"}' }] } } }

describe.each(stores)(
  'a client of the SDK whose requests reach each process in turn, with a store in %s',
  (kind) => {
    test('lists, calls, answers forms, sees progress, cancels, and is notified', async () => {
      // A cancelled call may be kept for an equal one.
      const config = { features: { confirm: 'off', idempotency: 'off' } }
      const { server, gateways, at } = await sharing(2, { store: await storeOf(kind), config })
      const front = await scatteringFront(gateways)
      const client = new Client({ name: 'sdk', version: '1' }, { capabilities: { elicitation: {} } })
      const heard: string[] = []
      client.fallbackNotificationHandler = async ({ method }) => void heard.push(method)
      client.setRequestHandler(ElicitRequestSchema, async () => ({
        action: 'accept',
        content: { name: 'Ada' },
      }))
      await client.connect(new StreamableHTTPClientTransport(new URL(front.url)))
      onTestFinished(() => client.close())
      const { tools } = await client.listTools()
      expect(tools.length).toBeGreaterThan(3)
      for (let index = 0; index < 6; index++) {
        const text = `call ${index}`
        const { content } = await client.callTool({ name: 'echo', arguments: { text } })
        expect(content).toEqual([{ type: 'text', text: JSON.stringify({ text }) }])
        const asked = await client.callTool({ name: 'ask_form', arguments: {} })
        expect(JSON.stringify(asked.content)).toContain('Ada')
      }
      const steps: number[] = []
      await client.callTool({ name: 'slow', arguments: {} }, undefined, {
        onprogress: ({ progress }) => void steps.push(progress),
      })
      expect(steps).toEqual([1, 2, 3])
      for (let index = 0; index < 2; index++) {
        const stop = new AbortController()
        const given = { name: 'slow', arguments: { ms: 600_000 + index } }
        const hanging = client.callTool(given, undefined, { signal: stop.signal })
        await expect.poll(() => callsOf(server, 'slow')).toBe(index + 2)
        stop.abort('enough')
        await expect(hanging).rejects.toThrow('enough')
        await expect.poll(() => server.received('notifications/cancelled').length).toBe(index + 1)
      }
      server.change('tools')
      await expect.poll(() => heard).toContain('notifications/tools/list_changed')
      expect(front.counts.every((count) => count > 10)).toBe(true)
      // One process has the session: it forwards nothing.
      const forwards = await Promise.all(gateways.map((gateway) => metric(gateway, FORWARDS)))
      expect(Math.min(...forwards)).toBe(0)
      expect(Math.max(...forwards)).toBeGreaterThan(5)
      expect([...at(0).lines, ...at(1).lines].filter(({ event }) => event === 'session.adopted')).toEqual([])
    })
  },
)

describe('a session in another process', () => {
  test('resumes its stream there, with the events since the last one', async () => {
    const { server, at } = await sharing(2)
    const session = await openSession(at(0).url, '2025-11-25')
    const stream = (lastId?: string) =>
      open(at(1).url, {
        method: 'GET',
        headers: {
          accept: 'text/event-stream',
          ...session.headers,
          ...(lastId !== undefined && { 'last-event-id': lastId }),
        },
      })
    const isChange = ({ data = '' }: { data?: string }): boolean => data.includes('list_changed')
    const first = await stream()
    server.change('tools')
    const [event] = await eventsUntil(first.events(), isChange)
    first.destroy()
    await expect.poll(() => metric(at(1), FORWARDS)).toBe(1)
    server.change('prompts')
    const again = await stream(event?.id)
    const [missed] = await eventsUntil(again.events(), isChange)
    expect(messageOf(missed)['method']).toBe('notifications/prompts/list_changed')
    again.destroy()
  })

  test('tells its server when the client leaves, and does not wait for a client that does not read', async () => {
    const { server, at } = await sharing(2)
    const session = await openSession(at(0).url, '2025-06-18')
    const stream = await open(at(1).url, {
      method: 'GET',
      headers: { accept: 'text/event-stream', ...session.headers },
    })
    stream.destroy()
    // The session can be used by its next stream, also directly.
    const next = await session.get()
    server.change('tools')
    await eventsUntil(next.events(), ({ data = '' }) => data.includes('list_changed'))
    next.destroy()
  })

  test('is found there only by its caller and at its endpoint, and ends for all when it is deleted', async () => {
    const { auth, bearer } = knownCallers(['ada', 'bob'])
    const { at } = await sharing(2, { config: { auth } })
    const { headers } = await openSession(at(0).url, '2025-06-18', {}, bearer('ada'))
    expect(await called(at(1).url, headers)).toMatchObject(answered)
    expect(await called(at(1).url, { ...headers, ...bearer('bob') })).toMatchObject({ status: 404 })
    expect(await called(`${at(1).url}/one`, headers)).toMatchObject({ status: 404 })
    expect(await called(at(1).url, headers)).toMatchObject(answered)
    const deleted = await open(at(1).url, { method: 'DELETE', headers })
    expect(await whole(deleted)).toMatchObject({ status: 204 })
    for (const { url } of [at(0), at(1)]) expect(await called(url, headers)).toMatchObject({ status: 404 })
  })

  test('is continued where the next request comes once its process ended, and its ids are not used again', async () => {
    const { server, gateways, at } = await sharing(2)
    const session = await openSession(at(0).url, '2025-11-25', { elicitation: {} })
    const ask = async (url: string, id: string) => {
      const body = JSON.stringify(toolCall(id, 'ask_form'))
      const accept = 'application/json, text/event-stream'
      const headers = { ...session.headers, accept, 'content-type': 'application/json' }
      const reply = await open(url, { method: 'POST', headers, body })
      const read = await eventsUntil(reply.events(), ({ data = '' }) => data.includes('elicitation/create'))
      reply.destroy()
      return messageOf(read.at(-1))['id']
    }
    const before = await ask(at(1).url, 'first')
    await at(0).close()
    expect(await ask(at(1).url, 'second')).not.toBe(before)
    expect(await called(at(1).url, session.headers)).toMatchObject(answered)
    expect(await metric(at(1), 'gatehouse_fleet_adoptions_total')).toBe(1)
    expect(gateways[1]?.lines.filter(({ event }) => event === 'session.adopted')).toHaveLength(1)
    expect(server.violations).toEqual([])
  })

  test('is continued where the next request comes while its process ends', async () => {
    const { at } = await sharing(2)
    const { headers } = await openSession(at(0).url, '2025-11-25')
    expect(await called(at(1).url, headers)).toMatchObject(answered)
    // A client that has not sent its whole request delays the end.
    const slow = connect(Number(new URL(at(0).origin).port), '127.0.0.1')
    onTestFinished(() => void slow.destroy())
    slow.on('error', () => undefined).write('GET /health HTTP/1.1\r\n')
    expect(await called(at(0).url, headers)).toMatchObject(answered)
    const ending = at(0).close()
    expect(await called(at(1).url, headers)).toMatchObject(answered)
    await ending
    expect(await metric(at(1), 'gatehouse_fleet_forwards_total{outcome="moved"}')).toBe(1)
    expect(await metric(at(1), 'gatehouse_fleet_adoptions_total')).toBe(1)
  })

  test('without an owner, as earlier versions kept it, belongs to the process of its next request', async () => {
    const { store, at } = await sharing(3)
    const { headers } = await openSession(at(0).url, '2025-06-18')
    await at(0).close()
    const kept = openStore({ kind: 'folder', path: store }, silentLog)
    const key = recordOf(headers)
    const { owner, generation, ...earlier } = JSON.parse((await kept.get(key)) ?? '{}') as Json
    expect([typeof owner, generation]).toEqual(['string', 1])
    await kept.put(key, JSON.stringify(earlier), 60_000)
    const echo = (index: number) => called(at(index).url, headers, toolCall(index, 'echo', { text: 'hi' }))
    expect(await Promise.all([echo(1), echo(2)])).toMatchObject([answered, answered])
    const after = JSON.parse((await kept.get(key)) ?? '{}') as Json
    expect(after['generation']).toBe(1)
    await kept.close()
  })

  test('is found by its id where the store does not have it, until its process ends', async () => {
    const { store, at } = await sharing(2)
    const [one, second] = [
      await openSession(at(0).url, '2025-06-18'),
      await openSession(at(0).url, '2025-11-25'),
    ]
    const kept = openStore({ kind: 'folder', path: store }, silentLog)
    onTestFinished(() => kept.close())
    for (const { headers } of [one, second]) expect(await kept.delete(recordOf(headers))).toBe(true)
    for (const { headers } of [one, second]) expect(await called(at(1).url, headers)).toMatchObject(answered)
    const deleted = await open(at(1).url, { method: 'DELETE', headers: one.headers })
    expect(await whole(deleted)).toMatchObject({ status: 204 })
    for (const { url } of [at(0), at(1)])
      expect(await called(url, one.headers)).toMatchObject({ status: 404 })
    expect(await called(at(1).url, second.headers)).toMatchObject(answered)
    await at(0).close()
    expect(await called(at(1).url, second.headers)).toMatchObject({ status: 404 })
  })

  test('is taken over at once when its process is killed', async () => {
    const server = await httpServer()
    const config = { store: folder() }
    const start = () => gatewayProcessTo({ one: { url: server.url } }, { config })
    const [one, other] = await Promise.all([start(), start()])
    const { headers } = await openSession(one.url, '2025-11-25')
    expect(await called(other.url, headers)).toMatchObject(answered)
    const hanging = called(other.url, headers, toolCall(7, 'hang'))
    await expect.poll(() => callsOf(server, 'hang')).toBe(1)
    one.signal('SIGKILL')
    expect((await hanging).message).toMatchObject({ error: { data: { code: 'OUTCOME_UNKNOWN' } } })
    await one.ended
    expect(await called(other.url, headers)).toMatchObject(answered)
    expect(callsOf(server, 'hang')).toBe(1)
  })
})

describe('the private listener', () => {
  const decision: Decision = {
    principal: { id: 'anonymous', isEverybody: true },
    upstream: undefined,
    requestId: 'forged',
    peer: { httpVersion: '1.1', socket: {} },
  }

  async function privately() {
    const { store, at } = await sharing(2)
    const kept = openStore({ kind: 'folder', path: store }, silentLog)
    onTestFinished(() => kept.close())
    const members = await createMembership(() => kept).list()
    const key = Buffer.from((await kept.get('key:seal')) ?? '', 'base64url')
    const send = (index: number, headers: HeaderMap) => {
      const socketPath = members[index]?.address?.replace('unix:', '')
      const body = JSON.stringify(toolCall(1, 'echo', { text: 'hi' }))
      return new Promise<{ status: number | undefined; own: unknown }>((resolve, reject) => {
        const accept = 'application/json, text/event-stream'
        const all = { 'content-type': 'application/json', accept, ...headers }
        const sent = request({ socketPath, path: '/mcp', method: 'POST', headers: all }, (answer) => {
          answer.resume()
          answer.on('end', () =>
            resolve({ status: answer.statusCode, own: answer.headers['gatehouse-forwarded'] }),
          )
        })
        sent.on('error', reject)
        sent.end(body)
      })
    }
    const sealed = (receiver: string, { ageMs = 0, seals = key } = {}): string => {
      const seal = createSeal(Date.now, () => [seals])
      const close: Seal['close'] = (value, use, until) => seal.close(value, use, until - ageMs)
      return createEnvelopes({ ...seal, close }, 'test').close(decision, receiver) ?? ''
    }
    const { headers } = await openSession(at(0).url, '2025-06-18')
    return { ids: members.map(({ id }) => id), send, sealed, session: headers }
  }

  test('serves who has the key of the store, and refuses every other envelope', async () => {
    const { ids, send, sealed, session } = await privately()
    const [one = '', other = ''] = ids
    const forwarded = (text: string, more: HeaderMap = {}): HeaderMap => ({
      ...session,
      ...more,
      'gatehouse-forwarded': text,
    })
    const valid = sealed(one)
    const refused = { status: 403, own: 'refused' }
    expect(await send(0, forwarded(valid))).toEqual({ status: 200, own: undefined })
    expect(await send(0, forwarded(valid))).toEqual(refused)
    expect(await send(0, session)).toEqual(refused)
    expect(await send(0, forwarded(sealed(other)))).toEqual(refused)
    expect(await send(0, forwarded(sealed(one, { ageMs: 31_000 })))).toEqual(refused)
    expect(await send(0, forwarded(sealed(one, { seals: Buffer.alloc(32) })))).toEqual(refused)
    expect(await send(0, forwarded(`${sealed(one).slice(0, -4)}AAAA`))).toEqual(refused)
    for (const credential of ['authorization', 'cookie', 'proxy-authorization'])
      expect(await send(0, forwarded(sealed(one), { [credential]: 'x' }))).toEqual(refused)
  })

  test('does not forward again: a process that does not have the session says so', async () => {
    const { ids, send, sealed, session } = await privately()
    const moved = { ...session, 'gatehouse-forwarded': sealed(ids[1] ?? '') }
    expect(await send(1, moved)).toEqual({ status: 421, own: 'moved' })
  })

  test('gets no credential of the client, and the header of a client means nothing', async () => {
    const { auth, bearer } = knownCallers(['ada'])
    const { at } = await sharing(2, { config: { auth } })
    const { headers } = await openSession(at(0).url, '2025-06-18', {}, bearer('ada'))
    const more = { ...headers, cookie: 'a=b', 'gatehouse-forwarded': 'x' }
    expect(await called(at(1).url, more)).toMatchObject(answered)
    expect(await called(at(0).url, { ...more, authorization: 'Bearer other' })).toMatchObject({ status: 401 })
    expect(objectAt((await called(at(1).url, headers)).message, 'result')).toHaveProperty('content')
  })
})

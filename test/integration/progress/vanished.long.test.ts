// A client that vanishes in the middle of a call with progress, and comes back for the rest: after its last event where
// the transport has events, and by the id of the operation everywhere. The call is made once in each case.
import { join } from 'node:path'
import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'
import { CallToolResultSchema } from '@modelcontextprotocol/sdk/types.js'
import { writeFileSync } from 'node:fs'
import { describe, expect, it, onTestFinished } from 'vitest'
import { type Reply, textOf } from '../../support/client/options.ts'
import { type OpenReply, open, usual } from '../../support/client/raw.ts'
import type { SseEvent } from '../../support/client/sse-parser.ts'
import { StdioLink } from '../../support/client/stdio-link.ts'
import { until } from '../../support/condition.ts'
import { connect, type FakeClient } from '../../support/fake-client.ts'
import { type FakeServer, fakeServerCommand } from '../../support/fake-server.ts'
import { modern } from '../../support/fronts.ts'
import { type GatewayProcess, gatewayProgram } from '../../support/gateway-process.ts'
import {
  callsOf,
  clientOf,
  codeOf,
  folder,
  gatewayProcessTo,
  httpServer,
  serverJournal,
} from '../../support/journey.ts'
import { everything, publishedServer } from '../../support/peers/servers.ts'
import { eventsUntil, messageOf, openSession, toolCall } from '../../support/raw-session.ts'
import { type Json, objectAt } from '../../support/server/json.ts'

/** A call of 2 s with five notes of progress. */
const slow = { name: 'slow', arguments: { ms: 2000, steps: 5 } }

interface Place {
  readonly server: FakeServer
  readonly gateway: GatewayProcess
}

async function place(): Promise<Place> {
  const server = await httpServer()
  const config = { listen: { legacy_sse: true } }
  // The server says nothing of itself that would have its calls made again.
  const upstreams = { one: { url: server.url, revision: '2025-11-25' } }
  return { server, gateway: await gatewayProcessTo(upstreams, { config }) }
}

const isProgress = ({ method }: Json): boolean => method === 'notifications/progress'
const isThirdNote = (event: SseEvent): boolean => progressIn(messageOf(event)) === 3

function progressIn(message: Json): unknown {
  return isProgress(message) ? objectAt(message, 'params')['progress'] : undefined
}

/** The id of the operation in the last of the notes. */
function operationIn(notes: readonly Json[]): string {
  const meta = objectAt(objectAt(notes.findLast(isProgress), 'params'), '_meta')
  return String(objectAt(meta, 'dev.gatehouse/progress')['operation_id'])
}

/** The call runs once, and its server got no cancellation. */
function expectOneCall({ server }: Place): void {
  expect(callsOf(server, 'slow')).toBe(1)
  expect(server.seen.filter(({ kind }) => kind === 'cancelled')).toEqual([])
  expect(server.violations).toEqual([])
}

/** Resumes an operation twice, by the method and by the tool: neither makes the call again. */
async function expectOutcome(client: FakeClient, operation_id: string, text = 'took 5 steps'): Promise<void> {
  const byMethod = await client.request('operation/resume', { operation_id })
  const byTool = await client.request('tools/call', { name: 'resume_operation', arguments: { operation_id } })
  for (const reply of [byMethod, byTool]) {
    expect(textOf(reply)).toBe(text)
    expect(reply.result?.['_meta']).toMatchObject({
      'dev.gatehouse/was_replay': true,
      'dev.gatehouse/operation_id': operation_id,
    })
  }
  expect(client.violations).toEqual([])
}

describe.each(['2025-03-26', '2025-06-18', '2025-11-25'] as const)('a session of %s', (revision) => {
  it('continues after the third of five notes: the rest, and the answer', async () => {
    const at = await place()
    const session = await openSession(at.gateway.url, revision)
    const reply = await session.send(toolCall(1, 'slow', slow.arguments, 'p'))
    const seen = await eventsUntil(reply.events(), isThirdNote)
    reply.destroy()
    const again = await session.get(seen.at(-1)?.id)
    const rest = (await eventsUntil(again.events(), (event) => messageOf(event)['id'] === 1)).map(messageOf)
    expect(rest.filter(isProgress).map(progressIn)).toEqual([4, 5])
    expect(rest.at(-1)).toMatchObject({ id: 1, result: { content: [{ text: 'took 5 steps' }] } })
    await expectOutcome(await clientOf(at.gateway, { revision }), operationIn(seen.map(messageOf)))
    expectOneCall(at)
  })

  it('that comes back when all is over gets the rest as well', async () => {
    const at = await place()
    const session = await openSession(at.gateway.url, revision)
    const reply = await session.send(toolCall(1, 'slow', slow.arguments, 'p'))
    const seen = await eventsUntil(reply.events(), isThirdNote)
    reply.destroy()
    // Another call that takes longer is over, so the first is too.
    await session.post(toolCall(2, 'slow', { ms: 1500, steps: 1 }))
    const again = await session.get(seen.at(-1)?.id)
    const rest = (await eventsUntil(again.events(), (event) => messageOf(event)['id'] === 1)).map(messageOf)
    expect(rest.filter(isProgress).map(progressIn)).toEqual([4, 5])
    expect(callsOf(at.server, 'slow')).toBe(2)
  })

  it('that ended is replaced by another one, which resumes the operation and gets the remaining progress', async () => {
    const at = await place()
    const session = await openSession(at.gateway.url, revision)
    const reply = await session.send(toolCall(1, 'slow', slow.arguments, 'p'))
    const seen = await eventsUntil(reply.events(), isThirdNote)
    reply.destroy()
    const left = await open(at.gateway.url, { method: 'DELETE', headers: session.headers })
    expect(left.status).toBe(204)
    const next = await clientOf(at.gateway, { revision })
    await expectJoined(next, operationIn(seen.map(messageOf)))
    expectOneCall(at)
  })
})

/** Joins an operation that still runs: its last notes are heard under the token of who joins, and its outcome is had. */
async function expectJoined(client: FakeClient, operation_id: string): Promise<Reply> {
  const heard: unknown[] = []
  const reply = await client.request(
    'operation/resume',
    { operation_id },
    { progressToken: 'mine', onProgress: ({ progress }) => void heard.push(progress) },
  )
  expect(textOf(reply)).toBe('took 5 steps')
  expect(heard.length).toBeGreaterThan(0)
  expect([4, 5].slice(-heard.length)).toEqual(heard)
  await expectOutcome(client, operation_id)
  return reply
}

it('a client of the SDK 1.x that vanishes is replaced by one with its session and its last event', async () => {
  const command = publishedServer(everything, 'stdio')
  const gateway = await gatewayProcessTo({ one: { command, revision: '2025-11-25' } })
  const url = new URL(gateway.url)
  const request = {
    method: 'tools/call',
    params: { name: 'trigger-long-running-operation', arguments: { duration: 2, steps: 5 } },
  }
  const first = new StreamableHTTPClientTransport(url, { reconnectionOptions: never })
  const one = new Client({ name: 'peer', version: '1.0.0' })
  await one.connect(first)
  let lastEvent = ''
  const vanished = new Promise<void>((resolve, reject) => {
    const onprogress = ({ progress }: { progress: number }): void => {
      if (progress === 3) resolve()
    }
    const onresumptiontoken = (token: string): void => void (lastEvent = token)
    one.request(request, CallToolResultSchema, { onprogress, onresumptiontoken }).catch(reject)
  })
  await vanished
  const { sessionId = '' } = first
  // It does not end its session.
  await one.close()

  const second = new StreamableHTTPClientTransport(url, { sessionId })
  const two = new Client({ name: 'peer', version: '1.0.0' })
  await two.connect(second)
  onTestFinished(() => two.close())
  const heard: unknown[] = []
  const { onmessage } = second
  second.onmessage = (message) => {
    heard.push(progressIn({ ...message }))
    onmessage?.(message)
  }
  const result = await two.request(request, CallToolResultSchema, { resumptionToken: lastEvent })
  expect(result.content).toMatchObject([
    { text: expect.stringContaining('Long running operation completed') },
  ])
  expect(heard.filter((progress) => progress !== undefined)).toEqual([4, 5])
})

/** A client that is gone does not try to come back. */
const never = {
  maxRetries: 0,
  initialReconnectionDelay: 1,
  maxReconnectionDelay: 1,
  reconnectionDelayGrowFactor: 1,
}

/** Makes a call up to its third note, and returns the notes so far. Its reply is not awaited. */
async function untilThird(client: FakeClient, call: Json): Promise<readonly Json[]> {
  const notes: Json[] = []
  const third = Promise.withResolvers<void>()
  const onProgress = (params: Json): void => {
    notes.push({ method: 'notifications/progress', params })
    if (params['progress'] === 3) third.resolve()
  }
  const { reply } = client.start('tools/call', call, { onProgress })
  void reply.catch(() => undefined)
  await third.promise
  return notes
}

it('a client of HTTP+SSE, whose stream cannot be resumed, resumes the operation on another one', async () => {
  const at = await place()
  const sse = { revision: '2024-11-05', transport: 'sse', url: `${at.gateway.origin}/sse/one` } as const
  const client = await connect(sse)
  const notes = await untilThird(client, slow)
  await client.close()
  const next = await connect(sse)
  onTestFinished(() => next.close())
  await expectJoined(next, operationIn(notes))
  expectOneCall(at)
})

/** A request of 2026-07-28 with progress, up to its third note. */
async function modernCall(
  { gateway }: Place,
  more: Json,
): Promise<{ reply: OpenReply; seen: readonly Json[] }> {
  const params = { ...slow, ...more, _meta: { progressToken: 'p', ...objectAt(more, '_meta') } }
  const { message, headers } = modern('tools/call', params)
  const body = JSON.stringify(message)
  const reply = await open(gateway.url, { method: 'POST', headers: { ...usual, ...headers }, body })
  const seen = (await eventsUntil(reply.events(), isThirdNote)).map(messageOf)
  return { reply, seen }
}

describe('a client of 2026-07-28 that closes the request of a call', () => {
  it('with a key gets the rest and the outcome by the id of its operation, and by the key', async () => {
    const at = await place()
    const keyed = { _meta: { 'dev.gatehouse/idempotency_key': 'k1' } }
    const { reply, seen } = await modernCall(at, keyed)
    reply.destroy()
    const client = await clientOf(at.gateway, { revision: '2026-07-28' })
    await expectJoined(client, operationIn(seen))
    const again = await client.request('tools/call', { ...slow, ...keyed })
    expect(textOf(again)).toBe('took 5 steps')
    expect(again.result?.['_meta']).toMatchObject({ was_replay: true })
    expectOneCall(at)
  })

  it('without a key has cancelled it: its server gets the cancellation, and the operation is cancelled', async () => {
    const at = await place()
    const { reply, seen } = await modernCall(at, {})
    reply.destroy()
    await at.server.until(({ kind }) => kind === 'cancelled')
    const client = await clientOf(at.gateway, { revision: '2026-07-28' })
    const resumed = await client.request('operation/resume', { operation_id: operationIn(seen) })
    expect(codeOf(resumed)).toBe('CANCELLED')
    expect(callsOf(at.server, 'slow')).toBe(1)
  })
})

/** A client that starts the gateway as its stdio server, with a store of its own. */
function stdioGateway(upstream: Json): (revision?: '2025-11-25' | '2026-07-28') => Promise<FakeClient> {
  const home = folder()
  const file = join(home, 'gateway.yaml')
  const config = { store: join(home, 'store'), features: { confirm: 'off' }, upstreams: { one: upstream } }
  writeFileSync(file, JSON.stringify(config))
  const [command = '', ...first] = gatewayProgram()
  return async (revision = '2025-11-25') => {
    const args = [...first, 'stdio', '--config', file]
    const client = await connect({ revision, transport: 'stdio', command, args, graceMs: 8000 })
    onTestFinished(() => client.close().catch(() => undefined))
    return client
  }
}

/** Makes a call up to its third note, and kills the gateway. */
async function killedInCall(client: FakeClient, call: Json): Promise<string> {
  const notes = await untilThird(client, call)
  if (!(client.link instanceof StdioLink) || client.link.pid === undefined) throw new TypeError('no process')
  process.kill(client.link.pid, 'SIGKILL')
  await until(() => client.link.openStreams === 0, 'the gateway to be gone')
  return operationIn(notes)
}

describe('a client whose gateway is its own process, and is started anew', () => {
  it('gets the outcome of a call that reads: it is made again', async () => {
    const journal = serverJournal()
    const { command, args } = fakeServerCommand({ revision: '2025-11-25', seenFile: journal.file })
    const start = stdioGateway({ command: [command, ...args], revision: '2025-11-25', trust: true })
    const id = await killedInCall(await start(), slow)
    await expectOutcome(await start(), id)
    expect(journal.calls('slow')).toBe(2)
  })

  it('gets OUTCOME_UNKNOWN for any other call, and the call is not made again', async () => {
    const journal = serverJournal()
    const { command, args } = fakeServerCommand({ revision: '2025-11-25', seenFile: journal.file })
    const tools = { slow: { op: 'write', idempotent: false } }
    const start = stdioGateway({ command: [command, ...args], revision: '2025-11-25', tools })
    const id = await killedInCall(await start(), slow)
    const next = await start()
    for (let time = 1; time <= 2; time++) {
      const resumed = await next.request('operation/resume', { operation_id: id })
      expect(codeOf(resumed)).toBe('OUTCOME_UNKNOWN')
    }
    expect(journal.calls('slow')).toBe(1)
  })
})

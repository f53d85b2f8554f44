import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import { describe, expect, it, onTestFinished } from 'vitest'
import { createRequestStateCodec } from '../../../../src/protocol/request-state.ts'
import type { Handler } from '../../../../src/core/call.ts'
import { anonymous, type Principal } from '../../../../src/core/principal.ts'
import type { Refusal } from '../../../../src/core/audit-step.ts'
import type { AuthGate } from '../../../../src/downstream/auth/auth-gate.ts'
import type { HttpContext } from '../../../../src/downstream/http/edge.ts'
import { HttpFront } from '../../../../src/downstream/http/endpoint.ts'
import { LegacySse } from '../../../../src/downstream/http/sse-endpoint.ts'
import { ClientSessions } from '../../../../src/records/client-sessions.ts'
import { edge } from '../../../support/edge.ts'
import { modern } from '../../../support/fronts.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { HeldMemory } from '../../../../src/core/holdings.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'

const handle = () => new Promise<never>(() => undefined)
const greedy: Principal = { id: 'greedy' }
const quiet: Principal = { id: 'quiet' }

function exchangeOf(principal: Principal): HttpContext {
  const incoming = new IncomingMessage(new Socket())
  return {
    incoming,
    outgoing: new ServerResponse(incoming),
    upstream: undefined,
    principal,
    requestId: 'r',
    edge,
  }
}

describe('HTTP+SSE streams', () => {
  function open(): { stream(principal: Principal): Promise<void> } {
    const sse = new LegacySse({ handle, log: silentLog })
    return { stream: (principal) => sse.stream(exchangeOf(principal)) }
  }

  it('one caller can have a quarter of the streams', async () => {
    const sse = open()
    for (let count = 0; count < 250; count++) await sse.stream(greedy)
    await expect(sse.stream(greedy)).rejects.toThrow(
      expect.objectContaining({ code: 'OVERLOADED', message: 'Too many sessions of one caller.' }),
    )
    await sse.stream(quiet)
  })

  it('anonymous callers together can have all streams', async () => {
    const sse = open()
    for (let count = 0; count < 1000; count++) await sse.stream(anonymous)
    await expect(sse.stream(anonymous)).rejects.toThrow(
      expect.objectContaining({ code: 'OVERLOADED', message: 'Too many sessions.' }),
    )
  })

  it('a session that continues on several streams at once has the last one only', async () => {
    const id = '01234567-89ab-4cde-8f01-23456789abcd'
    const kept = new ClientSessions({ transport: 'sse', store: () => store, log: silentLog })
    const store = new MemoryStore()
    const state = { revision: '2024-11-05', capabilities: {}, offered: {}, uris: [] }
    await kept.add({ id, principal: greedy }, undefined, state)
    const sse = new LegacySse({ handle, kept, log: silentLog })
    const exchanges = Array.from({ length: 3 }, () => exchangeOf(greedy))
    for (const { incoming } of exchanges) incoming.headers['last-event-id'] = id
    await Promise.all(exchanges.map((each) => sse.stream(each)))
    expect(exchanges.map(({ outgoing }) => outgoing.writableEnded)).toEqual([true, true, false])
    expect(sse.size).toBe(1)
  })
})

describe('subscription streams without a session', () => {
  /** A call that lasts until its client cancels it. */
  const untilAborted: Handler = ({ signal }) =>
    new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason))
    })

  function listening(): { listen(principal: Principal): ServerResponse; readonly refused: Refusal[] } {
    const refused: Refusal[] = []
    let caller = anonymous
    const authGate: AuthGate = {
      authenticate: () => caller,
      authenticateDocument: async () => caller,
      authenticateService: async () => caller,
      signedIn: async () => undefined,
      requireAuth: () => undefined,
      stepUp: () => undefined,
      metadata: () => undefined,
      probes: {},
    }
    const store = new MemoryStore()
    const front = new HttpFront({
      handle: untilAborted,
      edge: () => ({ ...edge, authGate }),
      seal: createRequestStateCodec(Date.now),
      held: new HeldMemory(),
      store: () => store,
      onRefused: (refusal) => void refused.push(refusal),
      log: silentLog,
    })
    onTestFinished(() => front.sessions.close())
    const { message, headers } = modern('subscriptions/listen', { notifications: {} })
    const listen = (principal: Principal): ServerResponse => {
      caller = principal
      const { incoming, outgoing } = exchangeOf(principal)
      incoming.method = 'POST'
      Object.assign(incoming.headers, { 'content-type': 'application/json' }, headers)
      front.serve(incoming, outgoing, undefined)
      incoming.emit('data', Buffer.from(JSON.stringify(message)))
      incoming.emit('end')
      return outgoing
    }
    return { listen, refused }
  }

  it('one caller can have a quarter of the streams, and a closed one makes room', async () => {
    const { listen, refused } = listening()
    const first = listen(greedy)
    for (let count = 1; count < 2500; count++) listen(greedy)
    listen(greedy)
    listen(quiet)
    await expect.poll(() => refused).toHaveLength(1)
    expect(refused[0]?.error).toMatchObject({
      code: 'OVERLOADED',
      message: 'Too many subscription streams of this caller are open.',
    })
    first.emit('close')
    await new Promise(setImmediate)
    listen(greedy)
    await new Promise(setImmediate)
    expect(refused).toHaveLength(1)
    listen(greedy)
    await expect.poll(() => refused).toHaveLength(2)
  })
})

import { describe, expect, it, vi } from 'vitest'
import type { Call, Handler, Outcome } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { callCollection } from '../../../../src/records/calls.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import {
  bench,
  done,
  ending,
  failureOf,
  fieldsOf,
  keyed,
  textOf,
} from '../../../support/idempotency-bench.ts'

type End = () => Promise<Outcome>

const failing = (text: string, more: object = {}): End => {
  const result = Payload.of({ content: [{ type: 'text', text }], isError: true, ...more })
  return async () => ({ kind: 'result', result })
}
const throwing = (...given: ConstructorParameters<typeof GatewayError>): End => {
  return () => Promise.reject(new GatewayError(...given))
}
const relayed = (code: number, message: string): End =>
  throwing('UPSTREAM_ERROR', message, { relayed: Payload.of({ code, message }) })
const http = (code: 'SERVER_UNAVAILABLE' | 'UPSTREAM_ERROR', status: number): End =>
  throwing(code, `The server answered HTTP ${status}.`, { details: { http_status: status } })
const refused = { _meta: { 'dev.gatehouse/error': { code: 'CONFIRMATION_REQUIRED', category: 'permanent' } } }

const pausedBehind = { _meta: { 'dev.gatehouse/error': { code: 'WRITES_PAUSED', category: 'permanent' } } }

/** The end of a first call, and the effect of a second one with its key. */
const endings: readonly (readonly [string, End, 'replayed' | 'run' | 'unknown'])[] = [
  ['a result', async () => done(1), 'replayed'],
  ['a failed result that is permanent', failing('File not found'), 'replayed'],
  ['a failed result about its input', failing('invalid path'), 'replayed'],
  ['a failed result without a reason', failing('Boom'), 'replayed'],
  ['a failed result about a rate limit', failing('Rate limit exceeded'), 'run'],
  ['a failed result about credentials', failing('Unauthorized'), 'run'],
  ['a pending approval page', failing('Approve it', refused), 'run'],
  ['writes that a gateway behind this one pauses', failing('Writes are paused', pausedBehind), 'run'],
  ['a JSON-RPC error of the server', relayed(-32602, 'bad path'), 'replayed'],
  ['an unknown error of the server', relayed(-32000, 'Oh no'), 'replayed'],
  ['a declined confirmation', throwing('CONFIRMATION_DECLINED', 'No.'), 'run'],
  ['a step that could not be undone', throwing('COMPENSATION_UNAVAILABLE', 'No way back.'), 'run'],
  ['an unreachable server', throwing('SERVER_UNAVAILABLE', 'Away.', { isUnsent: true }), 'run'],
  ['HTTP 401', http('SERVER_UNAVAILABLE', 401), 'run'],
  ['HTTP 429', http('UPSTREAM_ERROR', 429), 'run'],
  ['HTTP 503', http('SERVER_UNAVAILABLE', 503), 'run'],
  ['HTTP 422', http('UPSTREAM_ERROR', 422), 'replayed'],
  ['HTTP 500', http('SERVER_UNAVAILABLE', 500), 'replayed'],
  ['HTTP 504 of an intermediary', http('SERVER_UNAVAILABLE', 504), 'unknown'],
  ['a result that is too large', throwing('PAYLOAD_TOO_LARGE', 'Too large.'), 'replayed'],
  ['a broken connection', throwing('OUTCOME_UNKNOWN', 'It broke.'), 'unknown'],
  ['a session lost twice by the server', throwing('SERVER_UNAVAILABLE', 'Forgotten.'), 'unknown'],
  ['an internal error', () => Promise.reject(new TypeError('a bug')), 'unknown'],
]

const dataOf = ({ data, extra: { relayed } }: GatewayError): unknown =>
  relayed ? relayed.fields['data'] : data

describe('how the end of a call determines the next use of its key', () => {
  it.each(endings)('%s determines the next use of the key', async (_what, end, then) => {
    const { make, seen } = bench({ server: end })
    const first = await make({}, keyed('k')).catch((error: unknown) => error)
    const second: unknown = await make({}, keyed('k')).catch((error: unknown) => error)
    expect(seen).toHaveLength(then === 'run' ? 2 : 1)
    if (then === 'unknown') expect(second).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    // A key under which nothing ran has no metadata.
    if (then !== 'replayed') {
      expect(first instanceof GatewayError ? dataOf(first) : {}).not.toHaveProperty('was_replay')
      return
    }
    if (!(first instanceof GatewayError)) {
      expect(fieldsOf(second as Outcome)).toMatchObject({ idempotency: { was_replay: true } })
      return
    }
    expect(second).toMatchObject({ code: first.code, message: first.message, rpc: first.rpc })
    expect(dataOf(first)).toMatchObject({ idempotency_key: 'k', was_replay: false })
    expect(dataOf(second as GatewayError)).toMatchObject({ idempotency_key: 'k', was_replay: true })
  })

  it('after a timeout of a running call the key is in progress and then has the result', async () => {
    const turn = Promise.withResolvers<Outcome>()
    const { make, seen } = bench({ server: () => turn.promise })
    const caller = ending()
    const first = failureOf(make(caller.given, keyed('k')))
    await vi.waitUntil(() => seen.length > 0)
    caller.end('OPERATION_TIMEOUT')
    expect((await first).code).toBe('OPERATION_TIMEOUT')
    const again = make({}, keyed('k'))
    turn.resolve(done(1))
    expect(fieldsOf(await again)).toMatchObject({ idempotency: { was_replay: true } })
    expect(seen).toHaveLength(1)
  })
})

const question = { q: { method: 'elicitation/create' } }

describe('a keyed call that requires input before it runs', () => {
  it('the input request is not recorded, and the responses start the call again', async () => {
    const { make, seen, store } = bench({
      server: async ({ inputResponses: answers, requestState: state }) =>
        answers
          ? done(Number(state['confirm']))
          : { kind: 'input_required', inputRequests: question, requestState: { confirm: 5 } },
    })
    const asked = await make({}, keyed('k'))
    if (asked.kind !== 'input_required') throw new TypeError('it did not ask')
    expect((await store.scan(callCollection('anonymous'))).size).toBe(0)
    const told = await make({ inputResponses: {}, requestState: asked.requestState }, keyed('k'))
    expect([textOf(told), seen.length]).toEqual(['5', 2])
    expect(fieldsOf(await make({}, keyed('k')))).toMatchObject({ idempotency: { was_replay: true } })
    expect(seen).toHaveLength(2)
  })

  it('every concurrent caller receives the input request', async () => {
    const { make, seen } = bench({
      server: async () => ({ kind: 'input_required', inputRequests: question, requestState: {} }),
    })
    const all = await Promise.all([make({}, keyed('k')), make({}, keyed('k'))])
    expect(all.map(textOf)).toEqual(['input_required', 'input_required'])
    expect(seen).toHaveLength(2)
  })
})

describe('a keyed call whose server requests input while it runs', () => {
  const open = async (call: Call): Promise<Outcome> =>
    call.inputResponses
      ? done(5)
      : { kind: 'input_required', inputRequests: question, requestState: { park: 'ticket' }, isOpen: true }

  it('the call continues with the input responses, and no other call can use the key meanwhile', async () => {
    const { make, seen } = bench({ server: open })
    const asked = await make({}, keyed('k'))
    if (asked.kind !== 'input_required') throw new TypeError('it did not ask')
    const other = ending()
    const waiting = failureOf(make(other.given, keyed('k')))
    setTimeout(() => other.end('OPERATION_TIMEOUT'), 30)
    expect((await waiting).code).toBe('IDEMPOTENCY_IN_PROGRESS')
    expect(textOf(await make({ inputResponses: {}, requestState: asked.requestState }, keyed('k')))).toBe('5')
    expect(fieldsOf(await make({}, keyed('k')))).toMatchObject({ idempotency: { was_replay: true } })
    expect(seen).toHaveLength(2)
  })

  it('repeated input responses receive the same result, immediately or later', async () => {
    const { make, seen } = bench({ server: open })
    const asked = await make({}, keyed('k'))
    if (asked.kind !== 'input_required') throw new TypeError('it did not ask')
    const retry = { inputResponses: {}, requestState: asked.requestState }
    const both = await Promise.all([make(retry, keyed('k')), make(retry, keyed('k'))])
    const later = await make(retry, keyed('k'))
    expect([...both, later].map(textOf)).toEqual(['5', '5', '5'])
    expect(seen).toHaveLength(2)
  })

  it('another gateway forwards the input responses and reports an unknown outcome', async () => {
    const store = new MemoryStore()
    const asked = await bench({ store, me: 'a', server: open }).make({}, keyed('k'))
    if (asked.kind !== 'input_required') throw new TypeError('it did not ask')
    const gone: Handler = () => Promise.reject(new GatewayError('STATE_EXPIRED', 'Not here.'))
    const other = bench({ store, me: 'b', server: gone })
    const retry = { inputResponses: {}, requestState: asked.requestState }
    expect((await failureOf(other.make(retry, keyed('k')))).code).toBe('STATE_EXPIRED')
    const again = bench({ store, me: 'a', server: open })
    expect(textOf(await again.make(retry, keyed('k')))).toBe('5')
  })

  it('the outcome is unknown once input responses can no longer arrive', async () => {
    vi.useFakeTimers()
    try {
      const { make, seen } = bench({ server: open })
      await make({}, keyed('k'))
      vi.advanceTimersByTime(331_000)
      expect((await failureOf(make({}, keyed('k')))).code).toBe('OUTCOME_UNKNOWN')
      expect(seen).toHaveLength(1)
    } finally {
      vi.useRealTimers()
    }
  })

  it('the outcome is unknown if the call is cancelled before the input responses', async () => {
    const gone = (call: Call): Promise<Outcome> =>
      call.inputResponses ? Promise.reject(new GatewayError('STATE_EXPIRED', 'Gone.')) : open(call)
    const { make } = bench({ server: gone })
    const asked = await make({}, keyed('k'))
    if (asked.kind !== 'input_required') throw new TypeError('it did not ask')
    await failureOf(make({ inputResponses: {}, requestState: asked.requestState }, keyed('k')))
    expect((await failureOf(make({}, keyed('k')))).code).toBe('OUTCOME_UNKNOWN')
  })

  it('the call may last as long as the person takes to respond', async () => {
    vi.useFakeTimers()
    try {
      const { make, seen } = bench({ server: open })
      await make({}, keyed('k'))
      vi.advanceTimersByTime(60_000)
      expect(seen[0]?.signal.aborted).toBe(false)
    } finally {
      vi.useRealTimers()
    }
  })

  it('the call ends with its caller, even between input requests', async () => {
    const { make, seen } = bench({ server: open })
    const caller = ending()
    await make(caller.given, keyed('k'))
    caller.end('CANCELLED')
    expect(seen[0]?.signal.aborted).toBe(true)
  })
})

describe('keyed calls with a failing store', () => {
  class Failing extends MemoryStore {
    isAway = false
    override async setIfAbsent(...given: Parameters<MemoryStore['setIfAbsent']>) {
      if (this.isAway) throw new Error('away')
      return super.setIfAbsent(...given)
    }
    override async compareAndSwap(...given: Parameters<MemoryStore['compareAndSwap']>) {
      if (this.isAway) throw new Error('away')
      return super.compareAndSwap(...given)
    }
  }

  it('keyed calls are refused and other calls are not', async () => {
    const store = new Failing()
    store.isAway = true
    const { make, seen } = bench({ store })
    const error = await failureOf(make({}, keyed('k')))
    expect(error).toMatchObject({ code: 'SERVER_UNAVAILABLE', extra: { isUnsent: true } })
    await make()
    expect(seen).toHaveLength(1)
  })

  it('a result that cannot be recorded is returned and recorded later', async () => {
    vi.useFakeTimers()
    try {
      const store = new Failing()
      const { make, seen } = bench({
        store,
        server: async () => {
          store.isAway = true
          return done(7)
        },
      })
      const first = make({}, keyed('k'))
      await vi.advanceTimersByTimeAsync(5100)
      expect(fieldsOf(await first)).toMatchObject({ _meta: { 'dev.gatehouse/unrecorded': true } })
      expect(textOf(await make({}, keyed('k')))).toBe('7')
      store.isAway = false
      await vi.advanceTimersByTimeAsync(6000)
      const other = bench({ store, me: 'b' })
      expect(textOf(await other.make({}, keyed('k')))).toBe('7')
      expect([...seen, ...other.seen]).toHaveLength(1)
    } finally {
      vi.useRealTimers()
    }
  })
})

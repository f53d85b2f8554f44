import { describe, expect, it, vi } from 'vitest'
import type { Call, Outcome } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { onSentSlot } from '../../../../src/core/exchange.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { LostAnswers } from '../../../../src/features/idempotency/lost-answers.ts'
import type { Principal } from '../../../../src/core/principal.ts'
import { deliverySlot } from '../../../../src/core/slot.ts'
import {
  bench,
  type Bench,
  done,
  failureOf,
  fieldsOf,
  keyed,
  textOf,
} from '../../../support/idempotency-bench.ts'
import { toolCall } from '../../../support/tool-call.ts'

const anna: Principal = { id: 'anna' }
const again = { _meta: { 'dev.gatehouse/run_again': true } }

/** A request whose answer can be lost. */
function request(given: Partial<Call> = {}) {
  const controller = new AbortController()
  const listeners: (() => void)[] = []
  let isLost = false
  const delivery = { isLost: () => isLost, onLost: (listener: () => void) => void listeners.push(listener) }
  const cut = (): void => {
    isLost = true
    for (const listener of listeners) listener()
  }
  return {
    given: {
      principal: anna,
      signal: controller.signal,
      abort: (reason: GatewayError) => controller.abort(reason),
      slots: deliverySlot.put(delivery),
      ...given,
    },
    /** Its connection ends, which does not cancel it. */
    cut,
    /** The client comes back for the answer. */
    resume: () => {
      isLost = false
    },
    /** Its client cancels it. */
    cancel: () => {
      cut()
      controller.abort(new GatewayError('CANCELLED', 'cancelled'))
    },
    end: (code: 'CANCELLED' | 'OPERATION_TIMEOUT') => controller.abort(new GatewayError(code, code)),
  }
}

/** A server that gets calls and answers on command. */
function slowServer(setup: Parameters<typeof bench>[0] = {}) {
  const running: PromiseWithResolvers<Outcome>[] = []
  const aborted: unknown[] = []
  const gateway = bench({
    ...setup,
    server: (call) => {
      onSentSlot.of(call)?.({ id: 1, revision: '2025-11-25' })
      const made = Promise.withResolvers<Outcome>()
      running.push(made)
      const stop = (): void => {
        aborted.push(call.signal.reason)
        made.reject(call.signal.reason)
      }
      if (call.signal.aborted) stop()
      else call.signal.addEventListener('abort', stop)
      return made.promise
    },
  })
  return { gateway, running, aborted }
}

/** Makes a call and waits until its server has it. */
async function sent(gateway: Bench, given: Partial<Call>, params = {}) {
  const before = gateway.seen.length
  const outcome = gateway.make(given, params)
  outcome.catch(() => undefined)
  await vi.waitFor(() => expect(gateway.seen.length).toBe(before + 1))
  return { outcome }
}

describe('a call without a key whose answer was lost', () => {
  it('is joined by an equal call while it runs, which gets its outcome with a notice', async () => {
    const { gateway, running, aborted } = slowServer()
    const first = request()
    const { outcome } = await sent(gateway, first.given)
    first.cancel()
    expect(await failureOf(outcome)).toMatchObject({ code: 'CANCELLED' })
    const retry = gateway.make(request().given)
    running[0]?.resolve(done(1))
    const result = fieldsOf(await retry)
    expect(result).toMatchObject({
      content: [
        { text: '1' },
        { text: expect.stringMatching(/not run again.*"dev\.gatehouse\/run_again": true/) },
      ],
      _meta: {
        'dev.gatehouse/idempotency': { was_replay: true },
        'dev.gatehouse/lost_answer': { run_again: 'dev.gatehouse/run_again', lost_at: expect.any(String) },
      },
    })
    expect(gateway.seen).toHaveLength(1)
    expect(aborted).toEqual([])
  })

  it('keeps its outcome for the window, counted from its end, and not longer', async () => {
    vi.useFakeTimers()
    try {
      const { gateway, running } = slowServer()
      const first = request()
      const made = gateway.make(first.given)
      await vi.advanceTimersByTimeAsync(0)
      first.cut()
      await vi.advanceTimersByTimeAsync(20_000)
      running[0]?.resolve(done(1))
      await made
      await vi.advanceTimersByTimeAsync(59_000)
      expect(textOf(await gateway.make(request().given))).toBe('1')
      await vi.advanceTimersByTimeAsync(2000)
      void gateway.make(request().given)
      await vi.advanceTimersByTimeAsync(0)
      expect(gateway.seen).toHaveLength(2)
    } finally {
      vi.useRealTimers()
    }
  })

  it('is found after its answer was lost on the way out', async () => {
    const gateway = bench({
      server: async (call) => {
        onSentSlot.of(call)?.({ id: 1, revision: '2025-11-25' })
        return done(1)
      },
    })
    const first = request()
    await gateway.make(first.given)
    first.cut()
    expect(textOf(await gateway.make(request().given))).toBe('1')
    expect(gateway.seen).toHaveLength(1)
  })

  it.each([
    ['arguments in another order', { arguments: { b: 1, a: 725653563933458433n } }],
    ['the same arguments', { arguments: { a: 725653563933458433n, b: 1 } }],
  ])('equals a call with %s', async (_title, { arguments: given }) => {
    const gateway = bench({
      server: async (call) => (onSentSlot.of(call)?.({ id: 1, revision: '' }), done(1)),
    })
    const params = (text: string): Partial<Call> => ({ params: Payload.text(text) })
    const first = request(params('{"name":"t","arguments":{"a":725653563933458433,"b":1}}'))
    await gateway.make(first.given)
    first.cut()
    const text = Object.entries(given).map(([key, value]) => `"${key}":${value}`)
    const retry = request(params(`{"name":"t","arguments":{${text.join(',')}}}`))
    await gateway.make(retry.given)
    expect(gateway.seen).toHaveLength(1)
    const other = request(params('{"name":"t","arguments":{"a":725653563933458434,"b":1}}'))
    await gateway.make(other.given)
    expect(gateway.seen).toHaveLength(2)
  })

  it('is not repeated by a call that says that it has to run', async () => {
    const { gateway, running } = slowServer()
    const first = request()
    await sent(gateway, first.given)
    first.cancel()
    const meant = gateway.make(request().given, again)
    await vi.waitFor(() => expect(gateway.seen).toHaveLength(2))
    running[1]?.resolve(done(2))
    expect(textOf(await meant)).toBe('2')
    expect(gateway.seen[1]?.params.text).toBe('{"name":"t","arguments":{"x":1}}')
    const wrong = failureOf(gateway.make(request().given, { _meta: { run_again: 'yes' } }))
    expect(await wrong).toMatchObject({ code: 'INVALID_INPUT' })
  })

  it('is found if its answer was lost before the call came here', async () => {
    const { gateway, running } = slowServer()
    for (const params of [{}, keyed('k-1')]) {
      const before = gateway.seen.length
      const first = request({ principal: { id: `caller ${before}` } })
      first.cut()
      await sent(gateway, first.given, params)
      const retry = gateway.make(request({ principal: { id: `caller ${before}` } }).given)
      running[before]?.resolve(done(1))
      expect(textOf(await retry)).toBe('1')
      expect(gateway.seen).toHaveLength(before + 1)
    }
  })

  it('is repeated by each of several equal ones', async () => {
    const { gateway, running } = slowServer()
    const both = [request(), request()]
    for (const each of both) await sent(gateway, each.given)
    for (const each of both) each.cancel()
    running[0]?.resolve(done(1))
    running[1]?.resolve(done(2))
    const retries = await Promise.all([gateway.make(request().given), gateway.make(request().given)])
    expect(retries.map(textOf)).toEqual(['1', '2'])
    expect(gateway.seen).toHaveLength(2)
  })

  it('is found again if its repetition is lost too', async () => {
    const { gateway, running } = slowServer()
    const requests = [request(), request(), request()]
    await sent(gateway, requests[0]?.given ?? {})
    requests[0]?.cancel()
    for (const each of requests.slice(1)) {
      const lost = failureOf(gateway.make(each.given))
      each.cancel()
      expect(await lost).toMatchObject({ code: 'CANCELLED' })
    }
    const last = gateway.make(request().given)
    running[0]?.resolve(done(1))
    expect(textOf(await last)).toBe('1')
    expect(gateway.seen).toHaveLength(1)
  })

  it('belongs to its caller, and without authentication to its session', async () => {
    const gateway = bench({
      server: async (call) => (onSentSlot.of(call)?.({ id: 1, revision: '' }), done(1)),
    })
    const of = (id: string): Partial<Call> => ({ principal: { id } })
    const inSession = (session?: string): Partial<Call> => ({
      principal: { id: 'anonymous', isEverybody: true },
      client: { era: 'legacy', revision: '2025-11-25', capabilities: {}, ...(session && { session }) },
    })
    for (const [one, other] of [
      [of('anna'), of('ben')],
      [inSession('a'), inSession('b')],
      [inSession(), inSession()],
    ] as const) {
      const before = gateway.seen.length
      const first = request(one)
      await gateway.make(first.given)
      first.cut()
      await gateway.make(request(other).given)
      expect(gateway.seen).toHaveLength(before + 2)
    }
    await gateway.make(request(inSession('a')).given)
    expect(gateway.seen).toHaveLength(6)
  })

  it('is no longer lost once its client has come back for the answer', async () => {
    const { gateway, running } = slowServer()
    const first = request()
    await sent(gateway, first.given)
    first.cut()
    first.resume()
    void sent(gateway, request().given)
    await vi.waitFor(() => expect(gateway.seen).toHaveLength(2))
    for (const each of running) each.resolve(done(1))
  })
})

describe('equal calls that are both alive', () => {
  it('both run, at the same time and one after the other', async () => {
    const { gateway, running } = slowServer()
    const twice = [gateway.make(request().given), gateway.make(request().given)]
    await vi.waitFor(() => expect(gateway.seen).toHaveLength(2))
    for (const each of running) each.resolve(done(1))
    await Promise.all(twice)
    const next = gateway.make(request().given)
    await vi.waitFor(() => expect(gateway.seen).toHaveLength(3))
    running[2]?.resolve(done(3))
    expect(fieldsOf(await next)).toEqual({ content: [{ type: 'text', text: '3' }] })
  })
})

describe('a cancelled call', () => {
  it.each([
    ['reads', { op: 'read' as const, idempotent: true }],
    ['is idempotent', { op: 'write' as const, idempotent: true }],
  ])('that %s is cancelled at its server', async (_title, nature) => {
    const classification = { risk: 'reversible' as const, evidence: [], ...nature }
    const { gateway, aborted } = slowServer({ entry: { classification } })
    const first = request()
    await sent(gateway, first.given)
    first.cancel()
    await vi.waitFor(() => expect(aborted).toMatchObject([{ code: 'CANCELLED' }]))
  })

  it('that was not sent yet has no effect, and an equal call runs', async () => {
    const gateway = bench({
      server: (call) =>
        gateway.seen.length > 1
          ? Promise.resolve(done(2))
          : new Promise((_resolve, reject) =>
              call.signal.addEventListener('abort', () => reject(call.signal.reason)),
            ),
    })
    const first = request()
    const outcome = failureOf(gateway.make(first.given))
    await vi.waitFor(() => expect(gateway.seen).toHaveLength(1))
    first.cancel()
    expect(await outcome).toMatchObject({ code: 'CANCELLED' })
    expect(textOf(await gateway.make(request().given))).toBe('2')
  })

  it('is cancelled at its server if lost answers are off', async () => {
    const { gateway, aborted } = slowServer({ settings: { lost_answers: 'off' } })
    const first = request()
    await sent(gateway, first.given)
    first.cancel()
    await vi.waitFor(() => expect(aborted).toHaveLength(1))
  })
})

describe('the outcome of a lost call', () => {
  it('that is not known is OUTCOME_UNKNOWN for each repetition, and says how to run it', async () => {
    const { gateway, running } = slowServer()
    const first = request()
    await sent(gateway, first.given)
    first.cancel()
    running[0]?.reject(new GatewayError('OUTCOME_UNKNOWN', 'The connection broke.'))
    for (const params of [{}, {}, keyed('k-1')]) {
      const error = await failureOf(gateway.make(request().given, params))
      expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
      expect(error.data.suggestion).toMatch(/read-only tool.*run_again/)
    }
    expect(gateway.seen).toHaveLength(1)
  })

  it('that a server never gives is unknown once it was silent for too long', async () => {
    vi.useFakeTimers()
    try {
      const { gateway, aborted } = slowServer()
      const first = request()
      gateway.make(first.given).catch(() => undefined)
      await vi.advanceTimersByTimeAsync(0)
      first.cancel()
      const waiting = request()
      const late = failureOf(gateway.make(waiting.given))
      waiting.end('OPERATION_TIMEOUT')
      expect(await late).toMatchObject({ code: 'IDEMPOTENCY_IN_PROGRESS' })
      await vi.advanceTimersByTimeAsync(31_000)
      expect(aborted).toMatchObject([{ code: 'OPERATION_TIMEOUT' }])
      expect(await failureOf(gateway.make(request().given))).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    } finally {
      vi.useRealTimers()
    }
  })

  it('that is an error of the server is returned again', async () => {
    const { gateway, running } = slowServer()
    const first = request()
    await sent(gateway, first.given)
    first.cancel()
    running[0]?.reject(new GatewayError('UPSTREAM_ERROR', 'No.', { details: { http_status: 400 } }))
    const error = await failureOf(gateway.make(request().given))
    expect(error).toMatchObject({ code: 'UPSTREAM_ERROR', data: { was_replay: true } })
    expect(error.data.suggestion).toContain('not run again')
  })

  it('that says that nothing was done lets an equal call run', async () => {
    const { gateway, running } = slowServer()
    const first = request()
    await sent(gateway, first.given)
    first.cancel()
    const retry = gateway.make(request().given)
    running[0]?.reject(new GatewayError('UPSTREAM_ERROR', 'Slow down.', { details: { http_status: 429 } }))
    await vi.waitFor(() => expect(gateway.seen).toHaveLength(2))
    running[1]?.resolve(done(2))
    expect(fieldsOf(await retry)).toEqual({ content: [{ type: 'text', text: '2' }] })
  })

  it('that is too large to keep is said to be lost', async () => {
    const { gateway, running } = slowServer()
    const first = request()
    const { outcome } = await sent(gateway, first.given)
    first.cut()
    const text = 'x'.repeat(5 * 1024 * 1024)
    running[0]?.resolve({ kind: 'result', result: Payload.of({ content: [{ type: 'text', text }] }) })
    await outcome
    const error = await failureOf(gateway.make(request().given))
    expect(error).toMatchObject({ code: 'OUTCOME_UNKNOWN' })
    expect(error.message).toMatch('was executed before')
    expect(gateway.seen).toHaveLength(1)
  })

  it('gives its memory back at its end if it gave way to others while it ran', () => {
    const lost = new LostAnswers()
    const forgotten = vi.fn<() => void>()
    const answer = () => ({
      ...{ fingerprint: 'f', startedAt: 0, requestState: undefined, lostAt: 0, taken: 0, window: 1000 },
      delivery: { isLost: () => true, onLost: () => undefined },
      isRunning: () => true,
      end: async () => ({ kind: 'not_kept' }) as const,
      forgotten,
    })
    const first = answer()
    const call = toolCall({ principal: anna })
    for (const each of [first, ...Array.from({ length: 2500 }, answer)]) lost.add(call, each)
    expect(forgotten).toHaveBeenCalledTimes(1)
    lost.schedule(first)
    expect(forgotten).toHaveBeenCalledTimes(2)
  })

  it('is settled by the read that verifies it', async () => {
    const call = async (): Promise<Outcome> => ({
      kind: 'result',
      result: Payload.of({ content: [], structuredContent: { items: [{ id: 7 }] } }),
    })
    const tool = { verify: 'list(x=$.args.x) -> $.result.items[0]' }
    const { gateway, running } = slowServer({ tool, deps: { call } })
    const first = request()
    await sent(gateway, first.given)
    first.cancel()
    running[0]?.reject(new GatewayError('OUTCOME_UNKNOWN', 'The connection broke.'))
    expect(fieldsOf(await gateway.make(request().given))).toMatchObject({
      _meta: { 'dev.gatehouse/verified': true, 'dev.gatehouse/lost_answer': {} },
    })
    expect(gateway.seen).toHaveLength(1)
  })
})

describe('a repetition with a key', () => {
  it('that is new gets the outcome of the lost call, and keeps it under its key', async () => {
    const { gateway, running } = slowServer()
    const first = request()
    await sent(gateway, first.given, keyed('k-1'))
    first.cut()
    running[0]?.resolve(done(1))
    for (const key of ['k-2', 'k-2', 'k-1']) {
      const outcome = await gateway.make(request().given, keyed(key))
      expect(textOf(outcome)).toBe('1')
      expect(fieldsOf(outcome)).toMatchObject({ idempotency: { idempotency_key: key, was_replay: true } })
    }
    expect(textOf(await gateway.make(request().given))).toBe('1')
    expect(gateway.seen).toHaveLength(1)
  })

  it('gets the outcome of a call without one', async () => {
    const { gateway, running } = slowServer()
    const first = request()
    await sent(gateway, first.given)
    first.cancel()
    const retry = gateway.make(request().given, keyed('k'))
    running[0]?.resolve(done(1))
    expect(fieldsOf(await retry)).toMatchObject({
      _meta: { was_replay: true, 'dev.gatehouse/lost_answer': {} },
    })
    expect(gateway.seen).toHaveLength(1)
  })

  it('runs if it says that it has to', async () => {
    const { gateway, running } = slowServer()
    const first = request()
    await sent(gateway, first.given)
    first.cancel()
    const meta = { ...keyed('k')._meta, ...again._meta }
    const meant = gateway.make(request().given, { _meta: meta })
    await vi.waitFor(() => expect(gateway.seen).toHaveLength(2))
    running[1]?.resolve(done(2))
    expect(fieldsOf(await meant)).toMatchObject({ _meta: { was_replay: false } })
  })
})

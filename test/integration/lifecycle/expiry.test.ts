import { describe, expect, test } from 'vitest'
import { createRequestStateCodec } from '../../../src/protocol/request-state.ts'
import { suspendable, type UpstreamCall } from '../../../src/upstream/suspended-calls.ts'
import type { InputResponse, Call, Outcome } from '../../../src/core/call.ts'
import { GatewayError } from '../../../src/core/error.ts'
import { Payload } from '../../../src/core/payload.ts'
import { anonymous } from '../../../src/core/principal.ts'

const question = { method: 'elicitation/create', params: Payload.of({ message: '?', requestedSchema: {} }) }
const sampling = { method: 'sampling/createMessage', params: Payload.of({ messages: [] }) }
const done: Outcome = { kind: 'result', result: Payload.of({}) }

describe('a call whose input responses never arrive', () => {
  test('is given up: the server receives the missing responses, and then the cancellation', async () => {
    const told = Promise.withResolvers<readonly (InputResponse | undefined)[]>()
    const cancelled = Promise.withResolvers<unknown>()
    const handle = suspendable(
      async (working) => {
        working.signal.addEventListener('abort', () => cancelled.resolve(working.signal.reason))
        told.resolve(await Promise.all([working.requestInput(question), working.requestInput(sampling)]))
        return done
      },
      { collectMs: 1, answerTimeoutMs: 20 },
    )
    const outcome = await handle(callOf())
    expect(outcome.kind).toBe('input_required')
    expect(await cancelled.promise).toBeInstanceOf(GatewayError)
    const [form, model] = await told.promise
    expect(form && 'result' in form && form.result.value).toEqual({ action: 'cancel' })
    expect(model && 'error' in model && model.error.fields['code']).toBe(-32603)
    expect(await codeOf(handle(callOf({ requestState: stateOf(outcome), inputResponses: {} })))).toBe(
      'STATE_EXPIRED',
    )
  })

  test('is limited in number: calls beyond the limit go without input at once', async () => {
    const handle = suspendable(asking, { collectMs: 1, answerTimeoutMs: 60_000, limit: 2 })
    const outcomes = await Promise.all([1, 2, 3].map(() => handle(callOf())))
    expect(outcomes.map(({ kind }) => kind)).toEqual(['input_required', 'input_required', 'result'])
    const retried = await handle(
      callOf({ requestState: stateOf(outcomes[0]), inputResponses: { q1: { result: Payload.of({}) } } }),
    )
    expect(retried.kind).toBe('result')
    expect((await handle(callOf())).kind).toBe('input_required')
  })

  test('cannot be resumed by another principal', async () => {
    const handle = suspendable(asking, { collectMs: 1 })
    const outcome = await handle(callOf())
    const other = callOf({
      requestState: stateOf(outcome),
      inputResponses: {},
      principal: { ...anonymous, id: 'another' },
    })
    expect(await codeOf(handle(other))).toBe('STATE_EXPIRED')
    const own = callOf({ requestState: stateOf(outcome), inputResponses: { q1: { result: Payload.of({}) } } })
    expect((await handle(own)).kind).toBe('result')
  })
})

describe('a sealed request state', () => {
  test('is valid for a while and then refused as expired', () => {
    let now = 0
    const seal = createRequestStateCodec(() => now, 1000)
    const [early, late] = [seal.close({ slot: 1 }, 'call'), seal.close({ slot: 2 }, 'call')]
    now = 999
    expect(seal.open(early, 'call')).toEqual({ slot: 1 })
    now = 1001
    expect(() => seal.open(late, 'call')).toThrow(expect.objectContaining({ code: 'STATE_EXPIRED' }))
  })
})

async function asking(working: UpstreamCall): Promise<Outcome> {
  await working.requestInput(question)
  return done
}

function stateOf(outcome: Outcome | undefined): Call['requestState'] {
  return outcome?.kind === 'input_required' ? outcome.requestState : {}
}

async function codeOf(outcome: Promise<Outcome>): Promise<unknown> {
  const error: unknown = await outcome.then(
    () => undefined,
    (thrown: unknown) => thrown,
  )
  return error instanceof GatewayError ? error.code : undefined
}

function callOf(more: Partial<Call> = {}): Call {
  return {
    requestId: 'r1',
    method: 'tools/call',
    params: Payload.of({ name: 'ask' }),
    target: { method: 'tools/call', upstream: 'one', name: 'ask' },
    principal: anonymous,
    client: { era: 'modern', revision: '2026-07-28', capabilities: { elicitation: {}, sampling: {} } },
    meta: {},
    requestState: {},
    signal: new AbortController().signal,
    abort: () => undefined,
    logFields: new Map(),
    emit: () => undefined,
    ...more,
  }
}

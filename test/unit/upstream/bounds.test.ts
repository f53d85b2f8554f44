import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { suspendable, type UpstreamCall } from '../../../src/upstream/suspended-calls.ts'
import type { InputResponse, Call, Outcome } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'
import { anonymous } from '../../../src/core/principal.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function call(fields: Partial<Call> = {}): Call {
  return {
    requestId: 'r1',
    method: 'tools/call',
    params: Payload.of({ name: 'ask' }),
    target: { method: 'tools/call', name: 'ask' },
    principal: anonymous,
    client: { era: 'modern', revision: '2026-07-28', capabilities: { elicitation: {} } },
    meta: {},
    requestState: {},
    signal: new AbortController().signal,
    abort: () => undefined,
    logFields: new Map(),
    emit: () => undefined,
    ...fields,
  }
}

const question = { method: 'elicitation/create', params: Payload.of({ message: 'Name?' }) }

/** A server that asks one question and tells what it heard. */
async function asking(working: UpstreamCall): Promise<Outcome> {
  const answer = await working.requestInput(question)
  return { kind: 'result', result: Payload.of({ heard: said(answer) }) }
}

function said(answer: InputResponse | undefined): unknown {
  if (!answer) return undefined
  return 'result' in answer ? answer.result.fields.action : answer.error.fields.code
}

async function first(outcome: Promise<Outcome>): Promise<Outcome> {
  await vi.advanceTimersByTimeAsync(20)
  return outcome
}

describe('parked calls', () => {
  test('are no more than there may be: the server beyond learns that nobody answers', async () => {
    const handle = suspendable(asking, { limit: 2 })
    const kinds = await Promise.all([1, 2, 3].map(() => first(handle(call()))))
    expect(kinds.map(({ kind }) => kind)).toEqual(['input_required', 'input_required', 'result'])
    expect(kinds.at(2)).toMatchObject({ result: { value: { heard: 'cancel' } } })
  })

  test('of one caller are a quarter of them: what it calls next is refused before it is sent', async () => {
    let opened = 0
    const handle = suspendable(
      (working) => {
        opened++
        return asking(working)
      },
      { limit: 8 },
    )
    const [greedy, quiet] = [{ id: 'greedy' }, { id: 'quiet' }]
    const held = await Promise.all([1, 2].map(() => first(handle(call({ principal: greedy })))))
    await expect(handle(call({ principal: greedy }))).rejects.toMatchObject({
      code: 'OVERLOADED',
      message: expect.stringContaining('of this caller'),
      extra: { isUnsent: true },
    })
    expect(opened).toBe(2)
    expect((await first(handle(call({ principal: quiet })))).kind).toBe('input_required')
    const mute = { era: 'modern', revision: '2026-07-28', capabilities: {} } as const
    expect((await handle(call({ principal: greedy, client: mute }))).kind).toBe('result')
    const state = held[0]?.kind === 'input_required' ? held[0].requestState : {}
    const answers = { q1: { result: Payload.of({ action: 'accept' }) } }
    await first(handle(call({ principal: greedy, requestState: state, inputResponses: answers })))
    expect((await first(handle(call({ principal: greedy })))).kind).toBe('input_required')
  })

  test('of one caller are a quarter of them also where it makes many at once', async () => {
    const handle = suspendable(asking, { limit: 8 })
    const kinds = await Promise.all([1, 2, 3].map(() => first(handle(call({ principal: { id: 'greedy' } })))))
    expect(kinds.map(({ kind }) => kind)).toEqual(['input_required', 'input_required', 'result'])
  })

  test('make room when they are taken up again', async () => {
    const handle = suspendable(asking, { limit: 1 })
    const asked = await first(handle(call()))
    if (asked.kind !== 'input_required') throw new Error('it did not ask')
    const answers = { q1: { result: Payload.of({ action: 'accept' }) } }
    expect(
      await first(handle(call({ requestState: asked.requestState, inputResponses: answers }))),
    ).toMatchObject({
      result: { value: { heard: 'accept' } },
    })
    expect((await first(handle(call()))).kind).toBe('input_required')
  })

  test('are given up after a time, and a late retry is told so', async () => {
    const heard = Promise.withResolvers<unknown>()
    const open = async (working: UpstreamCall): Promise<Outcome> => {
      heard.resolve(said(await working.requestInput(question)))
      return { kind: 'result', result: Payload.of({}) }
    }
    const handle = suspendable(open, { answerTimeoutMs: 1000 })
    const asked = await first(handle(call()))
    await vi.advanceTimersByTimeAsync(1001)
    expect(await heard.promise).toBe('cancel')
    const retry = handle(call({ requestState: asked.kind === 'input_required' ? asked.requestState : {} }))
    await expect(retry).rejects.toMatchObject({ code: 'STATE_EXPIRED' })
  })

  test('are taken up by nobody but their caller, and once', async () => {
    const handle = suspendable(asking)
    const asked = await first(handle(call()))
    const state = asked.kind === 'input_required' ? asked.requestState : {}
    const other = { ...anonymous, id: 'somebody-else' }
    await expect(handle(call({ requestState: state, principal: other }))).rejects.toMatchObject({
      code: 'STATE_EXPIRED',
    })
    const answers = { q1: { result: Payload.of({ action: 'accept' }) } }
    expect((await first(handle(call({ requestState: state, inputResponses: answers })))).kind).toBe('result')
    await expect(handle(call({ requestState: state, inputResponses: answers }))).rejects.toMatchObject({
      code: 'STATE_EXPIRED',
    })
  })

  test.each([7, null, {}, 'no-such-ticket', '__proto__'])(
    'are not found by the ticket %j',
    async (ticket) => {
      await expect(suspendable(asking)(call({ requestState: { park: ticket } }))).rejects.toMatchObject({
        code: 'STATE_EXPIRED',
      })
    },
  )
})

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { suspendable, type UpstreamCall } from '../../../src/upstream/suspended-calls.ts'
import type { InputResponse, Call, Outcome } from '../../../src/core/call.ts'
import { HeldMemory } from '../../../src/core/holdings.ts'
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

/** A server that requests input once and returns the response. */
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

describe('suspended calls', () => {
  test('the number of suspended calls is limited, and a further input request is answered with cancel', async () => {
    const handle = suspendable(asking, { limit: 2 })
    const kinds = await Promise.all([1, 2, 3].map(() => first(handle(call()))))
    expect(kinds.map(({ kind }) => kind)).toEqual(['input_required', 'input_required', 'result'])
    expect(kinds.at(2)).toMatchObject({ result: { value: { heard: 'cancel' } } })
  })

  test('one caller can have a quarter of the suspended calls, and its next call is refused before it is sent', async () => {
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

  test('one caller can have a quarter of the suspended calls even with concurrent calls', async () => {
    const handle = suspendable(asking, { limit: 8 })
    const kinds = await Promise.all([1, 2, 3].map(() => first(handle(call({ principal: { id: 'greedy' } })))))
    expect(kinds.map(({ kind }) => kind)).toEqual(['input_required', 'input_required', 'result'])
  })

  test('suspended calls count toward the memory that their caller may take, until they end', async () => {
    const held = new HeldMemory()
    const handle = suspendable(asking, { answerTimeoutMs: 1000, held })
    const large = (id: string): Call =>
      call({ principal: { id }, params: Payload.of({ name: 'ask', text: 'x'.repeat(8_000_000) }) })
    for (let count = 0; count < 2; count++)
      expect((await first(handle(large('greedy')))).kind).toBe('input_required')
    await expect(handle(large('greedy'))).rejects.toMatchObject({ code: 'OVERLOADED' })
    expect((await first(handle(large('quiet')))).kind).toBe('input_required')
    await vi.advanceTimersByTimeAsync(1001)
    expect((await first(handle(large('greedy')))).kind).toBe('input_required')
    await vi.advanceTimersByTimeAsync(1001)
    expect(held.isOwnFull({ id: 'greedy' }, 64 * 1024 * 1024)).toBe(false)
  })

  test('a resumed call makes room', async () => {
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

  test('suspended calls expire, and a late retry is answered accordingly', async () => {
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

  test('a suspended call is resumed once, by its own caller', async () => {
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
    'continuation token %j finds no suspended call',
    async (ticket) => {
      await expect(suspendable(asking)(call({ requestState: { park: ticket } }))).rejects.toMatchObject({
        code: 'STATE_EXPIRED',
      })
    },
  )
})

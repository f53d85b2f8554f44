import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { askInline } from '../../../src/bridge/ask.ts'
import type { Answers, Handler, Questions } from '../../../src/core/call.ts'
import { Payload } from '../../../src/core/payload.ts'
import { toolCall } from '../../support/tool-call.ts'

const answers: Answers = { q: { result: Payload.of({ action: 'accept' }) } }

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function questions(message: string): Questions {
  return { q: { method: 'elicitation/create', params: Payload.of({ message }) } }
}

/** A server that asks so many times before it answers, for a client that answers each time. */
function asking(times: number, worded = (round: number) => `Why ${round}?`) {
  const seen = { calls: 0, puts: 0 }
  const server: Handler = async ({ state }) => {
    const round = Number(state['round'] ?? 0)
    seen.calls++
    if (round === times) return { kind: 'result', result: Payload.of({ round }) }
    return { kind: 'ask', questions: questions(worded(round)), state: { round: round + 1 } }
  }
  const handle = askInline(server, async () => {
    seen.puts++
    return answers
  })
  return { handle, seen }
}

it('a server may ask ten times in the middle of a call, and not for ever', async () => {
  const few = asking(10)
  expect(await few.handle(toolCall())).toMatchObject({ kind: 'result', result: { fields: { round: 10 } } })
  expect(few.seen).toEqual({ calls: 11, puts: 10 })
  const many = asking(Number.POSITIVE_INFINITY)
  await expect(many.handle(toolCall())).rejects.toMatchObject({ code: 'TOO_MANY_ROUNDS' })
  expect(many.seen).toEqual({ calls: 11, puts: 10 })
})

it('a server may ask whoever listens for as long as that goes on', async () => {
  const { handle, seen } = asking(50)
  await handle(toolCall({ method: 'subscriptions/listen', target: { method: 'subscriptions/listen' } }))
  expect(seen.puts).toBe(50)
})

it('asks for the same again only after a while', async () => {
  const { handle, seen } = asking(2, () => 'Signed in?')
  const outcome = handle(toolCall())
  await vi.advanceTimersByTimeAsync(200)
  expect(seen).toEqual({ calls: 2, puts: 1 })
  await vi.advanceTimersByTimeAsync(100)
  expect(seen).toEqual({ calls: 3, puts: 2 })
  expect(await outcome).toMatchObject({ kind: 'result' })
})

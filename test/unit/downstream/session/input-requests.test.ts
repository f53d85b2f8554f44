import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { requestInputInline } from '../../../../src/downstream/session/input-requests.ts'
import type {
  InputResponses,
  Handler,
  Notification,
  Outcome,
  InputRequests,
} from '../../../../src/core/call.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { toolCall } from '../../../support/tool-call.ts'

const answers: InputResponses = { q: { result: Payload.of({ action: 'accept' }) } }

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

function questions(message: string): InputRequests {
  return { q: { method: 'elicitation/create', params: Payload.of({ message }) } }
}

/** A server that requests input the given number of times, and a client that always responds. */
function asking(times: number, worded = (round: number) => `Why ${round}?`) {
  const seen = { calls: 0, puts: 0 }
  const server: Handler = async ({ requestState: state }) => {
    const round = Number(state['round'] ?? 0)
    seen.calls++
    if (round === times) return { kind: 'result', result: Payload.of({ round }) }
    return {
      kind: 'input_required',
      inputRequests: questions(worded(round)),
      requestState: { round: round + 1 },
    }
  }
  const handle = requestInputInline(server, async () => {
    seen.puts++
    return answers
  })
  return { handle, seen }
}

it('a server may request input ten times within a call', async () => {
  const few = asking(10)
  expect(await few.handle(toolCall())).toMatchObject({ kind: 'result', result: { fields: { round: 10 } } })
  expect(few.seen).toEqual({ calls: 11, puts: 10 })
  const many = asking(Number.POSITIVE_INFINITY)
  await expect(many.handle(toolCall())).rejects.toMatchObject({ code: 'TOO_MANY_ROUNDS' })
  expect(many.seen).toEqual({ calls: 11, puts: 10 })
})

it('a server may request input without limit during a subscription', async () => {
  const { handle, seen } = asking(50)
  await handle(toolCall({ method: 'subscriptions/listen', target: { method: 'subscriptions/listen' } }))
  expect(seen.puts).toBe(50)
})

it('an identical input request is repeated only after a delay', async () => {
  const { handle, seen } = asking(2, () => 'Signed in?')
  const outcome = handle(toolCall())
  await vi.advanceTimersByTimeAsync(200)
  expect(seen).toEqual({ calls: 2, puts: 1 })
  await vi.advanceTimersByTimeAsync(100)
  expect(seen).toEqual({ calls: 3, puts: 2 })
  expect(await outcome).toMatchObject({ kind: 'result' })
})

interface Page {
  readonly url: string
  readonly elicitationId?: string
  readonly isOpen?: true
}

/** A server that sends the user to these pages in turn, and a client that responds with `action` each time. */
function sending(pages: readonly Page[], action = 'accept') {
  const ids: unknown[] = []
  const events: unknown[] = []
  const server: Handler = async ({ requestState: state }): Promise<Outcome> => {
    const round = Number(state['round'] ?? 0)
    const page = pages[round]
    if (!page) return { kind: 'result', result: Payload.of({ round }) }
    const { isOpen, ...link } = page
    const params = Payload.of({ mode: 'url', message: 'Go', ...link })
    const questions = { q: { method: 'elicitation/create', params } }
    return {
      kind: 'input_required',
      inputRequests: questions,
      requestState: { round: round + 1 },
      ...(isOpen && { isOpen }),
    }
  }
  const handle = requestInputInline(server, async ({ q }) => {
    ids.push(q?.params?.fields['elicitationId'])
    events.push('asked')
    return { q: { result: Payload.of({ action }) } }
  })
  const emit = (note: Notification): void =>
    void events.push([note.method, note.params?.fields['elicitationId']])
  return { run: () => handle(toolCall({ emit })), ids, events }
}

const over = 'notifications/elicitation/complete'

describe('a URL elicitation', () => {
  it('the elicitation id is unique to the call, and completion is notified when the server continues', async () => {
    const { run, ids, events } = sending([{ url: 'https://a.test/' }])
    await run()
    await run()
    expect(new Set(ids).size).toBe(2)
    expect(ids.every((id) => typeof id === 'string' && id.length >= 32)).toBe(true)
    expect(events).toEqual(['asked', [over, ids[0]], 'asked', [over, ids[1]]])
  })

  it('the elicitation id is kept while the server repeats the same URL', async () => {
    const { run, ids, events } = sending([{ url: 'https://a.test/' }, { url: 'https://a.test/' }])
    const outcome = run()
    await vi.advanceTimersByTimeAsync(300)
    await outcome
    expect(ids[0]).toBe(ids[1])
    expect(events).toEqual(['asked', 'asked', [over, ids[0]]])
  })

  it('the elicitation is completed when the server sends another URL', async () => {
    const { run, ids, events } = sending([{ url: 'https://a.test/' }, { url: 'https://b.test/' }])
    await run()
    expect(ids[0]).not.toBe(ids[1])
    expect(events).toEqual(['asked', [over, ids[0]], 'asked', [over, ids[1]]])
  })

  it.each(['decline', 'cancel'])('no completion is notified if the user answers %s', async (action) => {
    const { run, events } = sending([{ url: 'https://a.test/' }], action)
    await run()
    expect(events).toEqual(['asked'])
  })

  it('an elicitation id chosen by a server that cannot complete it is replaced', async () => {
    const { run, ids, events } = sending([{ url: 'https://a.test/', elicitationId: 'one' }])
    await run()
    expect(ids[0]).not.toBe('one')
    expect(events).toEqual(['asked', [over, ids[0]]])
  })

  it('the elicitation id of a 2025-11-25 server is kept, and the server notifies completion', async () => {
    const { run, ids, events } = sending([{ url: 'https://a.test/', elicitationId: 'one', isOpen: true }])
    await run()
    expect(ids).toEqual(['one'])
    expect(events).toEqual(['asked'])
  })
})

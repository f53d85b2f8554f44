import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Notification } from '../../../../src/core/call.ts'
import { isObject } from '../../../../src/core/json/json.ts'
import { Payload } from '../../../../src/core/payload.ts'
import {
  UsualDurations,
  PROGRESS_KEY,
  ProgressNotes,
  stillRunning,
} from '../../../../src/features/progress/notes.ts'

const METHOD = 'notifications/progress'
const START = 1_000_000

interface Given {
  readonly token?: Payload | undefined
  readonly id?: string | undefined
  readonly usual?: number
  readonly hasReceiver?: boolean
  readonly isBeside?: boolean
}

/** The notes of a call that began at `START`, and everything its caller gets. */
function notesOf(given: Given = {}) {
  const { token = Payload.text('"tok"'), id = 'op1', usual } = { ...given }
  const emitted: Notification[] = []
  const notes = new ProgressNotes({
    startedAt: START,
    token: 'token' in given ? given.token : token,
    operationId: () => ('id' in given ? given.id : id),
    usualMs: () => usual,
    emit: (note) => void emitted.push(note),
    hasReceiver: () => given.hasReceiver ?? true,
    isBeside: given.isBeside ?? false,
  })
  const say = (fields: Readonly<Record<string, unknown>>, now = START): void => {
    notes.relay({ method: METHOD, params: Payload.of({ progressToken: 'tok', ...fields }) }, now)
  }
  return { notes, emitted, say }
}

function progressOf({ params }: Notification): number {
  // As the client reads it: a value that JSON does not have would be null.
  const read: unknown = JSON.parse(params?.text ?? 'null')
  const value = isObject(read) ? read['progress'] : undefined
  if (typeof value !== 'number') throw new TypeError(`it has no progress: ${params?.text}`)
  return value
}

/** The proposal's object of a note. */
function objectOf(note: Notification | undefined): Readonly<Record<string, unknown>> | undefined {
  const object = note?.params?.meta(PROGRESS_KEY)
  return isObject(object) ? object : undefined
}

/** What happens to a call: a value of its server, or a heartbeat. */
const happening = fc.oneof(
  fc.record({ kind: fc.constant('value'), value: fc.double({ noNaN: true, min: -1e300, max: 1e300 }) }),
  fc.record({ kind: fc.constant('value'), value: fc.integer({ min: -3, max: 12 }) }),
  fc.record({ kind: fc.constant('beat'), value: fc.constant(0) }),
)

describe('a part of the result', () => {
  const chunk = { type: 'stream_chunk', sequence: 0, is_final: false }
  const part = (progress: number) => ({
    method: METHOD,
    params: Payload.of({ progressToken: 'tok', progress, _meta: { 'dev.gatehouse/chunk': chunk } }),
    mustArrive: true as const,
  })

  it('names the operation, and is marked as one that must arrive', () => {
    const { notes, emitted } = notesOf()
    notes.relay(part(1), START)
    expect(emitted).toHaveLength(1)
    expect(emitted[0]?.mustArrive).toBe(true)
    expect(emitted[0]?.params?.meta('dev.gatehouse/chunk')).toEqual({ ...chunk, operation_id: 'op1' })
    expect(objectOf(emitted[0])).toMatchObject({ type: 'progress', operation_id: 'op1' })
  })

  it('names none where there is none', () => {
    const { notes, emitted } = notesOf({ id: undefined })
    notes.relay(part(1), START)
    expect(emitted[0]?.params?.meta('dev.gatehouse/chunk')).toEqual(chunk)
  })

  it('is never swallowed, whatever the server said before, and its value grows', () => {
    const { notes, emitted, say } = notesOf()
    say({ progress: 50 })
    notes.relay(part(1), START)
    notes.relay(part(2), START)
    say({ progress: 40 })
    say({ progress: 60 })
    const values = emitted.map(progressOf)
    expect(values).toHaveLength(4)
    expect(values).toEqual(values.toSorted((one, other) => one - other))
    expect(new Set(values).size).toBe(4)
  })
})

describe('the values of progress', () => {
  it('only grow, and none of the server is swallowed unless it is no larger than its own last one', () => {
    fc.assert(
      fc.property(fc.array(happening, { maxLength: 40 }), (happenings) => {
        const { notes, emitted, say } = notesOf()
        let largest = Number.NEGATIVE_INFINITY
        for (const { kind, value } of happenings) {
          const before = emitted.length
          if (kind === 'beat') notes.heartbeat(START)
          else say({ progress: value })
          const isSaid = kind === 'beat' || value > largest
          expect(emitted.length - before).toBe(isSaid ? 1 : 0)
          if (kind !== 'beat') largest = Math.max(largest, value)
        }
        const values = emitted.map(progressOf)
        for (const [index, value] of values.entries()) {
          if (index > 0) expect(value).toBeGreaterThan(values[index - 1] ?? Number.NaN)
        }
      }),
    )
  })

  it('a value of the server after a heartbeat differs from its own by less than a client sees', () => {
    for (const value of [1, 7, 0.25, 1e9, -3]) {
      const { notes, emitted, say } = notesOf()
      say({ progress: value })
      for (let count = 0; count < 100; count++) notes.heartbeat(START)
      const next = value + 1
      say({ progress: next })
      expect(emitted).toHaveLength(102)
      expect(emitted.map(progressOf).at(-1)).toBe(next)
      expect(Math.abs(progressOf(emitted[100] ?? { method: '' }) - value)).toBeLessThan(
        1e-6 * Math.abs(value),
      )
    }
  })

  it('the first value of a server passes after a heartbeat though it is 0 or less', () => {
    for (const value of [0, -5]) {
      const { notes, emitted, say } = notesOf()
      notes.heartbeat(START)
      say({ progress: value, message: 'begun' })
      expect(emitted).toHaveLength(2)
      expect(emitted[1]?.params?.fields['message']).toBe('begun')
    }
  })

  it('a value that no JSON number holds is never sent', () => {
    const { notes, emitted } = notesOf()
    notes.relay({ method: METHOD, params: Payload.text('{"progressToken":"tok","progress":1e400}') }, START)
    notes.heartbeat(START)
    notes.relay({ method: METHOD, params: Payload.text('{"progressToken":"tok","progress":1}') }, START)
    notes.heartbeat(START)
    const values = emitted.map(progressOf)
    expect(values.every(Number.isFinite)).toBe(true)
    expect(values).toHaveLength(3)
  })

  it('a heartbeat after the largest number there is can still be read', () => {
    const { notes, emitted, say } = notesOf()
    say({ progress: Number.MAX_VALUE })
    notes.heartbeat(START)
    expect(() => emitted.map(progressOf)).not.toThrow()
  })

  it('a value of the server that no heartbeat preceded keeps its text', () => {
    const { notes, emitted } = notesOf({ id: undefined })
    const text = '{"progressToken":12345678901234567890, "progress":1.0,"x":[1.50]}'
    notes.relay({ method: METHOD, params: Payload.text(text) }, START)
    expect(emitted[0]?.params?.text).toBe(text)
  })

  it('progress without a number is not passed on, and other notifications pass unchanged', () => {
    const { notes, emitted, say } = notesOf()
    say({})
    say({ progress: '1' })
    const other: Notification = { method: 'notifications/message', params: Payload.of({ data: 'x' }) }
    notes.relay(other, START)
    const bare: Notification = { method: 'notifications/x' }
    notes.relay(bare, START)
    expect(emitted).toEqual([other, bare])
    expect(emitted[0]).toBe(other)
  })
})

describe("the proposal's object of a note", () => {
  it('has the id of the operation, and progress only where the total is known, between 0 and 1', () => {
    const total = fc.oneof(
      fc.double({ noNaN: true }),
      fc.integer({ min: -2, max: 12 }),
      fc.constant(undefined),
    )
    fc.assert(
      fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), total, (progress, known) => {
        const { emitted, say } = notesOf()
        say({ progress, ...(known !== undefined && { total: known }) })
        const object = objectOf(emitted[0])
        expect(object).toMatchObject({ type: 'progress', operation_id: 'op1' })
        const fits = known !== undefined && Number.isFinite(known) && known > 0
        const isKnown = fits && progress >= 0 && progress <= known
        expect(object !== undefined && 'progress' in object).toBe(isKnown)
        if (!isKnown) return
        expect(object?.['progress']).toBeGreaterThanOrEqual(0)
        expect(object?.['progress']).toBeLessThanOrEqual(1)
      }),
    )
  })

  it('says the share that is done, and the message of the server', () => {
    const { notes, emitted, say } = notesOf()
    say({ progress: 5, total: 20, message: 'five files' })
    expect(objectOf(emitted[0])).toEqual({
      type: 'progress',
      operation_id: 'op1',
      progress: 0.25,
      message: 'five files',
    })
    expect(emitted[0]?.params?.fields).toMatchObject({ progressToken: 'tok', progress: 5, total: 20 })
    expect(notes.message).toBe('five files')
    say({ progress: 6, total: 20 })
    expect(notes.message).toBe('five files')
    expect(objectOf(emitted[1])).not.toHaveProperty('message')
  })

  it('keeps what else stands in _meta of the note', () => {
    const { emitted, say } = notesOf()
    say({ progress: 1, _meta: { a: 1 } })
    expect(emitted[0]?.params?.fields['_meta']).toMatchObject({ a: 1, [PROGRESS_KEY]: {} })
  })

  it('is left out where the call is no operation', () => {
    const { notes, emitted, say } = notesOf({ id: undefined })
    say({ progress: 1 })
    notes.heartbeat(START + 5000)
    expect(emitted).toHaveLength(2)
    for (const { params } of emitted) expect(params?.fields).not.toHaveProperty('_meta')
  })
})

describe('the estimate of the time that is left', () => {
  const remaining = (note: Notification | undefined) => objectOf(note)?.['estimated_remaining_seconds']

  it('is linear from the third value on', () => {
    const { emitted, say } = notesOf()
    for (const [index, progress] of [0, 1, 2, 5].entries())
      say({ progress, total: 10 }, START + (index + 1) * 1000)
    // Two tenths in two seconds, so the other eight take eight; later five tenths in three.
    expect(emitted.map(remaining)).toEqual([undefined, undefined, 8, 3])
  })

  it('is the rest of the usual duration before the third value, and nothing once that has passed', () => {
    const { emitted, say } = notesOf({ usual: 20_000 })
    say({ progress: 1, total: 10 }, START + 5000)
    say({ progress: 2, total: 10 }, START + 21_000)
    say({ progress: 3 }, START + 12_000)
    expect(emitted.map(remaining)).toEqual([15, undefined, 8])
  })

  it('is 0 at the end, and omitted where nothing is known', () => {
    const { emitted, say } = notesOf()
    for (const progress of [8, 9, 10]) say({ progress, total: 10 }, START + progress * 1000)
    expect(emitted.map(remaining)).toEqual([undefined, undefined, 0])
  })

  it('is never negative, whatever the server and the clock say', () => {
    const step = fc.record({
      by: fc.integer({ min: 0, max: 4 }),
      total: fc.constantFrom(20, 20, 25, 0, undefined),
      at: fc.integer({ min: -60_000, max: 600_000 }),
      isBeat: fc.boolean(),
    })
    const usual = fc.option(fc.nat({ max: 60_000 }), { nil: undefined })
    fc.assert(
      fc.property(fc.array(step, { minLength: 3, maxLength: 12 }), usual, (steps, known) => {
        const { notes, emitted, say } = notesOf(known === undefined ? {} : { usual: known })
        let progress = 0
        for (const { by, total, at, isBeat } of steps) {
          progress += by
          if (isBeat) notes.heartbeat(START + at)
          else say({ progress, ...(total !== undefined && { total }) }, START + at)
        }
        for (const note of emitted) expect(remaining(note) ?? 0).toBeGreaterThanOrEqual(0)
      }),
    )
  })
})

describe('a heartbeat', () => {
  it('says for how long the call has run, how long it usually takes, and what is left of that', () => {
    const { notes, emitted } = notesOf({ usual: 20_000 })
    notes.heartbeat(START + 12_000)
    const [note] = emitted
    expect(note?.method).toBe(METHOD)
    expect(note?.params?.fields).toMatchObject({
      progressToken: 'tok',
      progress: 0,
      message: 'still running, 12 s, usually 20 s',
    })
    expect(objectOf(note)).toEqual({
      type: 'progress',
      operation_id: 'op1',
      message: 'still running, 12 s, usually 20 s',
      estimated_remaining_seconds: 8,
    })
  })

  it.each([
    [12_000, undefined, 'still running, 12 s'],
    [11_600, 20_400, 'still running, 12 s, usually 20 s'],
    [5000, 100, 'still running, 5 s, usually 1 s'],
    [0, undefined, 'still running, 0 s'],
  ])('after %j ms of usually %j ms it reads %j', (elapsed, usual, text) => {
    expect(stillRunning(elapsed, usual)).toBe(text)
  })

  it('keeps the token of the caller as it came', () => {
    const { notes, emitted } = notesOf({ token: Payload.text('12345678901234567890') })
    notes.heartbeat(START)
    expect(emitted[0]?.params?.text).toContain('"progressToken":12345678901234567890')
  })

  it('does not take the place of the last message of the server', () => {
    const { notes, say } = notesOf()
    say({ progress: 1, message: 'copying' })
    notes.heartbeat(START + 9000)
    expect(notes.message).toBe('copying')
  })

  it('is not sent to a caller without a token, and counts as said all the same', () => {
    const { notes, emitted } = notesOf({ token: undefined })
    notes.heartbeat(START + 6000)
    expect(emitted).toEqual([])
    expect(notes.notifiedAt).toBe(START + 6000)
  })

  it('follows the last value of the server: only values that grow count as said', () => {
    const { notes, say } = notesOf()
    say({ progress: 1 }, START + 1000)
    say({ progress: 1 }, START + 2000)
    expect(notes.notifiedAt).toBe(START + 1000)
  })
})

it('nothing is said once the notes are stopped', () => {
  const { notes, emitted, say } = notesOf()
  say({ progress: 1 })
  notes.stop()
  say({ progress: 2 })
  notes.heartbeat(START + 10_000)
  notes.relay({ method: 'notifications/message', params: Payload.of({}) }, START)
  expect(emitted).toHaveLength(1)
})

describe('the durations of a tool', () => {
  it('are usual from the third on: half of the last twenty took no longer', () => {
    const durations = new UsualDurations()
    durations.add('one t', 9000)
    durations.add('one t', 1000)
    expect(durations.usual('one t')).toBeUndefined()
    durations.add('one t', 3000)
    expect(durations.usual('one t')).toBe(3000)
    expect(durations.usual('one u')).toBeUndefined()
    for (let count = 0; count < 20; count++) durations.add('one t', 7000)
    expect(durations.usual('one t')).toBe(7000)
    for (let count = 0; count < 11; count++) durations.add('one t', 2000)
    expect(durations.usual('one t')).toBe(2000)
  })

  it('of the tool that was called least recently are forgotten first', () => {
    const durations = new UsualDurations()
    const learn = (tool: string): void => {
      for (let count = 0; count < 3; count++) durations.add(tool, 1000)
    }
    learn('first')
    learn('second')
    for (let count = 0; count < 997; count++) durations.add(`tool ${count}`, 1000)
    durations.add('first', 1000)
    durations.add('one more', 1000)
    expect(durations.usual('first')).toBe(1000)
    durations.add('yet one more', 1000)
    expect(durations.usual('second')).toBeUndefined()
    expect(durations.usual('first')).toBe(1000)
  })
})

describe('a server that sends messages that are too long', () => {
  it('has its message passed on whole, and repeated in part', () => {
    const { notes, emitted, say } = notesOf()
    const message = 'm'.repeat(5_000_000)
    say({ progress: 1, message })
    expect(notes.message).toHaveLength(1000)
    expect(emitted[0]?.params?.fields['message']).toBe(message)
    expect(objectOf(emitted[0])?.['message']).toHaveLength(1000)
  })

  it('costs nothing more without a receiver', () => {
    const { notes, emitted, say } = notesOf({ hasReceiver: false })
    for (let progress = 1; progress <= 10_000; progress++)
      say({ progress, total: 10_000, message: `m${progress}` })
    expect(emitted).toEqual([])
    expect(notes.message).toBe('m10000')
  })
})

it('what the gateway knows can be beside the token, where the server says nothing of that name', () => {
  const { emitted, say } = notesOf({ isBeside: true, usual: 10_000 })
  say({ progress: 1, total: 4 }, START + 4000)
  say({ progress: 2, total: 4, type: 'theirs', estimated_remaining_seconds: 1 }, START + 5000)
  const [first, second] = emitted.map(({ params }) => params?.fields)
  const own = { progressToken: 'tok', type: 'progress', operation_id: 'op1' }
  expect(first).toMatchObject({ ...own, progress: 1, total: 4, estimated_remaining_seconds: 6 })
  expect(second).toMatchObject({ ...own, progress: 2, type: 'theirs', estimated_remaining_seconds: 1 })
})

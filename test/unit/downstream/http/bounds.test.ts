import fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import { GatewayError } from '../../../../src/core/error.ts'
import { anonymous } from '../../../../src/core/principal.ts'
import { HttpSessions } from '../../../../src/downstream/http/sessions.ts'
import { Replay } from '../../../../src/downstream/http/reply.ts'
import { silentLog } from '../../../support/silent-log.ts'
import { HeldMemory } from '../../../../src/core/holdings.ts'

const MB = 1024 * 1024

const opened: HttpSessions[] = []
afterEach(() => Promise.all(opened.splice(0).map((sessions) => sessions.close())))

function full(): HttpSessions {
  const sessions = new HttpSessions({
    held: new HeldMemory(),
    handle: () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'no server')),
    log: silentLog,
  })
  opened.push(sessions)
  for (let count = 0; count < 10_000; count++) sessions.keep(sessions.create(anonymous, undefined))
  return sessions
}

const reader = { write: () => true, hangUp: () => undefined, isGone: false, flushed: async () => undefined }

describe('sessions of HTTP clients', () => {
  test('the least recently used session is closed for a new one', () => {
    const sessions = full()
    const first = sessions.create(anonymous, undefined)
    sessions.keep(first)
    expect(sessions.size).toBe(10_000)
    sessions.keep(sessions.create(anonymous, undefined))
    expect(sessions.size).toBe(10_000)
  })

  test('a session is closed for a caller that has none', () => {
    const sessions = full()
    sessions.keep(sessions.create({ id: 'late' }, undefined))
    expect(sessions.size).toBe(10_000)
  })

  test('the sessions of a caller with many are closed before those of others', () => {
    const sessions = new HttpSessions({
      held: new HeldMemory(),
      handle: () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'no server')),
      log: silentLog,
    })
    opened.push(sessions)
    const [quiet, greedy] = [{ id: 'quiet' }, { id: 'greedy' }]
    const first = sessions.create(quiet, undefined)
    sessions.keep(first)
    for (let count = 0; count < 2600; count++) sessions.keep(sessions.create(greedy, undefined))
    expect(sessions.size).toBe(2501)
    expect(sessions.get(first.session.id, quiet, undefined)).toBe(first)
  })

  test('one caller can have a quarter of the sessions while all are in use', () => {
    const sessions = new HttpSessions({
      held: new HeldMemory(),
      handle: () => new Promise(() => undefined),
      log: silentLog,
    })
    opened.push(sessions)
    const greedy = { id: 'greedy' }
    for (let count = 0; count < 2500; count++) {
      const session = sessions.create(greedy, undefined)
      session.replay.general.attach(reader)
      sessions.keep(session)
    }
    expect(() => sessions.create(greedy, undefined)).toThrow(
      expect.objectContaining({ code: 'OVERLOADED', message: 'Too many sessions of one caller.' }),
    )
    expect(sessions.create({ id: 'quiet' }, undefined).session.principal.id).toBe('quiet')
  })

  test('what else callers make the gateway hold leaves less memory for idle sessions', () => {
    const held = new HeldMemory()
    const sessions = new HttpSessions({ held, handle: () => new Promise(() => undefined), log: silentLog })
    opened.push(sessions)
    for (let count = 0; count < 1000; count++) sessions.keep(sessions.create(anonymous, undefined))
    held.change(anonymous, 60 * MB)
    sessions.keep(sessions.create(anonymous, undefined))
    expect(sessions.size).toBeLessThan(1000)
    // The sessions of others are not ended for a caller that has its share already.
    const before = sessions.size
    held.change(anonymous, -60 * MB)
    held.change({ id: 'greedy' }, 64 * MB)
    expect(() => sessions.create({ id: 'greedy' }, undefined)).toThrow(/take all the memory/)
    expect(sessions.size).toBe(before)
    held.change(anonymous, 250 * MB)
    for (const { id } of [anonymous, { id: 'other' }]) {
      const principal = id === anonymous.id ? anonymous : { id }
      expect(() => sessions.create(principal, undefined)).toThrow(
        expect.objectContaining({
          code: 'OVERLOADED',
          extra: expect.objectContaining({ suggestion: expect.stringContaining('DELETE') }),
        }),
      )
    }
  })

  test('the events of all sessions are buffered within one bound', async () => {
    const held = new HeldMemory()
    const sessions = new HttpSessions({ held, handle: () => new Promise(() => undefined), log: silentLog })
    opened.push(sessions)
    const all = Array.from({ length: 100 }, () => sessions.create(anonymous, undefined))
    for (const each of all) {
      sessions.keep(each)
      for (let count = 0; count < 3; count++) each.replay.general.add('x'.repeat(MB))
    }
    const size = all.reduce((sum, { replay }) => sum + replay.general.size, 0)
    expect(size).toBeGreaterThan(60 * MB)
    expect(size).toBeLessThanOrEqual(64 * MB)
    await Promise.all(all.map((each) => sessions.end(each)))
    expect(held.fits(anonymous, 64 * MB)).toBe(true)
  })

  test('the number of sessions is limited while all are in use', () => {
    const busy = new HttpSessions({
      held: new HeldMemory(),
      handle: () => new Promise(() => undefined),
      log: silentLog,
    })
    opened.push(busy)
    for (let count = 0; count < 10_000; count++) {
      const session = busy.create(anonymous, undefined)
      session.replay.general.attach(reader)
      busy.keep(session)
    }
    expect(() => busy.create(anonymous, undefined)).toThrow(expect.objectContaining({ code: 'OVERLOADED' }))
    expect(busy.size).toBe(10_000)
  })
})

describe('the replay buffer of streams', () => {
  test('the replay buffer never exceeds its size limit for any events and streams', () => {
    const words = fc.array(fc.tuple(fc.nat(300), fc.integer({ min: 0, max: 200_000 }), fc.boolean()), {
      maxLength: 300,
    })
    fc.assert(
      fc.property(words, (said) => {
        const replay = new Replay()
        const streams = [replay.general]
        for (const [which, size, isLast] of said) {
          const stream = streams[which] ?? replay.record()
          if (!streams.includes(stream)) streams.push(stream)
          stream.add('x'.repeat(size))
          if (isLast && stream !== replay.general) stream.finish()
          expect(
            streams.reduce((sum, each) => sum + (replay.find(each.lastId) ? each.size : 0), 0),
          ).toBeLessThanOrEqual(4 * 1024 * 1024)
        }
      }),
      { numRuns: 20 },
    )
  })

  test('the replay buffer contains at most two hundred finished streams', () => {
    const replay = new Replay()
    const streams = Array.from({ length: 500 }, () => replay.record())
    for (const stream of streams) {
      stream.add('said')
      stream.finish()
    }
    expect(streams.filter((each) => replay.find(each.lastId)).length).toBeLessThanOrEqual(201)
    expect(replay.find(streams.at(-1)?.lastId ?? '')).toBeDefined()
  })

  test.each(['7', '"a"', '9007199254740993', '"\\u2028\\ud800"'])(
    'a request %s is lost for a session that continues, unless it began there',
    (id) => {
      const [before, after] = [new Replay(), new Replay(undefined, 'abc.')]
      const { lastId } = before.record(id)
      expect([before.lostRequest(lastId), after.lostRequest(lastId)]).toEqual([undefined, id])
      expect(after.lostRequest(after.record(id).lastId)).toBeUndefined()
      expect(after.lostRequest(before.record().lastId)).toBeUndefined()
      expect(after.lostRequest(before.general.lastId)).toBeUndefined()
    },
  )

  test.each(['1,"id":1', '{}', '[', '1}', 'null', ''])('no event id stands for the request %j', (text) => {
    const replay = new Replay(undefined, 'abc.')
    expect(replay.lostRequest(`1~${Buffer.from(text).toString('hex')}-1`)).toBeUndefined()
    expect(new Replay().record(`"${'x'.repeat(70)}"`).lastId).toBe('1-0')
  })

  test.each(['', 'x', '0', '0-', '-1', '0-1-2', '9-9', '0-99999999999999999999999', '0-1\n'])(
    'an unknown event id %j finds no stream',
    (id) => {
      const replay = new Replay()
      const found = replay.find(id)
      found?.stream.resume(reader, found.after)
      expect(found === undefined || found.stream === replay.general).toBe(true)
    },
  )
})

// Sessions of clients in the store: how long they are kept, how many, and what becomes of a store that fails.
import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { GatewayError } from '../../../src/core/error.ts'
import { HeldMemory } from '../../../src/core/holdings.ts'
import type { Log } from '../../../src/core/log.ts'
import { anonymous } from '../../../src/core/principal.ts'
import { HttpSessions } from '../../../src/downstream/http/sessions.ts'
import { ClientSessions, type SessionState } from '../../../src/records/client-sessions.ts'
import { MemoryStore } from '../../../src/store/memory.ts'
import { silentLog } from '../../support/silent-log.ts'

const HOUR_MS = 3_600_000
const id = '01234567-89ab-4cde-8f01-23456789abcd'
const state: SessionState = {
  revision: '2025-06-18',
  capabilities: { elicitation: {} },
  offered: { tools: {} },
  uris: ['file:///a'],
}

afterEach(() => void vi.useRealTimers())

function kept(store = new MemoryStore(), log: Log = silentLog): ClientSessions {
  return new ClientSessions({ transport: 'http', store: () => store, log })
}

describe('a kept session', () => {
  const session = { id, principal: { id: 'ada' } }

  it('expires a day after it was used last', async () => {
    vi.useFakeTimers()
    const sessions = kept()
    await sessions.add(session, 'files', state)
    vi.advanceTimersByTime(23 * HOUR_MS)
    await sessions.extend(session)
    vi.advanceTimersByTime(23 * HOUR_MS)
    expect(await sessions.find(session, 'files')).toMatchObject(state)
    vi.advanceTimersByTime(2 * HOUR_MS)
    expect(await sessions.find(session, 'files')).toBeUndefined()
  })

  it('is not written again once it was removed', async () => {
    const sessions = kept()
    await sessions.add(session, undefined, state)
    await sessions.remove(session)
    await sessions.change(session, () => state)
    await sessions.extend(session)
    expect(await sessions.find(session, undefined)).toBeUndefined()
  })

  it('has the state at the time of writing, also where something was taken away', async () => {
    const sessions = kept()
    await sessions.add(session, undefined, { ...state, level: 'debug' })
    await sessions.change(session, () => ({ ...state, uris: [] }))
    const found = await sessions.find(session, undefined)
    expect(found).toMatchObject({ ...state, uris: [] })
    expect(found).not.toHaveProperty('level')
  })

  it('stays as it was when it would be too long', async () => {
    const sessions = kept()
    await sessions.add(session, undefined, state)
    await sessions.change(session, () => ({ ...state, uris: ['x'.repeat(300_000)] }))
    expect(await sessions.find(session, undefined)).toMatchObject(state)
  })

  it('survives any client information', async () => {
    const sessions = kept()
    const info = { name: '<b>\\u202e\\ud800', version: '1', __proto__: null }
    await sessions.add(session, undefined, { ...state, info })
    expect(await sessions.find(session, undefined)).toMatchObject({ info: { name: info.name } })
  })
})

describe('many sessions', () => {
  it('give way to newer ones, those of a caller before those of others', async () => {
    vi.useFakeTimers()
    const store = new MemoryStore()
    const sessions = kept(store)
    const quiet = { id: 'quiet', principal: { id: 'quiet' } }
    await sessions.add(quiet, undefined, state)
    const greedy = Array.from({ length: 3100 }, (_, index) => ({
      id: `${index}`,
      principal: { id: 'greedy' },
    }))
    for (const each of greedy) {
      vi.advanceTimersByTime(1)
      await sessions.add(each, undefined, state)
    }
    await vi.waitFor(async () => expect((await store.scan('client-session')).size).toBeLessThan(3000))
    expect(await sessions.find(quiet, undefined)).toBeDefined()
    expect(await sessions.find(greedy[0] ?? quiet, undefined)).toBeUndefined()
    expect(await sessions.find(greedy.at(-1) ?? quiet, undefined)).toBeDefined()
  })
})

describe('the sessions of HTTP clients', () => {
  const handle = () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'no server'))

  function opened(store: MemoryStore, log: Log = silentLog) {
    const sessions = new HttpSessions({ handle, held: new HeldMemory(), kept: kept(store, log), log })
    onTestFinished(() => sessions.close())
    return sessions
  }

  it('are continued after they were dropped from memory, once for several requests', async () => {
    const store = new MemoryStore()
    const sessions = opened(store)
    const first = sessions.create(anonymous, undefined)
    sessions.keep(first)
    await kept(store).add(first.session, undefined, state)
    await sessions.end(first)
    expect(sessions.size).toBe(0)
    const get = async () => sessions.get(first.session.id, anonymous, undefined)
    const [one, other] = await Promise.all([get(), get()])
    if ('owner' in one) return expect.unreachable()
    expect(one).toBe(other)
    expect(one).not.toBe(first)
    expect(one.session.state).toEqual(state)
    expect(await get()).toBe(one)
    expect(sessions.size).toBe(1)
  })

  it('are not refused for good while the store does not respond, or the gateway shuts down', async () => {
    const store = new MemoryStore()
    const sessions = opened(store)
    await kept(store).add({ id, principal: anonymous }, undefined, state)
    const failure = new GatewayError('SERVER_UNAVAILABLE', 'The store does not respond.')
    const get = vi.spyOn(store, 'get').mockRejectedValueOnce(failure)
    await expect(sessions.get(id, anonymous, undefined)).rejects.toBe(failure)
    await sessions.close()
    await expect(sessions.get(id, anonymous, undefined)).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    expect(get).toHaveBeenCalledTimes(2)
  })

  it('last as long as the process if the store fails, and the log says so', async () => {
    const store = new MemoryStore()
    vi.spyOn(store, 'put').mockRejectedValue(new Error('disk full'))
    const warn = vi.fn<Log['warn']>()
    await kept(store, { ...silentLog, warn }).add({ id, principal: anonymous }, undefined, state)
    expect(warn).toHaveBeenCalledExactlyOnceWith('session.not_kept', { error: 'Error: disk full' })
    vi.useFakeTimers()
    vi.spyOn(store, 'put').mockReturnValue(new Promise(() => undefined))
    const added = kept(store).add({ id, principal: anonymous }, undefined, state)
    await vi.advanceTimersByTimeAsync(1000)
    await added
  })

  it('with ids of another form are not looked up', async () => {
    const store = new MemoryStore()
    const get = vi.spyOn(store, 'get')
    const sessions = opened(store)
    for (const each of ['', 'x', id.toUpperCase(), `${id}\\n`, ` ${id}`, 'x'.repeat(8000)])
      expect(() => sessions.get(each, anonymous, undefined)).toThrow('Session not found')
    expect(get).not.toHaveBeenCalled()
    await expect(sessions.get(id, anonymous, undefined)).rejects.toThrow('Session not found')
    expect(get).toHaveBeenCalledOnce()
  })
})

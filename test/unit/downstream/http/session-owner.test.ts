// Which of several processes has a session: two of them share a store, and a test says who is alive.
import { afterEach, expect, it, onTestFinished, vi } from 'vitest'
import type { Handler } from '../../../../src/core/call.ts'
import { GatewayError } from '../../../../src/core/error.ts'
import { HeldMemory } from '../../../../src/core/holdings.ts'
import { Payload } from '../../../../src/core/payload.ts'
import { anonymous } from '../../../../src/core/principal.ts'
import { createSeal } from '../../../../src/core/seal.ts'
import { world } from '../../../../src/core/world.ts'
import { createPlaces } from '../../../../src/downstream/http/hop/place.ts'
import { type Elsewhere, type HttpSession, HttpSessions } from '../../../../src/downstream/http/sessions.ts'
import type { Member } from '../../../../src/durable/members.ts'
import { ClientSessions, type SessionState } from '../../../../src/records/client-sessions.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import { silentLog } from '../../../support/silent-log.ts'

const id = '01234567-89ab-4cde-8f01-23456789abcd'
const session = { id, principal: anonymous }
const state: SessionState = { revision: '2025-06-18', capabilities: {}, offered: { tools: {} }, uris: [] }

afterEach(() => void vi.useRealTimers())

/** The term that a heartbeat begins. */
const RENEWED = 9

interface Process {
  readonly sessions: HttpSessions
  readonly moved: string[]
  /** Undefined between two terms. */
  term: number | undefined
  isAlive: boolean
  /** Whether its heartbeats fail. */
  isAway: boolean
  get(): Promise<HttpSession | Elsewhere>
}

const noServer: Handler = () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'no server'))

function processes(handle = noServer) {
  const store = new MemoryStore()
  const kept = new ClientSessions({ transport: 'http', store: () => store, log: silentLog })
  const all = new Map<string, Process>()
  const seal = createSeal(world.now)
  const member = (owner: string): Member => ({
    ...{ id: owner, version: '1', host: 'here', pid: 1, since: 0 },
    ...{ state: 'serving', address: `unix:/${owner}` },
  })
  const start = (name: string): Process => {
    const moved: string[] = []
    const sessions = new HttpSessions({
      handle,
      held: new HeldMemory(),
      kept,
      fleet: {
        id: name,
        get term() {
          return all.get(name)?.term
        },
        renew: async () => {
          const own = all.get(name)
          if (!own || own.isAway) throw new GatewayError('SERVER_UNAVAILABLE', 'away')
          own.term ??= RENEWED
        },
        find: async (owner) => (all.get(owner)?.isAlive === true ? member(owner) : undefined),
        hasEnded: () => false,
        places: createPlaces(member(name), seal),
        onMoved: (how) => void moved.push(how),
      },
      log: silentLog,
    })
    onTestFinished(() => sessions.close())
    const get = async () => sessions.get(id, anonymous, undefined)
    const started: Process = { sessions, moved, term: 1, isAlive: true, isAway: false, get }
    all.set(name, started)
    return started
  }
  return { store, kept, one: start('one'), other: start('other') }
}

function isHere(place: HttpSession | Elsewhere): place is HttpSession {
  return !('owner' in place)
}

it('a session is in one process, and the others know which', async () => {
  const { kept, one, other } = processes()
  await kept.add(session, undefined, state)
  const found = await one.get()
  expect(isHere(found)).toBe(true)
  expect(await other.get()).toMatchObject({ owner: { id: 'one' } })
  expect(await one.get()).toBe(found)
  expect([one.moved, other.moved]).toEqual([[], []])
})

it('a session of this process and term is found without the store', async () => {
  const { store, kept, one } = processes()
  await kept.add(session, undefined, state)
  const found = await one.get()
  const get = vi.spyOn(store, 'get')
  expect(one.sessions.get(id, anonymous, undefined)).toBe(found)
  expect(get).not.toHaveBeenCalled()
})

it('a process that was stopped ends its copy of a session that another one took over', async () => {
  const { kept, one, other } = processes()
  await kept.add(session, undefined, state)
  await one.get()
  one.isAlive = false
  expect(isHere(await other.get())).toBe(true)
  one.isAlive = true
  one.term = 2
  expect(await one.get()).toMatchObject({ owner: { id: 'other' } })
  expect([one.moved, other.moved]).toEqual([['fenced'], ['adopted']])
  expect([one.sessions.size, other.sessions.size]).toEqual([0, 1])
})

it('a process between two terms begins one before it uses a session', async () => {
  const { kept, one, other } = processes()
  await kept.add(session, undefined, state)
  const found = await one.get()
  one.term = undefined
  expect(await Promise.all([one.get(), one.get()])).toEqual([found, found])
  expect(one.term).toBe(RENEWED)
  expect(await kept.find(session, undefined)).toMatchObject({ owner: 'one', generation: 2 })
  expect(await other.get()).toMatchObject({ owner: { id: 'one' } })
})

it('while the store is away, a process uses its sessions, and claims them once it is back', async () => {
  const { store, kept, one, other } = processes()
  await kept.add(session, undefined, state)
  const found = await one.get()
  const away = () => Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'away'))
  const spies = (['get', 'put', 'compareAndSwap'] as const).map((name) =>
    vi.spyOn(store, name).mockImplementation(away),
  )
  one.term = undefined
  one.isAway = true
  expect(await one.get()).toBe(found)
  for (const spy of spies) spy.mockRestore()
  one.isAway = false
  one.isAlive = false
  expect(isHere(await other.get())).toBe(true)
  expect(await one.get()).toMatchObject({ owner: { id: 'other' } })
  expect(one.moved).toEqual(['fenced'])
})

it('of a process that comes back and one that takes over at the same time, one gets the session', async () => {
  const { kept, one, other } = processes()
  await kept.add(session, undefined, state)
  await one.get()
  one.isAlive = false
  one.term = 2
  const taking = other.get()
  one.isAlive = true
  const places = await Promise.all([taking, one.get()])
  expect(places.filter(isHere)).toHaveLength(1)
  expect(one.sessions.size + other.sessions.size).toBe(1)
})

it('a copy with an open stream ends by itself once its process continues', async () => {
  vi.useFakeTimers()
  const { kept, one, other } = processes()
  await kept.add(session, undefined, state)
  await vi.advanceTimersByTimeAsync(2000)
  const found = await one.get()
  if (!isHere(found)) return expect.unreachable()
  const hangUp = vi.fn<() => void>()
  const flushed = (): Promise<void> => Promise.resolve()
  found.replay.general.attach({ write: () => true, hangUp, isGone: false, flushed })
  one.isAlive = false
  await other.get()
  one.term = 2
  await vi.advanceTimersByTimeAsync(2000)
  expect(hangUp).toHaveBeenCalled()
  expect(one.sessions.size).toBe(0)
})

it('a session that ended after it was taken over is not used again by a process that was stopped', async () => {
  const { kept, one, other } = processes()
  await kept.add(session, undefined, state)
  await one.get()
  one.isAlive = false
  const adopted = await other.get()
  if (!isHere(adopted)) return expect.unreachable()
  await other.sessions.remove(adopted)
  await other.sessions.end(adopted)
  one.isAlive = true
  one.term = 2
  await expect(one.get()).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' })
  expect(one.moved).toEqual(['fenced'])
  await expect(other.get()).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' })
})

it('what an earlier owner writes is refused, and a session without a record stays where it is', async () => {
  const { kept, one } = processes()
  await kept.add(session, undefined, state, { tenure: { owner: 'one', generation: 1 } })
  await kept.claim(session, { owner: 'one', generation: 1 }, 'other')
  const changed = kept.change(session, () => ({ ...state, level: 'debug' }), { owner: 'one', generation: 1 })
  expect(await changed).toBe('moved')
  expect(await kept.find(session, undefined)).not.toHaveProperty('level')
  const created = one.sessions.create(anonymous, undefined)
  one.sessions.keep(created)
  one.term = 2
  expect(await one.sessions.get(created.session.id, anonymous, undefined)).toBe(created)
})

/** A client begins a session in a process, which keeps it. */
async function opened({ sessions }: Process): Promise<HttpSession> {
  const created = sessions.create(anonymous, undefined)
  const params = Payload.of({ protocolVersion: state.revision, capabilities: {}, clientInfo: { name: 'c' } })
  const request = { kind: 'request', id: '1', method: 'initialize', params } as const
  await created.session.request(request, {
    request: { requestId: 'one' },
    emit: () => undefined,
    end: () => sessions.keep(created),
  })
  return created
}

const answering: Handler = async () => ({
  kind: 'result',
  result: Payload.of({ capabilities: {}, serverInfo: { name: 's', version: '1' } }),
})

it('a session that began while the store was away is found by its id, and by its record once the store is back', async () => {
  vi.useFakeTimers()
  const { store, one, other } = processes(answering)
  const away = vi.spyOn(store, 'setIfAbsent').mockRejectedValue(new Error('away'))
  const found = await opened(one)
  expect(found.session.revision).toBeDefined()
  const find = async () => other.sessions.get(found.session.id, anonymous, undefined)
  expect(await find()).toEqual({ owner: { id: 'one', address: 'unix:/one' }, isUnrecorded: true })
  await vi.advanceTimersByTimeAsync(3000)
  expect(away.mock.calls.length).toBeGreaterThan(2)
  away.mockRestore()
  await vi.advanceTimersByTimeAsync(3000)
  other.sessions.forget(found.session.id, anonymous)
  expect(await find()).toEqual({ owner: expect.objectContaining({ id: 'one' }) })
  expect(await one.sessions.get(found.session.id, anonymous, undefined)).toBe(found)
})

it('a session without a record is not found once its process has ended, or has ended it', async () => {
  vi.useFakeTimers()
  const { store, one, other } = processes(answering)
  vi.spyOn(store, 'setIfAbsent').mockRejectedValue(new Error('away'))
  const found = await opened(one)
  const begun = found.session
  const before = await other.sessions.get(begun.id, anonymous, undefined)
  if (isHere(before)) return expect.unreachable()
  const relocate = () => other.sessions.relocate(begun.id, anonymous, { upstream: undefined, before })
  const slow = relocate().catch((error: unknown) => error)
  await vi.advanceTimersByTimeAsync(3000)
  expect(await slow).toMatchObject({ code: 'SERVER_UNAVAILABLE' })
  one.isAlive = false
  await expect(relocate()).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' })
  await one.sessions.end(found)
  const reached = async () => one.sessions.get(begun.id, anonymous, undefined)
  await expect(reached()).rejects.toMatchObject({ code: 'SESSION_NOT_FOUND' })
})

it('an id says nothing of a place that was not sealed for it', async () => {
  const { one, other } = processes(answering)
  const [{ session: mine }, { session: second }] = [await opened(one), await opened(one)]
  const [name, place] = [mine.id.split('.')[0], second.id.split('.')[1]]
  for (const forged of [`${name}.${place}`, `${name}.`, `${name}.AAAA`, name ?? ''])
    await expect((async () => other.sessions.get(forged, anonymous, undefined))()).rejects.toMatchObject({
      code: 'SESSION_NOT_FOUND',
    })
})

it('a session that is kept again is not taken from the process that has it by now', async () => {
  const { kept, other } = processes()
  const tenure = { owner: 'one', generation: 1 }
  await kept.add(session, undefined, state, { tenure })
  await kept.add(session, undefined, { ...state, level: 'debug' }, { tenure })
  expect(await kept.find(session, undefined)).toMatchObject({ level: 'debug' })
  await kept.claim(session, tenure, 'other')
  await kept.add(session, undefined, state, { tenure })
  expect(await kept.find(session, undefined)).toMatchObject({ owner: 'other', generation: 2 })
  expect(isHere(await other.get())).toBe(true)
})

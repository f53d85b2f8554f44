/**
 * The sessions of Streamable HTTP clients: limited in number, ended in memory when idle, continued from the store.
 *
 * Where processes reach each other (`SessionFleet`), one of them has a session in memory: its owner, as the record says, or
 * as the id says until the store has the record. The others forward what comes for it, and take it over once its owner is gone.
 * Invariant: a process that can use the store uses a session only while it is sure to be its owner, so it claims its sessions
 * again in each term (`durable/members.ts`), and ends those that it lost. A session is no lock: what must happen once is decided
 * in the store.
 */
import { LRUCache } from 'lru-cache'
import type { Handler } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import type { SessionMeter } from '../../core/exchange.ts'
import type { HeldMemory } from '../../core/holdings.ts'
import { sessionDigest } from '../../core/identity.ts'
import { background, type Log } from '../../core/log.ts'
import { hasReachedShare, type Principal } from '../../core/principal.ts'
import type { Secret } from '../../core/text/secret.ts'
import { pause } from '../../core/time/waiting.ts'
import { type Timer, world } from '../../core/world.ts'
import {
  type ClientSessions,
  EXTENSION_INTERVAL_MS,
  type SessionOwner,
  type SessionOwners,
  type StoredSession,
  type Tenure,
} from '../../records/client-sessions.ts'
import { ClientSession } from '../session/session.ts'
import type { SessionPlaces } from './hop/place.ts'
import { Replay } from './reply.ts'

/** A session of an HTTP client, with its resumable streams. */
export interface HttpSession {
  readonly session: ClientSession
  readonly replay: Replay
  readonly upstream: string | undefined
  /** In which term this process claimed it, and which of its generations is here; absent where processes do not reach each other. */
  tenure?: { readonly term: number; readonly generation: number }
  /** The latest token of its caller, where servers get others in exchange for it. */
  token?: Secret | undefined
  usedAt: number
  /** When its expiry in the store was put off last. */
  extendedAt: number
}

/** A session that another process has. */
export interface Elsewhere {
  readonly owner: SessionOwner
  /** The store has no record of it: it has ended, or only this process has it. */
  readonly isUnrecorded?: true
}

/** The processes that share the store, where they reach each other. */
export interface SessionFleet extends SessionOwners {
  /** The places that ids of sessions name. */
  readonly places: SessionPlaces
  /** Called for each session that this process took over, and for each that it lost to another process. */
  onMoved?(how: 'adopted' | 'fenced'): void
}

interface SessionServer {
  readonly handle: Handler
  /** Whether batches are rejected in every revision. */
  isStrict?(): boolean
  readonly held: HeldMemory
  /** The sessions in the store; without it a session lasts as long as the process. */
  readonly kept?: ClientSessions
  /** The other processes; undefined where each process continues what it does not have. */
  readonly fleet?: SessionFleet | undefined
  /** Counts the sessions. */
  readonly meter?: SessionMeter | undefined
  readonly log: Log
}

/** The form of session ids, with the sealed place where there is one: no other one is looked up. */
export const SESSION_ID = /^([\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12})(?:\.([\w-]{1,2000}))?$/

/** How much memory a session takes, in bytes, without the events that it buffers. */
const SESSION_BYTES = 6 * 1024
/** The maximum number of sessions, and how long an idle one is kept, in milliseconds. */
const MAX_SESSIONS = 10_000
const IDLE_TIMEOUT_MS = 30 * 60_000
/** How often it is checked whether another term has begun, in milliseconds. */
const TERM_CHECK_INTERVAL_MS = 1000
/** How many owners of other sessions are remembered. */
const MAX_ELSEWHERE = 10_000
/** How long a request waits for an owner that ends, and how often the record is read in that time, in milliseconds. */
const OWNER_TIMEOUT_MS = 2000
const OWNER_POLL_INTERVAL_MS = 100
/** Numbers of requests to a client differ in each generation: it may still answer one of the owner before. */
const REQUESTS_OF_GENERATION = 1_000_000

/** The sessions of Streamable HTTP clients. */
export class HttpSessions {
  readonly #options: SessionServer
  readonly #sessions = new Map<string, HttpSession>()
  /** Sessions that are read from the store, by caller and id: of several requests at once, one continues the session. */
  readonly #continuing = new Map<string, Promise<HttpSession | Elsewhere>>()
  /** Where sessions of other processes were last, by caller and id. */
  readonly #elsewhere = new LRUCache<string, Elsewhere>({ maxSize: MAX_ELSEWHERE, sizeCalculation: () => 1 })
  readonly #reaper = world.setInterval(() => this.#reap(), 60_000).unref()
  readonly #termCheck: Timer | undefined
  #term: number | undefined
  /** Sessions that no other process can find, because the store could not be used when they began. */
  readonly #unkept = new Set<HttpSession>()
  #isClosed = false

  constructor(options: SessionServer) {
    this.#options = options
    if (options.fleet)
      this.#termCheck = world.setInterval(() => this.#checkTerm(), TERM_CHECK_INTERVAL_MS).unref()
  }

  get size(): number {
    return this.#sessions.size
  }

  get isBusy(): boolean {
    return [...this.#sessions.values()].some(({ session }) => session.isBusy)
  }

  /** Creates a session before its handshake; it counts only once it is kept. @throws OVERLOADED */
  create(
    principal: Principal,
    upstream: string | undefined,
    continued?: { readonly id: string; readonly generation?: number | undefined },
  ): HttpSession {
    const isShareTaken = hasReachedShare(
      principal,
      this.#sessions,
      ({ session }) => session.principal.id,
      MAX_SESSIONS,
    )
    if (isShareTaken && !this.#endIdlest(principal, true)) throw full('Too many sessions of one caller.')
    if (this.#sessions.size >= MAX_SESSIONS && !this.#endIdlest(principal)) throw full('Too many sessions.')
    const { held } = this.#options
    while (!held.fits(principal, SESSION_BYTES))
      if (!this.#endIdlest(principal, held.isOwnFull(principal, SESSION_BYTES)))
        throw full('Sessions and operations take all the memory that they may.')
    const limit = {
      fits: (by: number) => held.fits(principal, by),
      change: (by: number) => held.change(principal, by),
    }
    // Its client may resume streams that are gone: their events have other ids.
    const replay = new Replay(
      limit,
      continued === undefined ? '' : `${world.randomBytes(4).toString('hex')}.`,
    )
    const { kept, fleet } = this.#options
    const generation = continued?.generation ?? 1
    const session = new ClientSession({
      id: continued?.id ?? this.#newId(),
      upstream,
      principal,
      ...this.#options,
      lastRequest: (generation - 1) * REQUESTS_OF_GENERATION,
      save: savingWith(kept, upstream, {
        tenure: () => this.#tenureOf(created),
        onMoved: () => background(this.#fence(created), this.#options.log),
        onUnkept: () => {
          if (fleet) this.#unkept.add(created)
        },
      }),
      send: (message) => replay.general.add(message),
      channel: { isOpen: () => replay.general.hasOutlet, drained: () => replay.general.drained() },
    })
    const usedAt = world.now()
    const created: HttpSession = { session, replay, upstream, usedAt, extendedAt: continued ? 0 : usedAt }
    // Between two terms it is claimed before it is used again.
    if (fleet) created.tenure = { term: fleet.term ?? NO_TERM, generation }
    return created
  }

  keep(session: HttpSession): void {
    if (!this.#sessions.has(session.session.id))
      this.#options.held.change(session.session.principal, SESSION_BYTES)
    this.#sessions.set(session.session.id, session)
  }

  /**
   * The session with this id, from the store if it is not in memory, or the process that has it. @throws SESSION_NOT_FOUND if
   * there is none, or it belongs to another caller; SERVER_UNAVAILABLE while it is not known which process has it
   */
  get(
    id: string,
    principal: Principal,
    upstream: string | undefined,
  ): HttpSession | Promise<HttpSession | Elsewhere> {
    const { kept, fleet } = this.#options
    const found = this.#sessions.get(id)
    if (!found && kept && SESSION_ID.test(id)) return this.#located(id, principal, upstream)
    if (!found || found.session.principal.id !== principal.id || found.upstream !== upstream) throw notFound()
    if (fleet && found.tenure && found.tenure.term !== fleet.term) return this.#confirmed(found, principal)
    found.usedAt = world.now()
    this.#extend(found)
    return found
  }

  /** Forgets where a session was, because its process does not have it, or cannot be reached. */
  forget(id: string, principal: Principal): void {
    this.#elsewhere.delete(keyOf(id, principal))
  }

  /** The session of this process in its present term, or where it went. */
  async #confirmed(found: HttpSession, principal: Principal): Promise<HttpSession | Elsewhere> {
    const { id } = found.session
    const place = await this.#once(confirming(id, principal), () => this.#confirm(found))
    return place ?? this.#located(id, principal, found.upstream)
  }

  /**
   * Claims a session again in a new term; undefined if another process has it by now. While the store cannot be used it stays here: then
   * no process takes over anything, unless this one alone is cut off.
   */
  async #confirm(found: HttpSession): Promise<HttpSession | undefined> {
    const { kept, fleet } = this.#options
    const tenure = this.#tenureOf(found)
    if (!fleet || !kept || !tenure || found.tenure?.term === fleet.term) return found
    let claimed: Awaited<ReturnType<ClientSessions['claim']>>
    try {
      if (fleet.term === undefined) await fleet.renew()
      claimed = await kept.claim(found.session, tenure, fleet.id)
    } catch {
      return found
    }
    if (claimed === 'moved') {
      await this.#fence(found)
      return undefined
    }
    // Without a record, no other process can have it.
    found.tenure = { term: fleet.term ?? NO_TERM, generation: claimed?.generation ?? tenure.generation }
    return found
  }

  async #located(
    id: string,
    principal: Principal,
    upstream: string | undefined,
  ): Promise<HttpSession | Elsewhere> {
    const known = this.#elsewhere.get(keyOf(id, principal))
    if (known) return known
    const found = await this.#once(keyOf(id, principal), () => this.#locate(id, principal, upstream))
    if (!('owner' in found) && found.upstream !== upstream) throw notFound()
    return found
  }

  /** Does work for one session and caller, which requests that come at the same time share. */
  async #once<Place extends HttpSession | Elsewhere | undefined>(
    key: string,
    work: () => Promise<Place>,
  ): Promise<Place> {
    const running = this.#continuing as Map<string, Promise<HttpSession | Elsewhere | undefined>>
    const started = running.get(key) ?? work().finally(() => running.delete(key))
    running.set(key, started)
    return (await started) as Place
  }

  async #locate(
    id: string,
    principal: Principal,
    upstream: string | undefined,
  ): Promise<HttpSession | Elsewhere> {
    const { kept, fleet } = this.#options
    for (;;) {
      const state = await kept?.find({ id, principal }, upstream)
      if (this.#isClosed) throw new GatewayError('SERVER_UNAVAILABLE', 'The gateway is shutting down.')
      if (!state || !kept) return this.#unrecorded(id, principal)
      if (!fleet) return this.#continue({ id, principal, upstream }, state)
      const isOthers = state.owner !== undefined && state.owner !== fleet.id
      const owner = isOthers ? await fleet.find(state.owner) : undefined
      if (owner) return this.#at(id, principal, { owner })
      // A process that is not sure to be alive for others takes nothing over.
      if (fleet.term === undefined) await fleet.renew()
      const claimed = await kept.claim({ id, principal }, state, fleet.id)
      if (claimed === undefined) throw notFound()
      if (claimed === 'moved') continue
      if (isOthers) {
        const { owner: before, generation } = state
        this.#options.log.info('session.adopted', { session: sessionDigest(id), before, generation })
        fleet.onMoved?.('adopted')
      }
      return this.#continue({ id, principal, upstream }, claimed)
    }
  }

  /** The process in which a session began that has no record. @throws SESSION_NOT_FOUND if that is this one, unknown, or over */
  #unrecorded(id: string, principal: Principal): Elsewhere {
    const { fleet } = this.#options
    const [, name = '', sealed] = SESSION_ID.exec(id) ?? []
    const owner = sealed === undefined ? undefined : fleet?.places.open(name, sealed)?.owner
    if (!owner || owner.id === fleet?.id || fleet?.hasEnded(owner.id)) throw notFound()
    return this.#at(id, principal, { owner, isUnrecorded: true })
  }

  #at(id: string, principal: Principal, place: Elsewhere): Elsewhere {
    this.#elsewhere.set(keyOf(id, principal), place)
    return place
  }

  /** A new id, with the place of its session if other processes can read that. */
  #newId(): string {
    const name = world.randomUUID()
    const place = this.#options.fleet?.places.close(name)
    return place === undefined ? name : `${name}.${place}`
  }

  /**
   * Where a session is that was not at its owner: waits while the record or the id names that one, and it is alive.
   * @throws SERVER_UNAVAILABLE if that takes too long; otherwise as `get`
   */
  async relocate(
    id: string,
    principal: Principal,
    { upstream, before }: { readonly upstream: string | undefined; readonly before: Elsewhere },
  ): Promise<HttpSession | Elsewhere> {
    const end = world.monotonic() + OWNER_TIMEOUT_MS
    for (;;) {
      this.forget(id, principal)
      const place = await this.get(id, principal, upstream)
      if (!('owner' in place) || place.owner.id !== before.owner.id) return place
      if (place.isUnrecorded && !(await this.#options.fleet?.find(place.owner.id))) throw notFound()
      if (world.monotonic() >= end) throw unowned()
      await pause(OWNER_POLL_INTERVAL_MS)
    }
  }

  #continue({ id, principal, upstream }: Continuing, state: StoredSession): HttpSession {
    if (this.#isClosed) throw new GatewayError('SERVER_UNAVAILABLE', 'The gateway is shutting down.')
    const found = this.create(principal, upstream, { id, generation: state.generation })
    this.keep(found)
    if (this.#options.fleet) found.extendedAt = world.now()
    else this.#extend(found)
    found.session.continue(state)
    return found
  }

  #tenureOf({ tenure }: HttpSession): Tenure | undefined {
    const { fleet } = this.#options
    return fleet && tenure && { owner: fleet.id, generation: tenure.generation }
  }

  /** Ends the copy of a session that another process took over. */
  async #fence(found: HttpSession): Promise<void> {
    if (this.#sessions.get(found.session.id) !== found) return
    this.#options.log.info('session.fenced', { session: sessionDigest(found.session.id) })
    this.#options.fleet?.onMoved?.('fenced')
    await this.end(found)
  }

  /** In a new term, claims the sessions whose streams are open or that have calls: their clients may not ask. */
  #checkTerm(): void {
    if (this.#unkept.size > 0) background(this.#keepUnkept(), this.#options.log)
    const term = this.#options.fleet?.term
    if (term === undefined || term === this.#term) return
    this.#term = term
    background(this.#confirmAll(), this.#options.log)
  }

  /** Tries again to have the store keep those that it does not. */
  async #keepUnkept(): Promise<void> {
    const { kept } = this.#options
    const all = [...this.#unkept]
    this.#unkept.clear()
    for (const each of all) {
      const { session, upstream } = each
      if (this.#sessions.get(session.id) !== each || !session.state) continue
      const onUnkept = (): void => void this.#unkept.add(each)
      await kept?.add(session, upstream, session.state, { tenure: this.#tenureOf(each), onUnkept })
    }
  }

  async #confirmAll(): Promise<void> {
    const busy = [...this.#sessions.values()].filter((each) => !isIdle(each))
    for (const each of busy) {
      const { id, principal } = each.session
      if (this.#sessions.get(id) === each)
        await this.#once(confirming(id, principal), () => this.#confirm(each))
    }
  }

  #extend(found: HttpSession): void {
    const written = extend(found, this.#options.kept, this.#tenureOf(found))
    if (!written || !found.tenure) return
    const { log } = this.#options
    background(
      written.then((moved) => (moved === 'moved' ? this.#fence(found) : undefined)),
      log,
    )
  }

  /** Removes a session from the store, before it ends here: it cannot be continued. Never rejects. */
  async remove({ session }: HttpSession): Promise<void> {
    await this.#options.kept?.remove(session)
  }

  /** Leaves a session to the process of its next request, which has something that this one does not. */
  async release(found: HttpSession): Promise<void> {
    const tenure = this.#tenureOf(found)
    if (tenure) await this.#options.kept?.release(found.session, tenure)
    await this.end(found)
  }

  /** Resolves when its calls are answered, or after a timeout. */
  async end(found: HttpSession): Promise<void> {
    const { session, replay } = found
    this.#unkept.delete(found)
    if (this.#sessions.delete(session.id)) this.#options.held.change(session.principal, -SESSION_BYTES)
    await session.end()
    replay.close()
  }

  /** Ends all sessions here; those in the store can be continued. */
  async close(): Promise<void> {
    this.#isClosed = true
    world.clearInterval(this.#reaper)
    world.clearInterval(this.#termCheck)
    await Promise.all([...this.#sessions.values()].map((session) => this.end(session)))
  }

  #reap(): void {
    const before = world.now() - IDLE_TIMEOUT_MS
    for (const each of this.#sessions.values()) {
      if (!isIdle(each)) this.#extend(each)
      else if (each.usedAt < before) void this.end(each)
    }
  }

  /** Ends an idle session, preferably one of the same caller, so that callers do not end sessions of others. */
  #endIdlest({ id }: Principal, isForOwn = false): boolean {
    const idle = [...this.#sessions.values()].filter(isIdle)
    const own = idle.filter(({ session }) => session.principal.id === id)
    const [oldest] = (own.length > 0 || isForOwn ? own : idle).toSorted(
      (one, other) => one.usedAt - other.usedAt,
    )
    if (oldest) void this.end(oldest)
    return oldest !== undefined
  }
}

/** What a session continues with. */
interface Continuing {
  readonly id: string
  readonly principal: Principal
  readonly upstream: string | undefined
}

/** No term has this number. */
const NO_TERM = -1

function keyOf(id: string, { id: caller }: Principal): string {
  return `${id} ${caller}`
}

function confirming(id: string, principal: Principal): string {
  return `confirm ${keyOf(id, principal)}`
}

interface Saving {
  tenure(): Tenure | undefined
  /** Another process has the session by now. */
  onMoved(): void
  /** The store does not have the session. */
  onUnkept(): void
}

/** How the sessions at an endpoint keep their state. */
export function savingWith(
  kept: ClientSessions | undefined,
  upstream: string | undefined,
  saving?: Saving,
): (session: ClientSession, isNew: boolean) => Promise<unknown> {
  return async (session, isNew) => {
    const { state } = session
    const tenure = saving?.tenure()
    if (isNew && state) {
      await kept?.add(session, upstream, state, { tenure, onUnkept: () => saving?.onUnkept() })
    } else if ((await kept?.change(session, () => session.state, tenure)) === 'moved') saving?.onMoved()
  }
}

/** Puts off the expiry of a session in use, if that was not done for a while. */
export function extend(
  found: { readonly session: ClientSession; extendedAt: number },
  kept: ClientSessions | undefined,
  tenure?: Tenure,
): ReturnType<ClientSessions['extend']> | undefined {
  const now = world.now()
  if (!kept || now - found.extendedAt < EXTENSION_INTERVAL_MS) return undefined
  found.extendedAt = now
  return kept.extend(found.session, tenure)
}

function unowned(): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The process that has this session cannot be reached.', {
    suggestion: 'Send the request again.',
    retryAfterSeconds: 1,
    isUnsent: true,
  })
}

function notFound(): GatewayError {
  return new GatewayError('SESSION_NOT_FOUND', 'Session not found.', { suggestion: 'Initialize again.' })
}

function full(message: string): GatewayError {
  return new GatewayError('OVERLOADED', message, {
    suggestion:
      'End sessions that are not needed: DELETE with their Mcp-Session-Id. Idle ones end by themselves.',
  })
}

function isIdle({ session, replay }: HttpSession): boolean {
  return !session.isBusy && !replay.general.hasOutlet
}

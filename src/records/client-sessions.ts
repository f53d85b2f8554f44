/**
 * The sessions of HTTP clients of older revisions: what a gateway needs to continue one that began before a restart, in
 * another process that shares the store, or that it dropped from memory.
 *
 * Invariants: where callers are not distinguished, the id of a session is its credential, so the store has only a hash of
 * it. A session that was removed is not written again. Where processes reach each other, the record names the one that has
 * the session in memory: only that one writes it, and another one takes it over by a compare-and-swap, with the next generation.
 * Of one that was taken over, the record says for a while that it has ended: an earlier owner, which was only stopped, would
 * think that the store had lost the record.
 */
import { hash } from 'node:crypto'
import { Holdings } from '../core/holdings.ts'
import { sessionDigest } from '../core/identity.ts'
import { isObject } from '../core/json/json.ts'
import { background, type Log } from '../core/log.ts'
import { anonymous, type Principal } from '../core/principal.ts'
import { findRevision } from '../core/revisions.ts'
import { excerpt } from '../core/text/redact.ts'
import { within } from '../core/time/waiting.ts'
import { world } from '../core/world.ts'
import { asJson, Collection, ownerIn, type RecordDecision, type RecordKind } from '../durable/collection.ts'
import type { Fleet, Member } from '../durable/members.ts'
import { partOf } from '../durable/process-scope.ts'
import type { Store } from '../store/store.ts'
import { callerHash, ownedId } from './principal.ts'

/** What a session is continued with. */
export interface SessionState {
  /** The negotiated revision. */
  readonly revision: string
  /** What the client declared that it can do, and is. */
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly info?: Readonly<Record<string, unknown>>
  /** What the client learned that the servers have. */
  readonly offered: Readonly<Record<string, unknown>>
  /** The log level that the client set. */
  readonly level?: string
  /** The resources that the client subscribed to. */
  readonly uris: readonly string[]
}

/** Which process has a session in memory. */
export interface Tenure {
  /** `Membership.id` of the process. */
  readonly owner: string
  /** Grows by one each time that a process claims the session. */
  readonly generation: number
}

/** A process that can have sessions, and where the others reach it. */
export type SessionOwner = Pick<Member, 'id' | 'address'>

/** This process among those that share the store (`durable/members.ts`). */
export interface SessionOwners extends Pick<Fleet, 'id' | 'term' | 'renew' | 'hasEnded'> {
  /** A process that is alive. @throws SERVER_UNAVAILABLE */
  find(id: string): Promise<SessionOwner | undefined>
}

/** What the store has of a session. */
export interface StoredSession extends SessionState, Partial<Tenure> {
  readonly transport: Options['transport']
  /** The server in the URL; absent at the endpoint of all servers. */
  readonly upstream?: string
  /** When it was last known to be in use, in milliseconds since 1970; at most an hour before its last use. */
  readonly usedAt: number
  /** Its client has ended it. */
  readonly isEnded?: true
}

/** How long an unused session can be continued, in milliseconds. */
const RETENTION_MS = 24 * 3_600_000
/** How long it is remembered that a session has ended that had several owners, in milliseconds. */
const ENDED_MS = 3_600_000
/** How often the expiry of a session in use is put off, in milliseconds. */
export const EXTENSION_INTERVAL_MS = 3_600_000

/** How many sessions are kept, and how many characters they take; one authenticated caller may have a quarter of both. */
const MAX_SESSIONS = 10_000
const MAX_SIZE = 64 * 1024 * 1024
/** After how many new sessions of a process the limits are checked. */
const CHECK_INTERVAL = 1000
/** The longest record, in characters: a session with more subscriptions is continued with those that fit. */
const MAX_RECORD_LENGTH = 256 * 1024
/** How long a client waits for the store, in milliseconds. */
const WRITE_TIMEOUT_MS = 1000

/** A session that is kept: its id is the one that its client has. */
export interface KeptSession {
  readonly id: string
  readonly principal: Principal
}

/** What became of a write of an owner: `moved` if another process has the session by now. */
type Written = 'moved' | undefined

interface Options {
  /** A session of one transport cannot be continued over another one. */
  readonly transport: 'http' | 'sse'
  /** The present store: a reload can replace it. */
  store(): Store
  readonly log: Log
}

/** The sessions of one transport. */
export class ClientSessions {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  /**
   * Keeps a session that begins; `upstream` is the server in its URL. Never rejects: without the store, a session
   * lasts as long as its process. `onUnkept` is called if the write failed, which may be later than this resolves.
   */
  add(
    session: KeptSession,
    upstream: string | undefined,
    state: SessionState,
    { tenure, onUnkept }: { readonly tenure?: Tenure | undefined; onUnkept?(): void } = {},
  ): Promise<unknown> {
    const { transport } = this.#options
    const own = { ...(upstream !== undefined && { upstream }), ...tenure }
    const record = { transport, ...own, ...state, usedAt: world.now() }
    const write = async (): Promise<void> => {
      const stored = this.#stored
      // Its client may begin it again. A write that seemed to fail may also have been carried out, so that another process may
      // have it by now.
      if (!tenure) await stored.put(idOf(session), record)
      else if (await stored.insert(idOf(session), record))
        await stored.update(idOf(session), (before) => (before && !isOf(before, tenure) ? 'keep' : record))
      if (partOf(this.#options.store(), Added).count++ % CHECK_INTERVAL === 0)
        background(this.#limit(), this.#options.log)
    }
    return this.#try(write, onUnkept)
  }

  /** Keeps the state of a session, if it has not been removed, as it is at the time of writing. Never rejects. */
  change(session: KeptSession, present: () => SessionState | undefined, tenure?: Tenure): Promise<Written> {
    return this.#update(session, tenure, ({ level: _before, ...before }) => ({ ...before, ...present() }))
  }

  /** Puts off the expiry of a session, if it has not been removed. Never rejects. */
  extend(session: KeptSession, tenure?: Tenure): Promise<Written> {
    return this.#update(session, tenure, (before) => before)
  }

  /**
   * Makes a process the owner of a session, if the record is still of the tenure that was found. Resolves with the new
   * record; `moved` if another process was faster, undefined if there is no record. @throws what the store throws
   */
  claim(
    session: KeptSession,
    found: Partial<Tenure>,
    owner: string,
  ): Promise<(StoredSession & Tenure) | 'moved' | undefined> {
    type Claimed = (StoredSession & Tenure) | 'moved' | undefined
    const decide = (before: StoredSession | undefined): readonly [RecordDecision<StoredSession>, Claimed] => {
      if (!before) return ['keep', undefined]
      if (before.isEnded || !isOf(before, found)) return ['keep', 'moved']
      const next = { ...before, owner, generation: (before.generation ?? 0) + 1, usedAt: world.now() }
      return [next, next]
    }
    return this.#stored.change(idOf(session), decide)
  }

  /** Leaves a session to the process of its next request. Never rejects. */
  release(session: KeptSession, tenure: Tenure): Promise<Written> {
    return this.#update(session, tenure, ({ owner: _owner, ...before }) => before)
  }

  /** Never rejects. */
  remove(session: KeptSession): Promise<unknown> {
    const decide = (before: StoredSession | undefined): RecordDecision<StoredSession> => {
      if (!before?.generation || before.generation === 1) return 'remove'
      const { owner: _owner, ...ended } = before
      return { ...ended, isEnded: true }
    }
    return this.#try(() => this.#stored.update(idOf(session), decide))
  }

  /** The state of a session of a caller at an endpoint, if it is kept. @throws what the store throws */
  async find(session: KeptSession, upstream: string | undefined): Promise<StoredSession | undefined> {
    const { transport, store, log } = this.#options
    const decode = (text: string): StoredSession | undefined => {
      const record = sessionKind.decode(text)
      if (!record) log.warn('session.unreadable', { session: sessionDigest(session.id) })
      return record
    }
    const found = await new Collection(store(), { ...sessionKind, decode }).get(idOf(session))
    const isOfEndpoint = found?.transport === transport && found.upstream === upstream
    return isOfEndpoint && !found.isEnded ? found : undefined
  }

  get #stored(): Collection<StoredSession> {
    return new Collection(this.#options.store(), sessionKind)
  }

  async #update(
    session: KeptSession,
    tenure: Tenure | undefined,
    change: (before: StoredSession) => StoredSession,
  ): Promise<Written> {
    const decide = (before: StoredSession | undefined): readonly [RecordDecision<StoredSession>, Written] => {
      if (!before) return ['keep', undefined]
      if (tenure && !isOf(before, tenure)) return ['keep', 'moved']
      const next = { ...change(before), usedAt: world.now() }
      return [sessionKind.encode(next).length <= MAX_RECORD_LENGTH ? next : 'keep', undefined]
    }
    return this.#try(() => this.#stored.change(idOf(session), decide))
  }

  /** Resolves with undefined if the write fails. What takes longer continues without its caller. */
  async #try<Value>(write: () => Promise<Value>, onFailed?: () => void): Promise<Value | undefined> {
    const written = write().catch((error: unknown) => {
      this.#options.log.warn('session.not_kept', { error: excerpt(String(error)) })
      onFailed?.()
      return undefined
    })
    return within(written, WRITE_TIMEOUT_MS, undefined)
  }

  /** Removes the sessions beyond the limits: those that were not used for longest. */
  async #limit(): Promise<void> {
    const [counts, sizes] = [new Holdings(), new Holdings()]
    const everybody = callerHash(anonymous.id)
    const latestFirst = [...(await this.#stored.list())].toSorted(
      ([, one], [, other]) => other.usedAt - one.usedAt,
    )
    for (const [id, record] of latestFirst) {
      const owner = ownerIn(id)
      const caller = { id: owner, ...(owner === everybody && { isEverybody: true as const }) }
      const size = sessionKind.encode(record).length
      if (counts.fits(caller, MAX_SESSIONS, 1) && sizes.fits(caller, MAX_SIZE, size)) {
        counts.change(caller, 1)
        sizes.change(caller, size)
      } else await this.#stored.remove(id)
    }
  }
}

function isOf(record: Partial<Tenure>, { owner, generation }: Partial<Tenure>): boolean {
  return record.owner === owner && record.generation === generation
}

/** How many sessions this process added to a store. */
class Added {
  count = 0
}

const json = asJson<StoredSession>({
  string: ['transport', 'revision'],
  number: ['usedAt'],
  object: ['capabilities', 'offered'],
  list: ['uris'],
})

const sessionKind: RecordKind<StoredSession> = {
  name: 'session',
  prefix: 'client-session/',
  encode: json.encode,
  decode: (text) => {
    const record = json.decode(text)
    if (!record || findRevision(record.revision)?.era !== 'legacy') return undefined
    const { info, level, uris, owner, generation, isEnded } = record
    const isReadable =
      (info === undefined || isObject(info)) &&
      (level === undefined || typeof level === 'string') &&
      (owner === undefined || typeof owner === 'string') &&
      (generation === undefined || Number.isSafeInteger(generation)) &&
      (isEnded === undefined || isEnded === true) &&
      uris.every((uri) => typeof uri === 'string')
    return isReadable ? record : undefined
  },
  ttlOf: ({ isEnded }) => (isEnded ? ENDED_MS : RETENTION_MS),
}

/** The store can be read by operators, who need not learn the ids of sessions. */
function idOf({ principal, id }: KeptSession): string {
  return ownedId(principal, hash('sha256', id).slice(0, 32))
}

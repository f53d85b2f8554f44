/**
 * Who shares a store: gateways, known by heartbeats, and their instances, of which a reload makes the next one. Records name
 * their owner by its id, and whoever finds that an owner is not alive takes its records over by compare-and-swap. So an
 * owner that was only thought to have ended loses its next write, and nothing else.
 *
 * What a gateway owns without writing, such as a session in memory, it owns for a term. A term ends when no heartbeat was
 * written for almost as long as one is valid, before others can think that the gateway has ended; with the next heartbeat
 * another term begins, in which the gateway owns only what it claims again. The same holds for what it is about to do because it
 * has claimed it, such as a call: it is not done in another term (`mustLast`).
 */
import { readFileSync, readlinkSync } from 'node:fs'
import { hostname } from 'node:os'
import { type Timer, world } from '../core/world.ts'
import { GatewayError } from '../core/error.ts'
import { isObject, readJson } from '../core/json/json.ts'
import { elapsedSince, type Moment, moment } from '../core/time/moment.ts'
import { partOf } from './process-scope.ts'
import type { Store } from '../store/store.ts'

/** What a gateway tells the others of itself. Field names are persisted and do not change. */
export interface MemberDetails {
  /** The version of its program. */
  readonly version: string
  /** The machine, as people name it, and the process on it. */
  readonly host: string
  readonly pid: number
  /** When it started, in milliseconds since 1970. */
  readonly since: number
  /** Whether it takes new work: a gateway that drains finishes what it has. */
  readonly state: 'serving' | 'draining'
  /** Where the others reach it: `unix:/path` or `http://host:port`. Absent if it takes no requests from them. */
  readonly address?: string | undefined
}

/** A gateway that is alive, by its own account. */
export interface Member extends MemberDetails {
  readonly id: string
}

/** The gateways that share a store. */
export interface Membership {
  /** Identifies this gateway, for the lifetime of its process. */
  readonly id: string
  /**
   * Announces this gateway to the others in the current store, from now on. Must be awaited before work is left for
   * others to finish.
   */
  register(): Promise<void>
  /** Stops announcing this gateway in a replaced store, once nothing runs there any more. */
  leave(store: Store): void
  /** Whether a gateway is alive; true if that cannot be determined. */
  isAlive(id: string): Promise<boolean>
  /** Whether the process of a gateway is known to have ended, which only its own machine can tell. */
  hasEnded(id: string): boolean
  /**
   * Whether other gateways use the store, as far as they tell of themselves: known at most two seconds after they do. True if it
   * cannot be determined. Synchronous while it is known.
   */
  hasOthers(): boolean | Promise<boolean>
  /** The present term of this gateway; undefined between two terms. Known by its own clock, without a question to the store. */
  readonly term: number | undefined
  /** Writes the heartbeat now, so that there is a term. @throws what the store throws */
  renew(): Promise<void>
  close(): Promise<void>
}

/** The same, and what they tell each other. */
export interface Fleet extends Membership {
  /** Tells the others about this gateway, from now on, or nothing any more; registers it. */
  describe(details: MemberDetails | undefined): Promise<void>
  /** What a gateway tells about itself; undefined if it is not alive, or tells nothing. @throws SERVER_UNAVAILABLE */
  find(id: string): Promise<Member | undefined>
  /** All gateways that tell about themselves, those that started first before others. @throws SERVER_UNAVAILABLE */
  list(): Promise<readonly Member[]>
  /** Tells a gateway to finish what it has, and to end. It learns that with its next heartbeat. @throws SERVER_UNAVAILABLE */
  drain(id: string): Promise<void>
  /** Resolves once this gateway was told to end. */
  readonly drained: Promise<void>
}

/** How long a heartbeat is valid, and how often it is sent, in milliseconds. */
const HEARTBEAT_TTL_MS = 10_000
const HEARTBEAT_INTERVAL_MS = 3000
/** How long it is relied on that a gateway is alone, in milliseconds. For as long again, while it is read once more. */
const OTHERS_TTL_MS = 1000
/** How long an order to end waits for its gateway, in milliseconds. */
const ORDER_TTL_MS = 60_000
/** How long a gateway relies on its own heartbeat: less, because clocks of machines do not run alike. */
const TERM_MS = HEARTBEAT_TTL_MS * 0.9

/** The gateways of this process, by the random part of their ids. */
const localTokens = new Set<string>()

/** Creates the membership of this process. */
export function createMembership(store: () => Store): Fleet {
  const own = { token: world.randomBytes(8).toString('hex'), pid: world.processId(), place: placeOfProcess() }
  localTokens.add(own.token)
  const id = `${own.token}.${own.pid}.${own.place}`
  /** The stores in which this gateway is announced, with the first heartbeat there. */
  const announced = new Map<Store, Promise<void>>()
  const terms = new Terms()
  let timer: Timer | undefined
  let details: string | undefined
  /** What was written of this gateway, and where. */
  let described: { readonly store: Store; readonly text: string } | undefined
  const drained = Promise.withResolvers<void>()
  /** When a heartbeat of this gateway failed last, by `world.monotonic()`. */
  let failedAt = Number.NEGATIVE_INFINITY

  const beat = async (target: Store): Promise<void> => {
    try {
      await beatAt(target)
    } catch (error) {
      failedAt = world.monotonic()
      throw error
    }
  }
  const beatAt = async (target: Store): Promise<void> => {
    const at = moment()
    await target.put(keyOf(id), '1', HEARTBEAT_TTL_MS)
    if (details !== undefined) await tell(target, details)
    if (target === store()) terms.renew(at)
    if (details !== undefined && (await target.get(drainKeyOf(id))) !== undefined) drained.resolve()
  }
  const tell = async (target: Store, text: string): Promise<void> => {
    if (await target.compareAndSwap(detailsKeyOf(id), text, text, HEARTBEAT_TTL_MS)) return
    // Without its details, others think already that this gateway has ended.
    if (target === store() && described?.store === target && described.text === text) terms.end()
    await target.put(detailsKeyOf(id), text, HEARTBEAT_TTL_MS)
    described = { store: target, text }
  }
  const list = async (): Promise<readonly Member[]> => {
    const found = await store().scan(COLLECTION)
    const members = [...found].flatMap(
      ([key, text]) => memberOf(key.slice(COLLECTION.length + 1), text) ?? [],
    )
    return members
      .filter((each) => !hasEnded(each.id, own))
      .toSorted((one, other) => one.since - other.since || (one.id < other.id ? -1 : 1))
  }
  const others = new Others(store, async () => (await list()).some((each) => each.id !== id))
  let renewing: Promise<void> | undefined
  const beatAll = (): void => {
    const stores = details === undefined ? announced.keys() : new Set(announced.keys()).add(store())
    for (const each of stores) void beat(each).catch(() => undefined)
  }
  const register = (): Promise<void> => {
    const current = store()
    const done = announced.get(current)
    if (done) return done
    const first = beat(current)
    announced.set(current, first)
    // A failed heartbeat is sent again by the next caller that needs it.
    first.catch(() => announced.delete(current))
    timer ??= world.setInterval(beatAll, HEARTBEAT_INTERVAL_MS).unref()
    return first
  }
  return {
    id,
    get term() {
      return terms.current
    },
    renew: () =>
      (renewing ??= beat(store()).finally(() => {
        renewing = undefined
      })),
    register,
    describe: async (given) => {
      details = given && JSON.stringify(given)
      const current = store()
      if (details === undefined) return void (await current.delete(detailsKeyOf(id)))
      const isAnnounced = announced.has(current)
      // Also if the store is away at present.
      timer ??= world.setInterval(beatAll, HEARTBEAT_INTERVAL_MS).unref()
      await register()
      if (isAnnounced) await beat(current)
    },
    find: async (other) => {
      if (hasEnded(other, own)) return undefined
      return memberOf(other, await store().get(detailsKeyOf(other)))
    },
    list,
    hasOthers: () => others.known(),
    drain: (other) => store().put(drainKeyOf(other), '1', ORDER_TTL_MS),
    drained: drained.promise,
    leave: (left) => void announced.delete(left),
    isAlive: async (other) => {
      if (other === id) return true
      if (hasEnded(other, own)) return false
      try {
        if ((await store().get(keyOf(other))) !== undefined) return true
        // While the store takes no writes, the heartbeats of all gateways expire. They get the time to send the next one.
        return world.monotonic() - failedAt < HEARTBEAT_TTL_MS
      } catch {
        return true
      }
    },
    hasEnded: (other) => hasEnded(other, own),
    close: async () => {
      world.clearInterval(timer)
      localTokens.delete(own.token)
      const stores = [...announced.keys()]
      announced.clear()
      const keys = [keyOf(id), ...(details === undefined ? [] : [detailsKeyOf(id)])]
      await Promise.allSettled(stores.flatMap((each) => keys.map((key) => each.delete(key))))
    },
  }
}

/**
 * The term in which this gateway owns what it claims in the store from now on; begins one if there is none.
 * @throws what the store throws
 */
export async function presentTerm(membership: Membership): Promise<number | undefined> {
  await membership.register()
  if (membership.term === undefined) await membership.renew()
  return membership.term
}

/**
 * Must be called right before something is done that was claimed in a term: after it, others may have found the gateway over,
 * as it was stopped or cut off from the store, and do it themselves. @throws SERVER_UNAVAILABLE
 */
export function mustLast(term: number | undefined, membership: Pick<Membership, 'term'>): void {
  if (term !== undefined && membership.term === term) return
  throw new GatewayError(
    'SERVER_UNAVAILABLE',
    'This gateway had lost contact with the store for a time, so it did not make the call.',
    {
      suggestion: 'Make the call again.',
      retryAfterSeconds: 1,
      isUnsent: true,
    },
  )
}

/** Whether other gateways use the store, as it was read last. */
class Others {
  readonly #store: () => Store
  readonly #read: () => Promise<boolean>
  #seen: { readonly store: Store; readonly at: number; readonly found: boolean } | undefined
  #reading: Promise<boolean> | undefined

  constructor(store: () => Store, read: () => Promise<boolean>) {
    this.#store = store
    this.#read = read
  }

  known(): boolean | Promise<boolean> {
    const seen = this.#seen?.store === this.#store() ? this.#seen : undefined
    const age = seen ? world.monotonic() - seen.at : Infinity
    // That they have left is no hurry.
    if (seen && age < (seen.found ? HEARTBEAT_TTL_MS : OTHERS_TTL_MS)) return seen.found
    const reading = (this.#reading ??= this.#update().finally(() => {
      this.#reading = undefined
    }))
    return seen && age < 2 * OTHERS_TTL_MS ? seen.found : reading
  }

  async #update(): Promise<boolean> {
    const store = this.#store()
    const at = world.monotonic()
    const found = await this.#read().catch(() => true)
    this.#seen = { store, at, found }
    return found
  }
}

/** The terms of one gateway, by its own clocks. */
class Terms {
  #number = 1
  #renewedAt: Moment | undefined

  get current(): number | undefined {
    if (this.#renewedAt && elapsedSince(this.#renewedAt) >= TERM_MS) this.end()
    return this.#renewedAt && this.#number
  }

  end(): void {
    if (this.#renewedAt) this.#number++
    this.#renewedAt = undefined
  }

  /** A heartbeat was written that was begun then: a term that is over is not prolonged. */
  renew(at: Moment): void {
    if (elapsedSince(this.#renewedAt ?? at) >= TERM_MS) this.end()
    if (elapsedSince(at) < TERM_MS) this.#renewedAt = at
  }
}

/** The instances of a gateway that have not ended, by the last part of their ids. */
class LiveInstances {
  readonly ids = new Set<string>()
}

/** A key by which an instance tells other processes that it is alive; without one they see only whether its process is. */
interface Announcement {
  readonly store: Store
  readonly keyPrefix: string
  readonly ttlMs: number
}

/**
 * One of the successive parts of a gateway that do the same work: a reload makes the next one, which must not do the work
 * of the one before, until that one has ended.
 */
export class Instance {
  /** The id of its gateway, a separator, and a part of its own. */
  readonly id: string
  readonly #own = world.randomBytes(6).toString('hex')
  readonly #membership: Membership
  readonly #live: Set<string>
  readonly #announcement: Announcement | undefined
  #announcedAt = Number.NEGATIVE_INFINITY

  /** The separator is that of the stored records of this kind. */
  constructor(membership: Membership, separator: '#' | '/', announcement?: Announcement) {
    this.#membership = membership
    this.#announcement = announcement
    this.#live = partOf(membership, LiveInstances).ids
    this.id = `${membership.id}${separator}${this.#own}`
    this.#live.add(this.#own)
  }

  /** Says that it is alive, unless it did so lately; to be awaited before its id is stored. @throws SERVER_UNAVAILABLE */
  async register(now = world.monotonic()): Promise<void> {
    await this.#membership.register()
    if (!this.#announcement) return
    const { store, keyPrefix, ttlMs } = this.#announcement
    // A clock that was set back does not say how long ago it was.
    if (now >= this.#announcedAt && now - this.#announcedAt < ttlMs / 3) return
    await store.put(`${keyPrefix}${this.id}`, '1', ttlMs)
    this.#announcedAt = now
  }

  /** Whether an instance of this or another gateway is alive. @throws SERVER_UNAVAILABLE */
  async isAlive(id: string): Promise<boolean> {
    if (id === this.id) return true
    const [, gateway, own] = /^(.*)[#/](.*)$/.exec(id) ?? []
    if (gateway === undefined || own === undefined) return false
    if (gateway === this.#membership.id) return this.#live.has(own)
    const { store, keyPrefix } = this.#announcement ?? {}
    if (store && (await store.get(`${keyPrefix}${id}`)) === undefined) return false
    return this.#membership.isAlive(gateway)
  }

  /** Leaves its records to others. */
  async end(): Promise<void> {
    this.#live.delete(this.#own)
    if (!this.#announcement || this.#announcedAt === Number.NEGATIVE_INFINITY) return
    const { store, keyPrefix } = this.#announcement
    await store.delete(`${keyPrefix}${this.id}`).catch(() => false)
  }
}

interface Own {
  readonly token: string
  readonly pid: number
  readonly place: string
}

/** Whether the process of an id is known to have ended: only its own machine can tell. */
function hasEnded(other: string, own: Own): boolean {
  const [token, pid, ...place] = other.split('.')
  if (place.join('.') !== own.place || !/^\d+$/.test(pid ?? '')) return false
  if (Number(pid) === own.pid) return !localTokens.has(token ?? '')
  return !world.isRunning(Number(pid))
}

/** Identifies the machine since its last boot, and the PID namespace. */
function placeOfProcess(): string {
  const machine = world.machine()
  if (machine !== undefined) return machine
  const boot = attempt(() => readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim())
  // For example `pid:[4026531836]`.
  const namespace = attempt(() => /\d+/.exec(readlinkSync('/proc/self/ns/pid'))?.[0])
  return encodeURIComponent([boot ?? hostname(), namespace ?? ''].join('-'))
}

/** Reads what only Linux provides. */
function attempt(read: () => string | undefined): string | undefined {
  try {
    return read()
  } catch {
    return undefined
  }
}

function keyOf(id: string): string {
  return `${PREFIX}${id}`
}

const PREFIX = 'alive:'
/** The collection of what gateways tell of themselves. Gateways of earlier versions look for the other keys alone. */
const COLLECTION = 'member'

function drainKeyOf(id: string): string {
  return `member-drain:${id}`
}

function detailsKeyOf(id: string): string {
  return `${COLLECTION}/${id}`
}

/** A text that cannot be read is of no member. */
function memberOf(id: string, text: string | undefined): Member | undefined {
  const value = text === undefined ? undefined : readJson(text)
  if (!isObject(value)) return undefined
  const { version, host, pid, since, state, address } = value
  if (typeof version !== 'string' || typeof host !== 'string' || typeof pid !== 'number') return undefined
  if (typeof since !== 'number' || Number.isNaN(new Date(since).getTime())) return undefined
  if (state !== 'serving' && state !== 'draining') return undefined
  return { id, version, host, pid, since, state, address: typeof address === 'string' ? address : undefined }
}

/** The gateway that a key in a store says is alive; undefined if it is another key. */
export function memberIn(key: string): string | undefined {
  return key.startsWith(PREFIX) ? key.slice(PREFIX.length) : undefined
}

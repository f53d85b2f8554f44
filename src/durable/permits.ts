/**
 * Permits: at most so many of something at once, in all gateways that share a store, such as the calls of one caller.
 *
 * The value of `permits:NAME` says how many permits each gateway has, by the id of its instance. A gateway takes as many as it
 * uses, keeps those that it does not use for a moment while there are enough for all, and so asks the store once for several
 * calls. A gateway that is alone asks no store. If others may have permits that they do not use, a call waits for them before
 * it is refused.
 *
 * Invariants: a gateway that knows of others uses no more than the value says of it, and the numbers of a value are no more than
 * the limit together. What ran before a gateway knew of another one is written with the next permit that it takes, and may be more. The
 * permits of a gateway that is not alive are free for others; it does not use them in its next term. If the store does
 * not answer, each gateway has all permits for itself.
 */
import { GatewayError } from '../core/error.ts'
import { asObject, readJson } from '../core/json/json.ts'
import { pause } from '../core/time/waiting.ts'
import { type Timer, world } from '../core/world.ts'
import type { Store } from '../store/store.ts'
import { casUpdate, type CasUpdate, casUpdateSeen } from './cas-update.ts'
import { Instance, type Membership } from './members.ts'

/** How long a permit is kept that is not used, while at most half of them are taken, in milliseconds. */
const IDLE_MS = 250
/** How long a call waits for a permit that another gateway may not use: it returns it by then. In milliseconds. */
const MAX_WAIT_MS = 2 * IDLE_MS
/** The pause between two attempts, in milliseconds. */
const POLL_INTERVAL_MS = 25
/** The pause before permits are returned to a store that did not answer, in milliseconds. */
const RETRY_DELAY_MS = 1000
/** How often it is asked whether the others that have permits are alive, in milliseconds. */
const CHECK_INTERVAL_MS = 1000
/** How long a value is kept that no gateway changes, in milliseconds. */
const TTL_MS = 86_400_000

interface Deps {
  readonly store: Store
  readonly membership: Membership
  /** Whether other gateways may use the store. */
  readonly isShared: boolean
}

/** The permits of one part of a gateway, which outlives no reload. */
export class Permits {
  readonly #store: Store
  readonly #membership: Membership
  readonly #isShared: boolean
  readonly #instance: Instance
  readonly #pools = new Map<string, Pool>()
  #hadOthers = false

  constructor({ store, membership, isShared }: Deps) {
    this.#store = store
    this.#membership = membership
    this.#isShared = isShared
    this.#instance = new Instance(membership, '#')
  }

  /** Takes one of the permits of this name; resolves with whether there was one. Each that was taken must be returned. */
  take(name: string, limit: number): boolean | Promise<boolean> {
    const hasOthers = this.#isShared && this.#membership.hasOthers()
    if (hasOthers instanceof Promise) return hasOthers.then((found) => this.#take(name, limit, found))
    return this.#take(name, limit, hasOthers)
  }

  /** Returns a permit that was taken. */
  return(name: string): void {
    this.#pools.get(name)?.return()
  }

  /** Leaves all permits to others. */
  async close(): Promise<void> {
    await Promise.all([...this.#pools.values()].map((pool) => pool.close()))
    await this.#instance.end()
  }

  #take(name: string, limit: number, hasOthers: boolean): boolean | Promise<boolean> {
    // The others learn what is in use already.
    if (hasOthers && !this.#hadOthers) for (const pool of this.#pools.values()) pool.tell()
    this.#hadOthers = hasOthers
    let pool = this.#pools.get(name)
    if (!pool) {
      pool = new Pool({
        store: this.#store,
        key: `permits:${name}`,
        membership: this.#membership,
        instance: this.#instance,
        onEmpty: () => this.#pools.delete(name),
      })
      this.#pools.set(name, pool)
    }
    return pool.take(limit, hasOthers)
  }
}

interface PoolOptions {
  readonly store: Store
  readonly key: string
  readonly membership: Membership
  readonly instance: Instance
  /** Nothing is in use, and the store has nothing of this gateway. */
  onEmpty(): void
}

/** A call that waits for a permit. */
interface Waiting {
  readonly limit: number
  /** By `world.monotonic()`. */
  readonly until: number
  resolve(isTaken: boolean): void
}

/** The permits of one name. */
class Pool {
  readonly #options: PoolOptions
  #inUse = 0
  readonly #waiting = new Set<Waiting>()
  /** What the value says of this gateway; undefined if that is not known, because a write of it failed. */
  #recorded: number | undefined = 0
  /** How many may be used without asking, and in which term of this gateway. */
  #usable = 0
  #term: number | undefined
  /** The value as it was seen last. */
  #seen: string | undefined
  /** Whether more than half of all permits are taken: then those that are not used are returned at once. */
  #isTight = false
  #limit = 0
  #isSettling = false
  #isClosed = false
  #timer: Timer | undefined
  /** Gateways that have permits, and were found not to be alive. */
  readonly #ended = new Set<string>()
  #checkedAt = Number.NEGATIVE_INFINITY

  constructor(options: PoolOptions) {
    this.#options = options
  }

  take(limit: number, hasOthers: boolean): boolean | Promise<boolean> {
    this.#limit = limit
    if (this.#inUse + this.#waiting.size >= limit) return false
    if (!hasOthers || (this.#inUse < this.#usable && this.#options.membership.term === this.#term)) {
      this.#inUse++
      return true
    }
    return new Promise((resolve) => {
      this.#waiting.add({ limit, until: world.monotonic() + MAX_WAIT_MS, resolve })
      void this.#settle()
    })
  }

  return(): void {
    this.#inUse--
    const [next] = this.#waiting
    if (next) this.#grant(next)
    this.#rest()
  }

  /** Writes what is in use. */
  tell(): void {
    void this.#settle()
  }

  /** Leaves what is in use to others. */
  async close(): Promise<void> {
    this.#isClosed = true
    world.clearTimeout(this.#timer)
    this.#inUse = 0
    if (this.#recorded !== 0) await this.#round()
  }

  #grant(call: Waiting): void {
    if (!this.#waiting.delete(call)) return
    this.#inUse++
    call.resolve(true)
  }

  #refuse(call: Waiting): void {
    if (this.#waiting.delete(call)) call.resolve(false)
  }

  /** Sees to it that what is not used is returned. */
  #rest(): void {
    if (this.#isSettling || this.#isClosed || this.#timer !== undefined) return
    const isKnown = this.#recorded !== undefined
    if (isKnown && (this.#recorded ?? 0) <= this.#inUse) {
      if (this.#inUse === 0) this.#options.onEmpty()
      return
    }
    if (this.#isTight && isKnown) return void this.#settle()
    this.#timer = world.setTimeout(() => void this.#settle(), isKnown ? IDLE_MS : RETRY_DELAY_MS).unref()
  }

  /** Writes what is in use, until no call waits. Never rejects. */
  async #settle(): Promise<void> {
    if (this.#isSettling) return
    this.#isSettling = true
    world.clearTimeout(this.#timer)
    this.#timer = undefined
    do await this.#round()
    while (this.#waiting.size > 0)
    this.#isSettling = false
    this.#rest()
  }

  /** Writes what is in use, with as much of what waits as there are permits for. */
  async #round(): Promise<void> {
    // What is not used is given back, so it is not used meanwhile.
    this.#usable = 0
    let asked: readonly Waiting[] = []
    try {
      await this.#options.instance.register()
      const { term } = this.#options.membership
      asked = [...this.#waiting]
      const { own, others, granted } = await this.#write(asked)
      this.#usable = this.#recorded = own
      this.#term = term
      for (const call of granted) this.#grant(call)
      const taken = own + sum(others)
      this.#isTight = 2 * taken > this.#limit
      const now = world.monotonic()
      for (const call of asked) if (others.size === 0 || call.until <= now) this.#refuse(call)
      if (asked.some((call) => this.#waiting.has(call))) {
        await this.#check(others.keys())
        await pause(POLL_INTERVAL_MS)
      }
    } catch {
      this.#recorded = undefined
      for (const call of this.#waiting)
        if (this.#inUse < call.limit) this.#grant(call)
        else this.#refuse(call)
    }
  }

  /** @throws SERVER_UNAVAILABLE */
  async #write(asked: readonly Waiting[]): Promise<Written> {
    const { store, key, instance } = this.#options
    const decide = (text: string | undefined): CasUpdate<Written> => {
      const before = readPermits(text)
      const others = new Map([...before].filter(([id]) => id !== instance.id && !this.#ended.has(id)))
      const free = ({ limit }: Waiting, index: number): boolean => sum(others) + this.#inUse + index < limit
      const granted = asked.filter((call) => this.#waiting.has(call)).filter(free)
      const own = this.#inUse + granted.length
      const after = own > 0 ? new Map([...others, [instance.id, own]]) : others
      const isSame = before.get(instance.id) === after.get(instance.id) && after.size === before.size
      if (isSame) return { result: { own, others, granted, text } }
      const changed = after.size === 0 ? undefined : JSON.stringify(Object.fromEntries(after))
      const write = changed === undefined ? 'remove' : { text: changed, ttl: TTL_MS }
      return { result: { own, others, granted, text: changed }, write }
    }
    const seen = await casUpdateSeen(store, key, this.#seen, decide)
    const written = seen?.result ?? (await casUpdate(store, key, decide, busy))
    this.#seen = written.text
    return written
  }

  /** Finds out which of the others are not alive, now and then. */
  async #check(others: Iterable<string>): Promise<void> {
    const now = world.monotonic()
    if (now - this.#checkedAt < CHECK_INTERVAL_MS) return
    this.#checkedAt = now
    for (const id of others) if (!(await this.#options.instance.isAlive(id))) this.#ended.add(id)
  }
}

/** What a value says now. */
interface Written {
  readonly own: number
  readonly others: ReadonlyMap<string, number>
  /** Calls whose permits are among the own ones. */
  readonly granted: readonly Waiting[]
  /** The value. */
  readonly text: string | undefined
}

function sum(permits: ReadonlyMap<string, number>): number {
  let all = 0
  for (const each of permits.values()) all += each
  return all
}

/** What cannot be read is of no gateway. */
function readPermits(text: string | undefined): ReadonlyMap<string, number> {
  const entries = Object.entries(asObject(text === undefined ? undefined : readJson(text)))
  return new Map(
    entries.flatMap(([id, count]) =>
      Number.isSafeInteger(count) && Number(count) > 0 ? [[id, Number(count)]] : [],
    ),
  )
}

function busy(): never {
  throw new GatewayError('SERVER_UNAVAILABLE', 'Too many gateways changed the permits of one caller at once.')
}

/**
 * Whether writes are paused: one record for all gateways of a store. `Pause` reads and changes it, for commands, pages and tools.
 * `PauseWatch` is what one process knows of it, so that no call waits for the store.
 *
 *   not paused -- pause --> paused -- resume, or its end --> not paused
 *
 * Invariants: a pause that is there is never made shorter by another one. A watch keeps what it read last while the store does not
 * answer, and an answer that is older than a change of this process does not undo it.
 */
import type { OrderStep } from '../core/audit-step.ts'
import { isoTime, within } from '../core/time/waiting.ts'
import { type Timer, world } from '../core/world.ts'
import { asJson, Collection, type RecordKind } from '../durable/collection.ts'
import { partOf } from '../durable/process-scope.ts'
import { FOREVER, type Store } from '../store/store.ts'

/** A pause of writes. Times are milliseconds since 1970. */
export interface PauseState {
  readonly version: number
  /** Who paused them, for operators. */
  readonly by: string
  readonly since: number
  /** Why, in the words of the operator, on any number of lines. */
  readonly reason?: string
  /** When it ends by itself; absent if it has to be ended. */
  readonly until?: number
}

/** Who pauses or resumes writes, and where, if it is not the command line. */
interface Operator {
  readonly by: string
  readonly via?: string
}

interface PauseOrder extends Operator {
  readonly reason?: string | undefined
  /** When the pause ends by itself, in milliseconds since 1970. */
  readonly until?: number | undefined
}

/** The longest reason, in characters; the rest is cut off. */
const MAX_REASON_LENGTH = 500

/** The pause of writes in a store. */
export class Pause {
  readonly #store: Store
  readonly #pauses: Collection<PauseState>
  readonly #ordered: ((step: OrderStep) => void) | undefined
  readonly #now: () => number

  /** `ordered` records what is changed in the audit log; `now` returns milliseconds since 1970. */
  constructor(store: Store, ordered?: (step: OrderStep) => void, now: () => number = world.now) {
    this.#store = store
    this.#pauses = new Collection(store, pauseKind, now)
    this.#ordered = ordered
    this.#now = now
  }

  /** The pause; undefined if writes are not paused. @throws SERVER_UNAVAILABLE */
  async state(): Promise<PauseState | undefined> {
    const found = await this.#pauses.get(ID)
    return found && isCurrent(found, this.#now()) ? found : undefined
  }

  /** Pauses writes from now on; if they are paused, no sooner end counts. Resolves with the pause. @throws SERVER_UNAVAILABLE */
  async pause({ by, via, reason, until }: PauseOrder): Promise<PauseState> {
    const now = this.#now()
    const text = reason?.toWellFormed().trim().slice(0, MAX_REASON_LENGTH)
    const made = await this.#pauses.change(ID, (before) => {
      const found = before && isCurrent(before, now) ? before : undefined
      const next = { version: VERSION, by, since: found?.since ?? now, ...reasonOf(text || found?.reason) }
      const hasEnd = until !== undefined && (!found || found.until !== undefined)
      const state = hasEnd ? { ...next, until: Math.max(until, found?.until ?? until) } : next
      return [state, state]
    })
    pauseOf(this.#store).learn(made)
    this.#record({ order: 'pause', by, via, ...reasonOf(made.reason), ...endOf(made) })
    return made
  }

  /** Ends the pause. Resolves with the one that was ended; undefined if writes were not paused. @throws SERVER_UNAVAILABLE */
  async resume({ by, via }: Operator): Promise<PauseState | undefined> {
    const now = this.#now()
    const ended = await this.#pauses.change(ID, (before) => [before ? 'remove' : 'keep', before])
    pauseOf(this.#store).learn(undefined)
    if (!ended || !isCurrent(ended, now)) return undefined
    this.#record({ order: 'resume', by, via })
    return ended
  }

  #record({ via, ...step }: Omit<OrderStep, 'via'> & { readonly via: string | undefined }): void {
    this.#ordered?.({ ...step, ...(via !== undefined && { via }) })
  }
}

/** A pause as JSON, for commands, pages and tools. */
export function pauseView(state: PauseState | undefined): Readonly<Record<string, unknown>> {
  if (!state) return { paused: false }
  const { by, since, reason, until } = state
  return {
    paused: true,
    since: isoTime(since),
    by,
    ...(reason !== undefined && { reason }),
    ...(until !== undefined && { until: isoTime(until) }),
  }
}

/** The only record, and the version that is written. */
const ID = 'writes'
const VERSION = 1

/** The latest time that a date can have (ECMA-262, time values). */
const MAX_TIME = 8.64e15

const json = asJson<PauseState>({ string: ['by'], number: ['version', 'since'] })

const pauseKind: RecordKind<PauseState> = {
  name: 'pause',
  prefix: 'pause:',
  encode: json.encode,
  decode: (text) => {
    const found = json.decode(text)
    if (!found || !isTime(found.since)) return undefined
    const { version, by, since, reason, until } = found
    // What cannot be read of it does not end it.
    return {
      version,
      by,
      since,
      ...(typeof reason === 'string' && { reason: reason.slice(0, MAX_REASON_LENGTH) }),
      ...(isTime(until) && { until }),
    }
  },
  ttlOf: ({ until }, now) => (until === undefined ? FOREVER : until - now),
}

function isTime(value: unknown): value is number {
  return typeof value === 'number' && Math.abs(value) <= MAX_TIME
}

function isCurrent({ until }: PauseState, now: number): boolean {
  return until === undefined || now < until
}

function reasonOf(reason: string | undefined): Pick<PauseState, 'reason'> {
  return reason === undefined || reason === '' ? {} : { reason }
}

function endOf({ until }: PauseState): Pick<PauseState, 'until'> {
  return until === undefined ? {} : { until }
}

// What one process knows. It reads the record at intervals while somebody follows it.

/** How often the record is read, and how long an answer is awaited before it is read again, in milliseconds. */
const POLL_INTERVAL_MS = 500
const READ_TIMEOUT_MS = 1000
/** How many reads may be unanswered; stores end them at some time. */
const MAX_OPEN_READS = 10
/** How long calls wait for the first answer of the store, from the beginning on, in milliseconds. */
const FIRST_READ_TIMEOUT_MS = 3000

/** When all gateways know of a change, in milliseconds, if the store answers them within a second. */
export const PROPAGATION_MS = POLL_INTERVAL_MS + READ_TIMEOUT_MS

/** Called when writes are paused, when the pause changes, and with undefined when it ends. */
type PauseListener = (state: PauseState | undefined) => void

/** The watch of a store, which belongs to it. */
export function pauseOf(store: Store): PauseWatch {
  const watch = partOf(store, PauseWatch)
  watch.store = store
  return watch
}

/** The pause of a store as far as this process knows it. */
export class PauseWatch {
  store: Store | undefined
  readonly #listeners = new Set<PauseListener>()
  #first = Promise.withResolvers<true>()
  #isKnown = false
  #state: PauseState | undefined
  /** The pause that the listeners know. */
  #told: PauseState | undefined
  #timer: Timer | undefined
  #startedAt = 0
  /** Reads and changes are numbered; of the answers, only later ones than `#applied` count. */
  #last = 0
  #applied = 0
  #readAt = 0
  #openReads = 0

  /** Whether the store has answered once. */
  get isKnown(): boolean {
    return this.#isKnown
  }

  /** The pause; undefined if writes are not paused, or that is not known yet. */
  get current(): PauseState | undefined {
    const state = this.#state
    return state !== undefined && isCurrent(state, world.now()) ? state : undefined
  }

  /** Reads the record from now on, until the returned function is called by all who follow it. */
  follow(listener: PauseListener): () => void {
    this.#listeners.add(listener)
    if (!this.#timer) {
      this.#startedAt = world.monotonic()
      this.#timer = world.setInterval(() => this.#poll(), POLL_INTERVAL_MS).unref()
      this.#read()
      // A store that connects answers nothing before.
      this.store?.opened?.().then(
        () => this.#isKnown || this.#read(),
        () => undefined,
      )
    }
    if (this.#told) listener(this.#told)
    return () => {
      this.#listeners.delete(listener)
      if (this.#listeners.size > 0) return
      world.clearInterval(this.#timer)
      this.#timer = undefined
      this.#end()
    }
  }

  /** Resolves with whether the state is known, once it is, or the store had enough time to answer. */
  known(): Promise<boolean> {
    const left = this.#startedAt + FIRST_READ_TIMEOUT_MS - world.monotonic()
    if (this.#isKnown || left <= 0) return Promise.resolve(this.#isKnown)
    return within<boolean>(this.#first.promise, left, false)
  }

  /** Takes over what this process wrote. */
  learn(state: PauseState | undefined): void {
    this.#apply(++this.#last, state)
  }

  /** Nobody follows it: whoever does later has to read it first. Calls that began before are judged by what was known last. */
  #end(): void {
    this.#applied = ++this.#last
    this.#isKnown = false
    this.#told = undefined
    this.#first = Promise.withResolvers()
  }

  #poll(): void {
    // A pause can end between two reads.
    this.#tell()
    const isAnswered = this.#openReads === 0
    if (isAnswered || world.monotonic() - this.#readAt >= READ_TIMEOUT_MS) this.#read()
  }

  #read(): void {
    if (!this.store || this.#openReads >= MAX_OPEN_READS) return
    const number = ++this.#last
    this.#readAt = world.monotonic()
    this.#openReads++
    const ended = (): void => void this.#openReads--
    // Without an answer, what was known last holds.
    new Pause(this.store)
      .state()
      .then((state) => this.#apply(number, state))
      .then(ended, ended)
  }

  #apply(number: number, state: PauseState | undefined): void {
    if (number <= this.#applied) return
    this.#applied = number
    this.#state = state
    this.#isKnown = true
    this.#first.resolve(true)
    this.#tell()
  }

  #tell(): void {
    const { current } = this
    if (isSamePause(current, this.#told)) return
    this.#told = current
    for (const listener of this.#listeners) listener(current)
  }
}

function isSamePause(one: PauseState | undefined, other: PauseState | undefined): boolean {
  return one?.since === other?.since && one?.until === other?.until && one?.reason === other?.reason
}

/**
 * The events of one server: a log in the store that all gateways share. Those who wait for events learn at once of what
 * this process adds, and of what others add when the store says so.
 */
import { type Timer, world } from '../../core/world.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject, readJson } from '../../core/json/json.ts'
import type { Redactor } from '../../core/text/redactor.ts'
import { pause } from '../../core/time/waiting.ts'
import { EventInterest } from '../../records/event-interest.ts'
import type { AppendLog, LogPage } from '../../durable/log.ts'
import { eventLogName, LOGGING_BEGAN, type LoggedEvent, openEventLog } from '../../records/logged-events.ts'
import type { Store } from '../../store/store.ts'

export { asEvent, LOGGING_BEGAN, type LoggedEvent } from '../../records/logged-events.ts'

/** The pauses before an event is written again, and after which time of failures that is not tried, in milliseconds. */
const RETRY_PAUSES_MS = [250, 750, 1500]
const MAX_FAILING_MS = 5000
/** How often a loss of events is reported at most, until that succeeds, and the pause before it, in milliseconds. */
const MAX_REPORT_ATTEMPTS = 3600
const REPORT_INTERVAL_MS = 1000
/** How many events are read at once. */
const PAGE_EVENTS = 200
/** How often those who wait for events read the log in any case, in milliseconds. */
const POLL_INTERVAL_MS = 1000
/** How long is waited for further events of other processes before those who wait read, in milliseconds. */
const GATHER_MS = 20
/** How long the log is watched after the last one who waited, in milliseconds: the next one often follows. */
const UNWATCH_DELAY_MS = 10_000

/** An event that is to be logged. */
type NewEvent = Omit<LoggedEvent, 'id' | 'at'> & Partial<Pick<LoggedEvent, 'id'>>

interface LogSettings {
  /** How long events are kept, in milliseconds. */
  readonly ttl: number
  /** Whether other processes use the store. */
  readonly isShared?: boolean
  readonly redactor: Redactor
}

/** The events of a server. */
export class ServerEvents {
  readonly log: AppendLog
  readonly #redactor: Redactor
  readonly #interest: EventInterest
  readonly #store: Pick<Store, 'watch'>
  /** Ends the watch of the log; absent while there is no waiter. */
  #unwatch: (() => void) | undefined
  #unwatching: Timer | undefined
  #isGathering = false
  readonly #waiting = new Set<() => void>()
  /** Reads that have just begun, by position. */
  readonly #reads = new Map<string | undefined, Promise<LogPage>>()
  /** Since when events could not be written, by `performance.now()`. */
  #failingSince: number | undefined
  #isReporting = false

  /** Those of a server, or those that belong to no server. */
  constructor(store: Store, upstream: string | undefined, { ttl, isShared = true, redactor }: LogSettings) {
    this.#redactor = redactor
    this.#store = store
    this.log = openEventLog(store, upstream, { ttl, isShared })
    this.#interest = new EventInterest(store, eventLogName(upstream), ttl, isShared)
  }

  /** Whether a client follows the events; otherwise they are not kept. @throws SERVER_UNAVAILABLE */
  isRetained(): Promise<boolean> {
    return this.#interest.isThere()
  }

  /**
   * Has all gateways with this store keep events from now on, for as long as a position that is handed out now is of
   * use. Must be awaited before one is handed out or read from. @throws SERVER_UNAVAILABLE
   */
  retain(): Promise<void> {
    return this.#interest.declare(() => this.#append({ name: LOGGING_BEGAN, data: {} }))
  }

  /** The position that what happens from now on follows. @throws SERVER_UNAVAILABLE */
  async now(): Promise<string> {
    await this.retain()
    return this.log.end()
  }

  /**
   * A page of events after a position, from the oldest on without one. Those who wait for events read at once, so they
   * share a page. @throws SERVER_UNAVAILABLE
   */
  read(after: string | undefined): Promise<LogPage> {
    const begun = this.#reads.get(after)
    if (begun) return begun
    const reading = this.log.read(after, PAGE_EVENTS)
    this.#reads.set(after, reading)
    // After all that was resolved together: a later reader must see what others appended meanwhile.
    process.nextTick(() => this.#reads.delete(after))
    return reading
  }

  /**
   * Adds an event that happened now, if the log is retained; without an id, it gets one. A store that fails is asked again
   * for a few seconds; if it fails for longer, clients learn later that events may be missing. @throws SERVER_UNAVAILABLE
   */
  async add(event: NewEvent): Promise<void> {
    const added = occurred(event)
    for (const wait of [...RETRY_PAUSES_MS, undefined]) {
      try {
        if (await this.isRetained()) await this.append([added])
        this.#failingSince = undefined
        return
      } catch (error) {
        const now = world.monotonic()
        this.#failingSince ??= now
        const isPassing = error instanceof GatewayError && now - this.#failingSince < MAX_FAILING_MS
        if (wait === undefined || !isPassing) {
          void this.#reportLoss()
          throw error
        }
        await pause(wait)
      }
    }
  }

  /** Adds events that have ids already, whether the log is retained or not. @throws SERVER_UNAVAILABLE */
  async append(events: readonly LoggedEvent[]): Promise<void> {
    await this.log.append(events.map((event) => this.#withoutSecrets(event)))
    this.#reads.clear()
    this.wake()
  }

  #withoutSecrets(event: LoggedEvent): LoggedEvent {
    const text = JSON.stringify(event.data)
    const clean = this.#redactor.json(text)
    const data = clean === text ? event.data : readJson(clean)
    return isObject(data) ? { ...event, data } : event
  }

  #append(event: NewEvent): Promise<void> {
    return this.append([occurred(event)])
  }

  /** Says in the log that events may be missing, once the store can be used again. Never rejects. */
  async #reportLoss(): Promise<void> {
    if (this.#isReporting) return
    this.#isReporting = true
    for (let attempt = 0; attempt < MAX_REPORT_ATTEMPTS; attempt++) {
      await pause(REPORT_INTERVAL_MS)
      try {
        if (await this.isRetained()) await this.#append({ name: LOGGING_BEGAN, data: {} })
        break
      } catch {
        // The next attempt follows.
      }
    }
    this.#isReporting = false
  }

  /** Resolves once there may be more events, or the signal is aborted. */
  changed(signal: AbortSignal): Promise<void> {
    return new Promise((resolve) => {
      const end = (): void => {
        world.clearTimeout(timer)
        signal.removeEventListener('abort', end)
        this.#waiting.delete(end)
        if (this.#waiting.size === 0) this.#unwatchLater()
        resolve()
      }
      const timer = world.setTimeout(end, POLL_INTERVAL_MS).unref()
      signal.addEventListener('abort', end)
      this.#waiting.add(end)
      this.#watch()
      if (signal.aborted) end()
    })
  }

  /** Ends all waits. */
  wake(): void {
    for (const end of [...this.#waiting]) end()
  }

  #watch(): void {
    world.clearTimeout(this.#unwatching)
    this.#unwatching = undefined
    this.#unwatch ??= this.#store.watch(this.log.key, () => this.#gather())
  }

  #gather(): void {
    if (this.#isGathering) return
    this.#isGathering = true
    const gathered = (): void => {
      this.#isGathering = false
      this.wake()
    }
    world.setTimeout(gathered, GATHER_MS).unref()
  }

  #unwatchLater(): void {
    const unwatch = (): void => {
      this.#unwatching = undefined
      this.#unwatch?.()
      this.#unwatch = undefined
    }
    this.#unwatching ??= world.setTimeout(unwatch, UNWATCH_DELAY_MS).unref()
  }
}

function occurred(event: NewEvent): LoggedEvent {
  return { id: newEventId(), at: world.now(), ...event }
}

/** An id for an event that has none. */
export function newEventId(): string {
  return `evt_${world.randomBytes(16).toString('base64url')}`
}

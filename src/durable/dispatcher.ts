/**
 * Makes the attempts of an outbox: calls a sink for each message, and decides what follows. Each queue has a lane, which
 * starts attempts in the order of its messages. A message that fails is attempted again on its own, so it does not hold
 * up those behind it, within a window.
 *
 *   waiting -- due, and below all limits --> sending -- done ----------------------> delivered
 *      ^                                        |------ never ---------------------> refused, a dead letter
 *      |                                        |------ not to be sent ------------> dropped
 *      `-- later: back-off, or as requested ----'------ the next one is too late --> abandoned, a dead letter
 */
import { world } from '../core/world.ts'
import { background, type Log } from '../core/log.ts'
import { type Backoff, delayBefore } from '../core/time/backoff.ts'
import { MAX_TIMER_MS, within } from '../core/time/waiting.ts'

/** How many messages of a queue are considered at once: so many may wait for another attempt. */
const WINDOW_MESSAGES = 32
/** When a lane continues after the store failed, or a message could not be sent yet, in milliseconds. */
const POSTPONED_MS = 5000
/** How long attempts in flight may take when the dispatcher closes, in milliseconds. */
const DRAIN_MS = 500

/** A message, and the state of its delivery. Times are in milliseconds since 1970. */
export interface Delivery {
  /** The same for all attempts; unique in its queue. */
  readonly id: string
  /** The number of attempts. */
  readonly attempts: number
  /** When the first attempt began; absent before. */
  readonly firstAt?: number
  /** No attempt is made before. */
  readonly notBefore: number
}

/** An attempt that failed, and when the next one is made. */
export interface FailedAttempt extends Delivery {
  readonly firstAt: number
  readonly failure: string
}

/** What came of an attempt. */
export type Sent =
  | { readonly kind: 'done' }
  /** It may succeed later. With `afterMs` nothing at all is sent from this queue for that time. */
  | { readonly kind: 'later'; readonly failure: string; readonly afterMs?: number }
  /** It will not succeed: the message becomes a dead letter. */
  | { readonly kind: 'never'; readonly failure: string }
  /** Nothing was sent, and the message never will be: it is settled without a dead letter. */
  | { readonly kind: 'dropped'; readonly reason: string }
  /** Nothing was sent, because something is not known at present: this was no attempt. */
  | { readonly kind: 'postponed' }

/** How a delivery ended. `refused` by the sink, `abandoned` after too long: these become dead letters. */
export type Settlement = { readonly at: number } & (
  | { readonly kind: 'delivered' }
  | { readonly kind: 'refused' | 'abandoned'; readonly failure: string }
  | { readonly kind: 'dropped'; readonly reason: string }
)

/**
 * When failed messages are sent again. The longest delay is also that of those that the sink asks for, and how far ahead the
 * next attempt can be: where it is later, the clock was set back.
 */
export interface RetrySchedule extends Omit<Backoff, 'jitter'> {
  /** A message is abandoned if the next attempt would be later than this after the first one, in milliseconds. */
  readonly giveUpMs: number
}

/** What follows an attempt. `pausedUntil`: when the sink wants the next message of any kind. */
export type AttemptDecision =
  | { readonly kind: 'delivered' }
  | { readonly kind: 'refused' | 'abandoned'; readonly failure: string }
  | { readonly kind: 'retry'; readonly at: number; readonly failure: string; readonly pausedUntil?: number }

/** An attempt that ended. Times are in milliseconds since 1970. */
export interface Attempt {
  /** The number of attempts, with this one, and the time of the first one. */
  readonly attempts: number
  readonly firstAt: number
  readonly now: number
  /** From 0 to 1. */
  readonly random: number
}

/** Decides what follows an attempt. Half of a delay is fixed: what failed together is not sent again together, nor at once. */
export function decisionOn(
  sent: Extract<Sent, { kind: 'done' | 'later' | 'never' }>,
  { attempts, firstAt, now, random }: Attempt,
  schedule: RetrySchedule,
): AttemptDecision {
  if (sent.kind === 'done') return { kind: 'delivered' }
  const { failure } = sent
  if (sent.kind === 'never') return { kind: 'refused', failure }
  const delay = delayBefore(attempts - 1, schedule) * (0.5 + random / 2)
  const requested = Math.min(sent.afterMs ?? 0, schedule.maxMs)
  const at = Math.round(now + Math.max(delay, requested))
  if (at > firstAt + schedule.giveUpMs) return { kind: 'abandoned', failure }
  return { kind: 'retry', at, failure, ...(requested > 0 && { pausedUntil: now + requested }) }
}

/** A bound that queues share by its key: how many messages may be in flight. */
export type Limit = readonly [key: string, max: number]

/** The queues of a dispatcher, by id. */
export interface Queues {
  /** The bounds on a queue; undefined if nothing of it may be sent at present. */
  limits(queue: string): readonly Limit[] | undefined
  /** The oldest messages that are not settled, oldest first. @throws if the store cannot be read */
  open(queue: string, limit: number): Promise<readonly Delivery[]>
  /** Makes an attempt. The signal ends it. @throws if the store cannot be used */
  send(queue: string, delivery: Delivery, signal: AbortSignal): Promise<Sent>
  /** Records a failed attempt, which is followed by another one. */
  retry(queue: string, failed: FailedAttempt): void
  /** Ends a delivery. */
  settle(queue: string, delivery: Delivery, settlement: Settlement): void
}

/** The time, and timers; `after` returns what cancels the timer. */
export interface Clock {
  now(): number
  after(milliseconds: number, run: () => void): () => void
}

/** The clock of the system. */
export const systemClock: Clock = {
  now: () => world.now(),
  after: (milliseconds, run) => {
    const timer = world.setTimeout(run, milliseconds).unref()
    return () => world.clearTimeout(timer)
  },
}

/** How a dispatcher works. */
export interface Dispatching {
  readonly schedule: RetrySchedule
  readonly clock: Clock
  /** From 0 to 1, for the jitter of back-off. */
  random(): number
  readonly log: Log
}

/** The state of one queue with messages. */
interface Lane {
  readonly queue: string
  /** The ids of messages in flight. */
  readonly inFlight: Set<string>
  /** Whether it starts attempts now, and whether it changed meanwhile. */
  isBusy: boolean
  isChanged: boolean
  /** Nothing is sent before: the sink asked for a pause, or the store failed. */
  pausedUntil: number
  cancelTimer?: (() => void) | undefined
}

/** Sends the messages of queues until it is closed. */
export class Dispatcher {
  readonly #queues: Queues
  readonly #options: Dispatching
  readonly #lanes = new Map<string, Lane>()
  readonly #slots = new Slots()
  readonly #running = new Set<Promise<void>>()
  /** Whether no attempt begins any more, and what ends those in flight. */
  #isClosing = false
  readonly #closing = new AbortController()

  constructor(queues: Queues, options: Dispatching) {
    this.#queues = queues
    this.#options = options
  }

  /** Starts what is due of a queue that has a new message, or is active again. */
  wake(queue: string): void {
    if (this.#isClosing) return
    let lane = this.#lanes.get(queue)
    if (!lane) {
      lane = { queue, inFlight: new Set(), isBusy: false, isChanged: false, pausedUntil: 0 }
      this.#lanes.set(queue, lane)
    }
    lane.isChanged = true
    if (!lane.isBusy) this.#run(this.#start(lane))
  }

  /** Ends the attempts in flight after a moment; what is not settled stays in its queue. */
  async close(): Promise<void> {
    this.#isClosing = true
    for (const lane of this.#lanes.values()) lane.cancelTimer?.()
    await within(Promise.allSettled(this.#running), DRAIN_MS, undefined)
    this.#closing.abort()
    while (this.#running.size > 0) await Promise.allSettled(this.#running)
    this.#lanes.clear()
  }

  #run(work: Promise<void>): void {
    const running = work.finally(() => this.#running.delete(running))
    this.#running.add(running)
    background(running, this.#options.log)
  }

  /** Starts every attempt of a lane that is due, and a timer for the next one. */
  async #start(lane: Lane): Promise<void> {
    lane.isBusy = true
    try {
      while (lane.isChanged && !this.#isClosing) {
        lane.isChanged = false
        lane.cancelTimer?.()
        await this.#startDue(lane)
      }
    } catch (error) {
      this.#wakeAt(lane, this.#options.clock.now() + POSTPONED_MS)
      throw error
    } finally {
      lane.isBusy = false
    }
  }

  async #startDue(lane: Lane): Promise<void> {
    const { queue, inFlight } = lane
    const limits = this.#queues.limits(queue)
    const open = limits ? await this.#queues.open(queue, WINDOW_MESSAGES) : []
    if (!limits || open.length === 0) {
      if (inFlight.size === 0 && !lane.isChanged) this.#lanes.delete(queue)
      return
    }
    const waiting = open.filter(({ id }) => !inFlight.has(id))
    const { clock, schedule } = this.#options
    const now = clock.now()
    const latest = now + Math.max(schedule.maxMs, POSTPONED_MS)
    const dueAt = ({ notBefore }: Delivery): number => {
      const at = Math.max(notBefore, lane.pausedUntil)
      // No delay is that long: the clock was set back.
      return at > latest ? now : at
    }
    for (const delivery of waiting) {
      if (dueAt(delivery) > now) continue
      if (!this.#slots.take(limits, queue)) break
      inFlight.add(delivery.id)
      this.#run(this.#attempt(lane, delivery, limits))
    }
    const later = waiting.map(dueAt).filter((at) => at > now)
    if (later.length > 0) this.#wakeAt(lane, Math.min(...later))
  }

  #wakeAt(lane: Lane, at: number): void {
    if (this.#isClosing) return
    const { clock } = this.#options
    const delay = Math.min(Math.max(at - clock.now(), 0), MAX_TIMER_MS)
    lane.cancelTimer?.()
    lane.cancelTimer = clock.after(delay, () => this.wake(lane.queue))
  }

  async #attempt(lane: Lane, delivery: Delivery, limits: readonly Limit[]): Promise<void> {
    try {
      await this.#send(lane, delivery)
    } catch (error) {
      // A failed store: the message is attempted again, not at once.
      this.#pause(lane, this.#options.clock.now() + POSTPONED_MS)
      throw error
    } finally {
      lane.inFlight.delete(delivery.id)
      // This lane comes last, so that the slot goes to another one that waits for it.
      const waiting = this.#slots.free(limits).filter((each) => each !== lane.queue)
      for (const each of new Set([...waiting, lane.queue])) this.wake(each)
    }
  }

  async #send(lane: Lane, delivery: Delivery): Promise<void> {
    const { clock, random, schedule } = this.#options
    const { queue } = lane
    const { signal } = this.#closing
    const firstAt = delivery.firstAt ?? clock.now()
    const sent = await this.#queues.send(queue, delivery, signal)
    const now = clock.now()
    if (sent.kind === 'postponed') return this.#pause(lane, now + POSTPONED_MS)
    if (sent.kind === 'dropped') return this.#queues.settle(queue, delivery, { ...sent, at: now })
    // The end of this process is no failure of the sink.
    if (sent.kind === 'later' && signal.aborted) return
    const begun = { ...delivery, attempts: delivery.attempts + 1, firstAt }
    const decision = decisionOn(sent, { ...begun, now, random: random() }, schedule)
    if (decision.kind !== 'retry') return this.#queues.settle(queue, delivery, { ...decision, at: now })
    this.#pause(lane, decision.pausedUntil ?? 0)
    this.#queues.retry(queue, { ...begun, notBefore: decision.at, failure: decision.failure })
  }

  #pause(lane: Lane, until: number): void {
    lane.pausedUntil = Math.max(lane.pausedUntil, until)
  }
}

/** Counts the messages in flight by the limits that they share, and knows which lanes wait for a slot. */
class Slots {
  readonly #taken = new Map<string, number>()
  readonly #waiting = new Map<string, Set<string>>()

  /** Takes a slot for a message of a lane; false if there is none, and then the lane waits for one. */
  take(limits: readonly Limit[], lane: string): boolean {
    const full = limits.find(([key, max]) => (this.#taken.get(key) ?? 0) >= max)
    if (full) {
      const [key] = full
      this.#waiting.set(key, (this.#waiting.get(key) ?? new Set()).add(lane))
      return false
    }
    for (const [key] of limits) this.#taken.set(key, (this.#taken.get(key) ?? 0) + 1)
    return true
  }

  /** Returns a slot; the lanes that waited for one try again. */
  free(limits: readonly Limit[]): readonly string[] {
    return limits.flatMap(([key]) => {
      const taken = (this.#taken.get(key) ?? 1) - 1
      if (taken > 0) this.#taken.set(key, taken)
      else this.#taken.delete(key)
      const lanes = [...(this.#waiting.get(key) ?? [])]
      this.#waiting.delete(key)
      return lanes
    })
  }
}

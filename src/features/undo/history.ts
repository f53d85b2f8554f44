/**
 * The history of actions outside of transactions. Actions are written in batches, after their callers have their responses:
 * the history is not guaranteed. A process that is killed loses only the last batch; steps of transactions are recorded
 * elsewhere.
 */
import type { Log } from '../../core/log.ts'
import { within } from '../../core/time/waiting.ts'
import { type Timer, world } from '../../core/world.ts'
import { WrittenRecords } from '../../durable/bounds.ts'
import {
  type Action,
  type Actions,
  encodeAction,
  type EncodedAction,
  type LeftState,
} from '../../records/actions.ts'

/** How long actions are collected, and how long closing waits for writes, in milliseconds. */
const FLUSH_DELAY_MS = 50
export const CLOSE_TIMEOUT_MS = 2000
/** How many actions may wait to be written, and their total length as text: a store may be slow. */
const MAX_QUEUED = { count: 2000, size: 64 * 1024 * 1024 }
/** How many actions of a caller each gateway keeps, and their total length as text. */
const MAX_PER_CALLER = { keys: 10_000, bytes: 64 * 1024 * 1024 }
/** How many actions of all callers. */
const MAX_IN_ALL = { keys: 200_000, bytes: Infinity }
/** How often expired entries are removed from the count, in milliseconds. */
const SWEEP_INTERVAL_MS = 60_000

interface QueuedAction extends EncodedAction {
  readonly caller: string
  readonly upstream: string
}

/** Records actions outside of transactions. */
export class History {
  readonly #actions: Actions
  readonly #log: Log
  readonly #written: WrittenRecords
  #queue: QueuedAction[] = []
  /** The total length as text of all entries that are not written yet. */
  #size = 0
  #timer: Timer | undefined
  #writing: Promise<void> | undefined
  #sweptAt = 0
  /** Whether the last actions were lost. */
  #isLosing = false

  constructor(actions: Actions, log: Log, written = new WrittenRecords(MAX_IN_ALL, MAX_PER_CALLER)) {
    this.#actions = actions
    this.#log = log
    this.#written = written
  }

  /** Adds an action; it is written within a moment, if the store accepts it. */
  add(action: Action, ttl: number): void {
    const { key, principal, upstream } = action
    const text = encodeAction(action)
    if (this.#queue.length >= MAX_QUEUED.count || this.#size + text.length > MAX_QUEUED.size)
      return this.#reportLoss(upstream, 'the store does not keep up')
    this.#queue.push({ key, caller: principal.id, upstream, text, ttl })
    this.#size += text.length
    this.#timer ??= world.setTimeout(() => void this.flush(), FLUSH_DELAY_MS).unref()
  }

  /** Adds the state that an action left to its record, which is written before. */
  async addLeft({ key, principal }: Action, left: LeftState, ttl: number): Promise<void> {
    await this.flush()
    const length = await this.#actions.recordLeft(key, left, ttl)
    if (length === 0) return
    const evicted = this.#written.replace(principal.id, key, length, world.now() + ttl)
    await Promise.allSettled(evicted.map((each) => this.#actions.remove(each)))
  }

  /** Resolves once all added actions are written, or failed to be. */
  async flush(): Promise<void> {
    world.clearTimeout(this.#timer)
    this.#timer = undefined
    // One batch after the other: what a later one evicts has been written by then.
    while (this.#writing) await this.#writing
    if (this.#queue.length === 0) return
    const batch = this.#queue
    this.#queue = []
    this.#writing = this.#write(batch).finally(() => {
      this.#writing = undefined
    })
    await this.#writing
  }

  /** The same, with a timeout. */
  async close(): Promise<void> {
    await within(this.flush(), CLOSE_TIMEOUT_MS, undefined)
  }

  async #write(batch: readonly QueuedAction[]): Promise<void> {
    const now = world.now()
    const evicted = batch.flatMap(({ caller, key, text, ttl }) =>
      this.#written.replace(caller, key, text.length, now + ttl),
    )
    try {
      await this.#actions.putAll(batch, evicted)
      this.#isLosing = false
    } catch (error) {
      // What was written or not removed after all expires eventually.
      for (const { caller, key } of batch) this.#written.delete(caller, key)
      this.#reportLoss(batch[0]?.upstream, String(error))
    }
    for (const { text } of batch) this.#size -= text.length
    this.#sweep(now)
  }

  #sweep(now: number): void {
    if (now - this.#sweptAt < SWEEP_INTERVAL_MS) return
    this.#sweptAt = now
    this.#written.dropExpired(now)
  }

  /** The history is not guaranteed, but operators should learn why it is incomplete. */
  #reportLoss(upstream: string | undefined, reason: string): void {
    if (!this.#isLosing) this.#log.warn('undo.history_lost', { upstream, reason })
    this.#isLosing = true
  }
}

/** The history of actions outside of transactions: written in batches, bounded for each caller. */
import { type Timer, world } from '../../core/world.ts'
import type { Log } from '../../core/log.ts'
import { within } from '../../core/time/waiting.ts'
import { type Action, type Actions, encodeAction, oldestKeyAt } from '../../records/actions.ts'

// Bounds the history. An entry beyond the limit evicts the oldest entries of its caller; if all callers together have too
// many, those of the caller that was inactive for longest. Invariant: evicted entries are no longer counted, so they have
// to be removed from the store.

/** A limit on the number of entries, and on their total length as text. */
interface Limit {
  readonly count: number
  readonly size: number
}

interface CallerHistory {
  /** The length of each entry by its key, the oldest first. */
  readonly sizes: Map<string, number>
  size: number
}

/** Tracks the entries of each caller. */
export class HistoryQuota {
  readonly #each: Limit
  readonly #all: number
  /** The caller that was inactive for longest first. */
  readonly #callers = new Map<string, CallerHistory>()
  #count = 0

  /** `each` limits one caller, `all` the number of entries of all callers. */
  constructor(each: Limit, all: number) {
    this.#each = each
    this.#all = all
  }

  /** Adds an entry of a caller. Returns the keys of evicted entries. */
  add(caller: string, key: string, size: number): readonly string[] {
    const history = this.#callers.get(caller) ?? { sizes: new Map<string, number>(), size: 0 }
    this.#callers.delete(caller)
    this.#callers.set(caller, history)
    history.size += size - (history.sizes.get(key) ?? 0)
    if (!history.sizes.delete(key)) this.#count++
    history.sizes.set(key, size)
    const evicted: string[] = []
    while (
      history.sizes.size > 1 &&
      (history.sizes.size > this.#each.count || history.size > this.#each.size)
    )
      evicted.push(...this.#evict(caller, history))
    while (this.#count > this.#all) {
      const [idleCaller] = this.#callers
      if (!idleCaller) break
      evicted.push(...this.#evict(...idleCaller))
    }
    return evicted
  }

  /** Stops counting entries before `key`, of any caller: they have expired. Keys sort by time. */
  dropBefore(key: string): void {
    for (const [caller, history] of this.#callers) {
      for (const first of history.sizes.keys()) {
        if (first >= key) break
        this.#evict(caller, history)
      }
    }
  }

  #evict(caller: string, history: CallerHistory): readonly string[] {
    const [oldest] = history.sizes
    if (!oldest) return []
    const [key, size] = oldest
    history.sizes.delete(key)
    history.size -= size
    this.#count--
    if (history.sizes.size === 0) this.#callers.delete(caller)
    return [key]
  }
}

// The history of actions outside of transactions. Actions are written in batches, after their callers have their responses:
// the history is not guaranteed. A process that is killed loses only the last batch; steps of transactions are recorded
// elsewhere.

/** How long actions are collected, and how long closing waits for writes, in milliseconds. */
const FLUSH_DELAY_MS = 50
const CLOSE_TIMEOUT_MS = 2000
/** How many actions may wait to be written, and their total length as text: a store may be slow. */
const MAX_QUEUED = { count: 2000, size: 64 * 1024 * 1024 }
/** How many actions of a caller each gateway keeps, and their total length as text. */
const MAX_PER_CALLER = { count: 10_000, size: 64 * 1024 * 1024 }
/** How many actions of all callers. */
const MAX_ENTRIES = 200_000
/** How often expired entries are removed from the count, in milliseconds. */
const SWEEP_INTERVAL_MS = 60_000

interface QueuedAction {
  readonly key: string
  readonly caller: string
  readonly upstream: string
  readonly text: string
  /** How long it is kept, in milliseconds. */
  readonly ttl: number
}

/** Records actions outside of transactions. */
export class History {
  readonly #actions: Actions
  readonly #log: Log
  readonly #quota: HistoryQuota
  #queue: QueuedAction[] = []
  /** The total length as text of all entries that are not written yet. */
  #size = 0
  /** The longest TTL of an entry, in milliseconds. */
  #longestTtl = 0
  #timer: Timer | undefined
  #writing: Promise<void> | undefined
  #sweptAt = 0
  /** Whether the last actions were lost. */
  #isLosing = false

  constructor(
    actions: Actions,
    log: Log,
    quota: HistoryQuota = new HistoryQuota(MAX_PER_CALLER, MAX_ENTRIES),
  ) {
    this.#actions = actions
    this.#log = log
    this.#quota = quota
  }

  /** Adds an action; it is written within a moment, if the store accepts it. */
  add(action: Action, ttl: number): void {
    const { key, principal, upstream } = action
    const text = encodeAction(action)
    if (this.#queue.length >= MAX_QUEUED.count || this.#size + text.length > MAX_QUEUED.size)
      return this.#reportLoss(upstream, 'the store does not keep up')
    this.#queue.push({ key, caller: principal.id, upstream, text, ttl })
    this.#size += text.length
    this.#longestTtl = Math.max(this.#longestTtl, ttl)
    this.#timer ??= world.setTimeout(() => void this.flush(), FLUSH_DELAY_MS).unref()
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
    const evicted = await Promise.all(
      batch.map(async ({ key, caller, upstream, text, ttl }) => {
        try {
          await this.#actions.write(key, text, ttl)
          this.#isLosing = false
          return this.#quota.add(caller, key, text.length)
        } catch (error) {
          this.#reportLoss(upstream, String(error))
          return []
        } finally {
          this.#size -= text.length
        }
      }),
    )
    // An entry that cannot be removed expires eventually.
    await Promise.allSettled(evicted.flat().map((key) => this.#actions.remove(key)))
    this.#sweep()
  }

  #sweep(): void {
    const now = world.now()
    if (now - this.#sweptAt < SWEEP_INTERVAL_MS) return
    this.#sweptAt = now
    this.#quota.dropBefore(oldestKeyAt(now - this.#longestTtl))
  }

  /** The history is not guaranteed, but operators should learn why it is incomplete. */
  #reportLoss(upstream: string, reason: string): void {
    if (!this.#isLosing) this.#log.warn('undo.history_lost', { upstream, reason })
    this.#isLosing = true
  }
}

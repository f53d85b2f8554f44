/** The history of actions outside of transactions: written in batches, bounded for each caller. */
import type { Log } from '../../core/log.ts'
import { within } from '../../core/time/waiting.ts'
import { type Action, type Actions, encodeAction, oldestKeyAt } from '../../records/actions.ts'

// How much of what a caller did is kept. What does not fit any more pushes out what is oldest, of the caller itself; and
// where all callers together have too much, of the one that did nothing for longest. Invariant: what is said to be
// pushed out is not counted any more, so it has to be removed from the store.

/** How much may be kept: how many things, and how long they may be together as text. */
interface Limit {
  readonly count: number
  readonly size: number
}

interface Held {
  /** The length of each by its key, the oldest first. */
  readonly sizes: Map<string, number>
  size: number
}

/** Counts what is kept, by caller. */
export class HistoryQuota {
  readonly #each: Limit
  readonly #all: number
  /** The caller that did nothing for longest first. */
  readonly #callers = new Map<string, Held>()
  #count = 0

  /** `each` bounds one caller, `all` how many things there are of all callers. */
  constructor(each: Limit, all: number) {
    this.#each = each
    this.#all = all
  }

  /** Takes in a thing of a caller. Returns the keys of what has to go for it. */
  take(caller: string, key: string, size: number): readonly string[] {
    const held = this.#callers.get(caller) ?? { sizes: new Map<string, number>(), size: 0 }
    this.#callers.delete(caller)
    this.#callers.set(caller, held)
    held.size += size - (held.sizes.get(key) ?? 0)
    if (!held.sizes.delete(key)) this.#count++
    held.sizes.set(key, size)
    const gone: string[] = []
    while (held.sizes.size > 1 && (held.sizes.size > this.#each.count || held.size > this.#each.size))
      gone.push(...this.#pushOut(caller, held))
    while (this.#count > this.#all) {
      const [longest] = this.#callers
      if (!longest) break
      gone.push(...this.#pushOut(...longest))
    }
    return gone
  }

  /** Does not count those before `key` any more, of any caller: their time is over. Keys sort by time. */
  forgetBefore(key: string): void {
    for (const [caller, held] of this.#callers) {
      for (const first of held.sizes.keys()) {
        if (first >= key) break
        this.#pushOut(caller, held)
      }
    }
  }

  #pushOut(caller: string, held: Held): readonly string[] {
    const [oldest] = held.sizes
    if (!oldest) return []
    const [key, size] = oldest
    held.sizes.delete(key)
    held.size -= size
    this.#count--
    if (held.sizes.size === 0) this.#callers.delete(caller)
    return [key]
  }
}

// The history of what was done outside of transactions. What is done within a moment is written together, after its
// callers have their answers: nothing was promised of the history. So a process that is killed loses the last moment of
// it, and nothing else; the steps of transactions do not come here.

/** For how long deeds are gathered, and how long writing them is waited for at the end, in milliseconds. */
const FLUSH_DELAY_MS = 50
const CLOSE_TIMEOUT_MS = 2000
/** How many deeds may wait to be written, and how long they may be together as text: a store may be slow. */
const MAX_WAITING = { count: 2000, size: 64 * 1024 * 1024 }
/** How many deeds of a caller are kept within the history, by each gateway, and how long they may be together as text. */
const MAX_PER_CALLER = { count: 10_000, size: 64 * 1024 * 1024 }
/** How many of all callers. */
const MAX_ENTRIES = 200_000
/** How often what is over is not counted any more, in milliseconds. */
const SWEEP_INTERVAL_MS = 60_000

interface Waiting {
  readonly key: string
  readonly caller: string
  readonly upstream: string
  readonly text: string
  /** For how long it is kept, in milliseconds. */
  readonly ttl: number
}

/** Keeps what was done. */
export class History {
  readonly #deeds: Actions
  readonly #log: Log
  readonly #room: HistoryQuota
  #waiting: Waiting[] = []
  /** How long all that is not written yet is as text: what waits, and what is being written. */
  #size = 0
  /** The longest time a deed is kept, in milliseconds. */
  #longest = 0
  #timer: NodeJS.Timeout | undefined
  #writing: Promise<void> | undefined
  #sweptAt = 0
  /** Whether what was done last is not on record. */
  #isLosing = false

  constructor(deeds: Actions, log: Log, room: HistoryQuota = new HistoryQuota(MAX_PER_CALLER, MAX_ENTRIES)) {
    this.#deeds = deeds
    this.#log = log
    this.#room = room
  }

  /** Takes in what was done; it is on record within a moment, as far as the store takes it. */
  add(deed: Action, ttl: number): void {
    const { key, principal, upstream } = deed
    const text = encodeAction(deed)
    if (this.#waiting.length >= MAX_WAITING.count || this.#size + text.length > MAX_WAITING.size)
      return this.#lost(upstream, 'the store does not keep up')
    this.#waiting.push({ key, caller: principal.id, upstream, text, ttl })
    this.#size += text.length
    this.#longest = Math.max(this.#longest, ttl)
    this.#timer ??= setTimeout(() => void this.flush(), FLUSH_DELAY_MS).unref()
  }

  /** Resolves once all that was taken in is written, or could not be. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    // One write after the other: what a later one pushes out is there by then.
    while (this.#writing) await this.#writing
    if (this.#waiting.length === 0) return
    const batch = this.#waiting
    this.#waiting = []
    this.#writing = this.#write(batch).finally(() => {
      this.#writing = undefined
    })
    await this.#writing
  }

  /** The same, for no longer than a moment. */
  async close(): Promise<void> {
    await within(this.flush(), CLOSE_TIMEOUT_MS, undefined)
  }

  async #write(batch: readonly Waiting[]): Promise<void> {
    const gone = await Promise.all(
      batch.map(async ({ key, caller, upstream, text, ttl }) => {
        try {
          await this.#deeds.write(key, text, ttl)
          this.#isLosing = false
          return this.#room.take(caller, key, text.length)
        } catch (error) {
          this.#lost(upstream, String(error))
          return []
        } finally {
          this.#size -= text.length
        }
      }),
    )
    // An entry that cannot be removed expires by itself.
    await Promise.allSettled(gone.flat().map((key) => this.#deeds.remove(key)))
    this.#sweep()
  }

  #sweep(): void {
    const now = Date.now()
    if (now - this.#sweptAt < SWEEP_INTERVAL_MS) return
    this.#sweptAt = now
    this.#room.forgetBefore(oldestKeyAt(now - this.#longest))
  }

  /** Nothing was promised of the history, but who looks for it should learn why it is not whole. */
  #lost(upstream: string, reason: string): void {
    if (!this.#isLosing) this.#log.warn('undo.history_lost', { upstream, reason })
    this.#isLosing = true
  }
}

/**
 * Follows the log of a server for all subscriptions that this process delivers: what was appended is read once, and kept
 * for a while, so that the number of subscriptions does not multiply the reads of the store. A subscription that is
 * further behind reads the log itself.
 */
import { asGatewayError } from '../../../core/error.ts'
import type { Log } from '../../../core/log.ts'
import { pause } from '../../../core/time/waiting.ts'
import type { LogPage } from '../../../durable/log.ts'
import type { ServerEvents } from '../server-events.ts'

/** How many events are kept at least, if there are as many, and how many are read at once. */
const MAX_KEPT_EVENTS = 1000
const PAGE_EVENTS = 500
/** The pause after the store failed, in milliseconds. */
const RETRY_MS = 1000

/** What a feed follows. */
type Source = Pick<ServerEvents, 'log' | 'changed' | 'retain'>

/** The end of a log. */
class LogFeed {
  readonly #source: Source
  readonly #log: Log
  readonly #onChange: () => void
  /** The position before the kept events, which come in order; undefined until the log was read. */
  #start: string | undefined
  #kept: LogPage['entries'][number][] = []
  /** How many events there were up to a position, and before the kept ones. */
  readonly #counts = new Map<string, number>()
  #dropped = 0

  /** `onChange` is called when there are more events. */
  constructor(source: Source, log: Log, onChange: () => void) {
    this.#source = source
    this.#log = log
    this.#onChange = onChange
  }

  /** Follows the log until the signal is aborted. Never rejects. */
  async run(signal: AbortSignal): Promise<void> {
    let hasFailed = false
    while (!signal.aborted) {
      // Events that are appended while the log is read must not be missed.
      const changed = this.#source.changed(signal)
      try {
        // Subscriptions may last longer than events are kept for others.
        await this.#source.retain()
        const isFirst = this.#start === undefined
        if (isFirst) this.#begin(await this.#source.log.end())
        // Who read the log before its end was known has not seen what was appended in between.
        if ((await this.#readMore()) || isFirst) this.#onChange()
        hasFailed = false
      } catch (error) {
        if (!hasFailed) this.#log.warn('events.not_read', { reason: asGatewayError(error).message })
        hasFailed = true
        await pause(RETRY_MS, signal).catch(() => undefined)
        continue
      }
      await changed
    }
  }

  /** At most `limit` events after a position, like those of the log. @throws SERVER_UNAVAILABLE */
  async read(after: string, limit: number): Promise<LogPage> {
    const count = after === this.#start ? this.#dropped : this.#counts.get(after)
    if (count === undefined) return this.#source.log.read(after, limit)
    const index = count - this.#dropped
    const entries = this.#kept.slice(index, index + limit)
    const hasMore = index + entries.length < this.#kept.length
    return { entries, start: after, cursor: entries.at(-1)?.cursor ?? after, isGap: false, hasMore }
  }

  /** Whether no event follows a position, as far as this process knows. */
  isEnd(position: string): boolean {
    return position === (this.#kept.at(-1)?.cursor ?? this.#start)
  }

  #begin(position: string): void {
    this.#start = position
    this.#kept = []
    this.#counts.clear()
    this.#dropped = 0
  }

  /** Reads what was appended; resolves with whether there was anything. */
  async #readMore(): Promise<boolean> {
    const position = this.#kept.at(-1)?.cursor ?? this.#start
    const page = await this.#source.log.read(position, PAGE_EVENTS)
    if (page.isGap) this.#begin(page.start)
    if (page.entries.length === 0) {
      // Numbers without events were skipped.
      if (page.cursor !== position) this.#begin(page.cursor)
      return page.isGap
    }
    for (const entry of page.entries) {
      this.#kept.push(entry)
      this.#counts.set(entry.cursor, this.#dropped + this.#kept.length)
    }
    if (this.#kept.length > 2 * MAX_KEPT_EVENTS) this.#drop(this.#kept.length - MAX_KEPT_EVENTS)
    if (page.hasMore) {
      this.#onChange()
      await this.#readMore()
    }
    return true
  }

  #drop(count: number): void {
    const dropped = this.#kept.splice(0, count)
    for (const { cursor } of dropped) this.#counts.delete(cursor)
    this.#start = dropped.at(-1)?.cursor
    this.#dropped += count
  }
}

/** The ends of the logs that this process delivers from, by server. */
export class LogFeeds {
  readonly #running = new Map<
    string | undefined,
    { readonly feed: LogFeed; readonly controller: AbortController }
  >()
  readonly #sourceOf: (upstream: string | undefined) => Source
  readonly #log: Log
  readonly #onChange: (upstream: string | undefined) => void

  /** `onChange` is called when there are more events of a server. */
  constructor(
    sourceOf: (upstream: string | undefined) => Source,
    log: Log,
    onChange: (upstream: string | undefined) => void,
  ) {
    this.#sourceOf = sourceOf
    this.#log = log
    this.#onChange = onChange
  }

  /** The end of the log of a server, which is followed from now on. */
  of(upstream: string | undefined): LogFeed {
    const known = this.#running.get(upstream)
    if (known) return known.feed
    const controller = new AbortController()
    const feed = new LogFeed(this.#sourceOf(upstream), this.#log, () => this.#onChange(upstream))
    this.#running.set(upstream, { feed, controller })
    void feed.run(controller.signal)
    return feed
  }

  /** Stops following the logs of all other servers. */
  endAllBut(needed: ReadonlySet<string | undefined>): void {
    for (const [upstream, { controller }] of this.#running) {
      if (needed.has(upstream)) continue
      controller.abort()
      this.#running.delete(upstream)
    }
  }
}

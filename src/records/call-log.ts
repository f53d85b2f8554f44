/**
 * The log of calls in the store: what happened, for people. Gateways append to it behind the answers; pages and commands
 * search it. It is bounded, the oldest calls go first. Beside it, arguments and results are kept in a log of their own,
 * where the owner turns that on: they are larger, and kept for a shorter time.
 */
import { isObject, readJson } from '../core/json/json.ts'
import type { Log } from '../core/log.ts'
import { callEnds, type LoggedCall } from '../core/logged-call.ts'
import { type Timer, world } from '../core/world.ts'
import { AppendLog } from '../durable/log.ts'
import type { Store } from '../store/store.ts'
import type { CallQuery } from './call-query.ts'

/** How much is kept of calls, and for how long in milliseconds. */
export interface CallLogBounds {
  readonly maxCalls: number
  readonly ttl: number
  /** Of arguments and results: their size in bytes. */
  readonly maxContentBytes: number
  readonly contentTtl: number
}

/** The arguments and the result of a call as JSON, without secrets; what is too long ends early. */
export interface CallContent {
  readonly arguments?: string | undefined
  readonly result?: string | undefined
}

/** A call, and its place in the log. */
interface FoundCall {
  readonly call: LoggedCall
  /** Where a search for older calls continues. */
  readonly cursor: string
}

/** The calls in the log, newest first. */
export interface FoundCalls {
  readonly calls: readonly FoundCall[]
  /** Where the next page begins; undefined if no more calls match. */
  readonly next?: string
}

// The names of the logs in the store, with the version of their entries.
const CALLS = 'calls 1'
const CONTENTS = 'call contents 1'

/** A call and what is in its log line take about 300 bytes; this is what the calls take at most. */
const MAX_BYTES_PER_CALL = 1024
/** Calls are appended as they end, in several gateways: one that ended earlier may follow within this time, in milliseconds. */
const DISORDER_MS = 60_000

/** The log of calls of a store. */
export class CallLog {
  readonly #calls: AppendLog
  readonly #contents: AppendLog

  constructor(store: Store, { maxCalls, ttl, maxContentBytes, contentTtl }: CallLogBounds = readingBounds) {
    this.#calls = new AppendLog(store, CALLS, {
      maxEntries: maxCalls,
      maxBytes: maxCalls * MAX_BYTES_PER_CALL,
      ttl,
    })
    this.#contents = new AppendLog(store, CONTENTS, {
      maxEntries: maxCalls,
      maxBytes: maxContentBytes,
      ttl: contentTtl,
    })
  }

  /** Appends calls in the order in which they ended. @throws SERVER_UNAVAILABLE */
  async append(calls: readonly LoggedCall[]): Promise<void> {
    await this.#calls.append(calls)
  }

  /** Keeps arguments and results of calls. @throws SERVER_UNAVAILABLE */
  async keep(contents: readonly (CallContent & Pick<LoggedCall, 'id' | 'who'>)[]): Promise<void> {
    if (contents.length > 0) await this.#contents.append(contents)
  }

  /** The calls that match, newest first, from a cursor on. @throws SERVER_UNAVAILABLE */
  async search(query: CallQuery, limit: number, before?: string): Promise<FoundCalls> {
    const calls: FoundCall[] = []
    const least = (query.since ?? 0) - DISORDER_MS
    const select = (text: string): boolean | 'end' => (timeOf(text) < least ? 'end' : query.mayHave(text))
    for await (const batch of this.#calls.backwards(before, select)) {
      for (const { text, cursor } of batch) {
        if (!query.matches(text)) continue
        const call = asCall(readJson(text))
        if (!call) continue
        if (calls.length === limit) return { calls, next: calls.at(-1)?.cursor ?? cursor }
        calls.push({ call, cursor })
      }
    }
    return { calls }
  }

  /** A call by its request id. @throws SERVER_UNAVAILABLE */
  async find(id: string): Promise<LoggedCall | undefined> {
    for await (const { text } of this.#texts(this.#calls, id)) {
      const call = asCall(readJson(text))
      if (call?.id === id) return call
    }
    return undefined
  }

  /** What is kept of the arguments and the result of a call; empty if nothing is. @throws SERVER_UNAVAILABLE */
  async contentOf(id: string): Promise<CallContent> {
    for await (const { text } of this.#texts(this.#contents, id)) {
      const value = readJson(text)
      if (!isObject(value) || value.id !== id) continue
      const { arguments: given, result } = value
      return {
        ...(typeof given === 'string' && { arguments: given }),
        ...(typeof result === 'string' && { result }),
      }
    }
    return {}
  }

  /** The position after the last call: `after` reads what follows it. @throws SERVER_UNAVAILABLE */
  end(): Promise<string> {
    return this.#calls.end()
  }

  /** At most `limit` calls that were logged after a position, oldest first, and the next position. @throws SERVER_UNAVAILABLE */
  async after(
    cursor: string,
    limit: number,
  ): Promise<{ readonly calls: readonly LoggedCall[]; readonly cursor: string }> {
    const page = await this.#calls.read(cursor, limit)
    return { calls: page.entries.flatMap(({ value }) => asCall(value) ?? []), cursor: page.cursor }
  }

  async *#texts(log: AppendLog, id: string): AsyncGenerator<{ readonly text: string }> {
    const written = `"id":${JSON.stringify(id)}`
    for await (const batch of log.backwards(undefined, (text) => text.includes(written)))
      yield* batch.filter(({ text }) => text.includes(written))
  }
}

/** Those of a log that is only read. */
const readingBounds: CallLogBounds = { maxCalls: 1, ttl: 1, maxContentBytes: 1, contentTtl: 1 }

/** When the first entry of a text ended, in milliseconds since 1970: `at` is its first member. */
export function timeOf(text: string): number {
  const start = text.indexOf(TIME)
  return start === -1
    ? Number.NaN
    : Number.parseInt(text.slice(start + TIME.length, start + TIME.length + 16), 10)
}
const TIME = '{"at":'

const ends = new Set<unknown>(callEnds)

/** A call from the log; undefined if another program wrote it. */
function asCall(value: unknown): LoggedCall | undefined {
  if (!isObject(value)) return undefined
  const { at, ms, end, id, who, method } = value
  const isCall =
    typeof at === 'number' &&
    typeof ms === 'number' &&
    ends.has(end) &&
    [id, who, method].every((text) => typeof text === 'string')
  // Its optional members are read where they are shown, as what others wrote.
  return isCall ? (value as unknown as LoggedCall) : undefined
}

// Gateways write behind the answers.

/** How long a call waits to be written, and how long after a failure, in milliseconds. */
const WRITE_DELAY_MS = 250
const RETRY_DELAY_MS = 2000
/** How many calls wait for a store that does not answer. */
const MAX_WAITING_CALLS = 10_000

/** A call that is to be logged, and what is kept of its arguments and result. */
interface Written {
  readonly call: LoggedCall
  readonly content?: CallContent | undefined
}

/** Writes calls to the log in batches. If the store is away for long, the oldest are dropped, and that is logged. */
export class CallLogWriter {
  readonly #log: () => CallLog | undefined
  readonly #reports: Log
  #waiting: Written[] = []
  #dropped = 0
  #timer: Timer | undefined
  #writing: Promise<void> | undefined

  /** `log` returns the log of the present store. */
  constructor(log: () => CallLog | undefined, reports: Log) {
    this.#log = log
    this.#reports = reports
  }

  add(call: LoggedCall, content?: CallContent): void {
    if (this.#waiting.length >= MAX_WAITING_CALLS) {
      this.#waiting.shift()
      this.#dropped++
    }
    this.#waiting.push({ call, content })
    this.#schedule(WRITE_DELAY_MS)
  }

  /** Writes what waits, once. */
  async close(): Promise<void> {
    world.clearTimeout(this.#timer)
    await this.#writing
    await this.#write()
    world.clearTimeout(this.#timer)
  }

  #schedule(delay: number): void {
    this.#timer ??= world
      .setTimeout(() => {
        this.#timer = undefined
        this.#writing ??= this.#write().finally(() => {
          this.#writing = undefined
        })
      }, delay)
      .unref()
  }

  async #write(): Promise<void> {
    const batch = this.#waiting.splice(0)
    const log = this.#log()
    if (!log || batch.length === 0) return
    try {
      const contents = batch.flatMap(({ call: { id, who }, content }) =>
        content ? [{ id, who, ...content }] : [],
      )
      // Whoever finds a call finds what is kept of it. More than may be kept at all costs that alone.
      await log.keep(contents).catch((error: unknown) => {
        if (!(error instanceof RangeError)) throw error
        this.#reports.debug('calls.failed', { reason: String(error) })
      })
      await log.append(batch.map(({ call }) => call))
      if (this.#dropped > 0) this.#reports.warn('calls.dropped', { count: this.#dropped })
      this.#dropped = 0
    } catch (error) {
      this.#dropped += Math.max(0, batch.length + this.#waiting.length - MAX_WAITING_CALLS)
      this.#waiting = [...batch, ...this.#waiting].slice(-MAX_WAITING_CALLS)
      this.#reports.debug('calls.failed', { reason: String(error) })
    }
    if (this.#waiting.length > 0) this.#schedule(RETRY_DELAY_MS)
  }
}

/**
 * How many calls there were, how they ended, and how long they took: a summary of each minute in the store, for plots of
 * hours and days, for which the log of calls does not reach back. Each gateway adds summaries of its own.
 */
import { isObject, readJson } from '../core/json/json.ts'
import type { LoggedCall } from '../core/logged-call.ts'
import { AppendLog } from '../durable/log.ts'
import type { Store } from '../store/store.ts'
import { timeOf } from './call-log.ts'

/** The upper bounds of durations, in milliseconds; the last bucket has none. */
const durationBounds = [
  1, 2.5, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10_000, 30_000, 60_000,
] as const

/** The calls of a period, or of one server in it. Field names are persisted and do not change. */
export interface CallSums {
  readonly calls: number
  readonly failed: number
  readonly denied: number
  /** How many calls took how long, by `durationBounds`. */
  readonly took: readonly number[]
}

/** The sums of one period, by server. */
export interface Period {
  /** Its beginning, in milliseconds since 1970. */
  readonly at: number
  readonly servers: Readonly<Record<string, CallSums>>
}

/** The length of a summary, in milliseconds. */
export const MINUTE_MS = 60_000
const DAY_MS = 24 * 60 * MINUTE_MS
/** A week, and what of a day is shown before it. */
const TTL_MS = 8 * DAY_MS
/** Eight days of a fleet of ten. */
const BOUNDS = { maxEntries: 8 * 24 * 60 * 10, maxBytes: 32 * 1024 * 1024, ttl: TTL_MS }
/** How many servers a summary distinguishes; the others share one name. */
const MAX_SERVERS = 200
const OTHERS = 'other servers'
/** The calls that the gateway answers itself. */
const OWN = 'gateway'

/** The sums that are being made of the present minute, and those in the store. */
export class CallRates {
  readonly #log: AppendLog
  #at = 0
  #servers = new Map<string, MutableSums>()

  constructor(store: Store) {
    this.#log = new AppendLog(store, 'call rates 1', BOUNDS)
  }

  /** Counts a call. Returns the summary of an earlier minute, if this call begins another one. */
  count({ at, ms, end, server = OWN }: Pick<LoggedCall, 'at' | 'ms' | 'end' | 'server'>): Period | undefined {
    const minute = at - (at % MINUTE_MS)
    const before = minute > this.#at ? this.take() : undefined
    this.#at = Math.max(this.#at, minute)
    const key = this.#servers.has(server) || this.#servers.size < MAX_SERVERS ? server : OTHERS
    const sums = this.#servers.get(key) ?? newSums()
    this.#servers.set(key, sums)
    sums.calls++
    if (end === 'failed' || end === 'denied') sums[end]++
    const bucket = bucketOf(ms)
    sums.took[bucket] = (sums.took[bucket] ?? 0) + 1
    return before
  }

  /** The present minute, so far. */
  get present(): Period {
    return { at: this.#at, servers: Object.fromEntries(this.#servers) }
  }

  /** Ends the present minute; undefined if nothing was called in it. */
  take(): Period | undefined {
    if (this.#servers.size === 0) return undefined
    const { present } = this
    this.#servers = new Map()
    return present
  }

  /** Adds a summary to the store. @throws SERVER_UNAVAILABLE */
  async append(period: Period): Promise<void> {
    await this.#log.append([period])
  }

  /** The summaries since a time, with those of the present minute of this gateway, in no particular order. @throws SERVER_UNAVAILABLE */
  async since(at: number): Promise<readonly Period[]> {
    const found: Period[] = []
    // Of gateways whose clocks differ, an earlier minute may follow a later one.
    const select = (text: string): boolean | 'end' => (timeOf(text) < at - 10 * MINUTE_MS ? 'end' : true)
    for await (const batch of this.#log.backwards(undefined, select)) {
      for (const { text } of batch) {
        const period = asPeriod(readJson(text))
        if (period && period.at >= at) found.push(period)
      }
    }
    return [...found, this.present]
  }
}

type MutableSums = { -readonly [Key in keyof CallSums]: Key extends 'took' ? number[] : number }

function newSums(): MutableSums {
  return { calls: 0, failed: 0, denied: 0, took: durationBounds.map(() => 0).concat(0) }
}

function bucketOf(ms: number): number {
  const found = durationBounds.findIndex((bound) => ms <= bound)
  return found === -1 ? durationBounds.length : found
}

function asPeriod(value: unknown): Period | undefined {
  if (!isObject(value) || typeof value.at !== 'number' || !isObject(value.servers)) return undefined
  const servers = Object.entries(value.servers).flatMap(([name, each]) => {
    const sums = asSums(each)
    return sums ? [[name, sums] as const] : []
  })
  return { at: value.at, servers: Object.fromEntries(servers) }
}

function asSums(value: unknown): CallSums | undefined {
  if (!isObject(value) || !Array.isArray(value.took)) return undefined
  const [calls, failed, denied] = [value.calls, value.failed, value.denied].map(Number)
  const took = value.took.map(Number)
  const isSums = [calls, failed, denied, ...took].every((each) => Number.isFinite(each))
  return isSums ? { calls: calls ?? 0, failed: failed ?? 0, denied: denied ?? 0, took } : undefined
}

/** The sums of several servers or periods. */
export function sumOf(all: readonly CallSums[]): CallSums {
  const total = newSums()
  for (const { calls, failed, denied, took } of all) {
    total.calls += calls
    total.failed += failed
    total.denied += denied
    for (const [index, count] of took.entries()) total.took[index] = (total.took[index] ?? 0) + count
  }
  return total
}

/** The sums of equal parts of a time, oldest first; `server` is that of one server. */
export function seriesOf(
  periods: readonly Period[],
  {
    from,
    until,
    parts,
    server,
  }: {
    readonly from: number
    readonly until: number
    readonly parts: number
    readonly server?: string | undefined
  },
): readonly CallSums[] {
  const length = (until - from) / parts
  const found = Array.from({ length: parts }, (): CallSums[] => [])
  for (const { at, servers } of periods) {
    const part = found[Math.floor((at - from) / length)]
    if (server === undefined) part?.push(...Object.values(servers))
    else if (servers[server]) part?.push(servers[server])
  }
  return found.map(sumOf)
}

/** A duration that a share of the calls did not exceed, in milliseconds, by the bounds; undefined without calls. */
export function quantile({ took }: CallSums, share: number): number | undefined {
  const total = took.reduce((sum, count) => sum + count, 0)
  if (total === 0) return undefined
  let before = 0
  for (const [index, count] of took.entries()) {
    if (before + count >= share * total) {
      const low = index === 0 ? 0 : (durationBounds[index - 1] ?? 0)
      const high = durationBounds[index] ?? low * 2
      return low + (high - low) * ((share * total - before) / count)
    }
    before += count
  }
  return undefined
}

/** Counters and histograms of calls, for Prometheus. The number of label values is limited. */
import type { Target } from '../core/call.ts'
import { oneLine } from '../core/text/escape.ts'

/** Metrics in the text format of Prometheus. */
export interface Exposition {
  text(): Promise<string>
  /** Its media type. */
  readonly type: string
}

/** The durations of one set of labels. */
interface Duration {
  observe(seconds: number): void
}

/** The counts of each bucket, the last one without an upper bound, and the sum of durations. */
class Counts implements Duration {
  readonly #bounds: readonly number[]
  readonly #counts: Float64Array
  #sum = 0

  constructor(bounds: readonly number[]) {
    this.#bounds = bounds
    this.#counts = new Float64Array(bounds.length + 1)
  }

  observe(seconds: number): void {
    let at = 0
    while (at < this.#bounds.length && seconds > (this.#bounds[at] ?? 0)) at++
    this.#counts[at] = (this.#counts[at] ?? 0) + 1
    this.#sum += seconds
  }

  /** The lines for this set of labels. */
  lines(name: string, labels: string): string[] {
    const prefix = labels === '' ? '' : `${labels},`
    let total = 0
    const buckets = [...this.#counts].map((count, at) => {
      total += count
      return `${name}_bucket{${prefix}le="${this.#bounds[at] ?? '+Inf'}"} ${total}`
    })
    return [...buckets, `${name}_sum{${labels}} ${this.#sum}`, `${name}_count{${labels}} ${total}`]
  }
}

interface DurationsOptions {
  readonly name: string
  readonly help: string
  readonly labels: readonly string[]
  /** The upper bounds in seconds, ascending. */
  readonly bounds: readonly number[]
}

/**
 * A histogram of durations in the text format of Prometheus. It is on the hot path of every call: the library takes a
 * hundred times as long to look up labels.
 */
class Durations {
  readonly #options: DurationsOptions
  readonly #sets = new Map<string, Counts>()

  constructor(options: DurationsOptions) {
    this.#options = options
  }

  /** The durations for these label values. */
  with(...values: readonly string[]): Duration {
    const pairs = this.#options.labels.map((label, at) => `${label}="${escaped(values[at] ?? '')}"`)
    const labels = pairs.join(',')
    const found = this.#sets.get(labels) ?? new Counts(this.#options.bounds)
    this.#sets.set(labels, found)
    return found
  }

  get text(): string {
    const { name, help } = this.#options
    const sets = [...this.#sets].flatMap(([labels, counts]) => counts.lines(name, labels))
    return [`# HELP ${name} ${help}`, `# TYPE ${name} histogram`, ...sets, ''].join('\n')
  }
}

/** Prometheus text format: backslashes, quotes and line feeds of label values are escaped. */
function escaped(value: string): string {
  return value
    .replaceAll('\\', String.raw`\\`)
    .replaceAll('"', String.raw`\"`)
    .replaceAll('\n', String.raw`\n`)
}

/** Values that are read when the metrics are requested. */
export interface Levels {
  readonly upstreams: readonly {
    readonly name: string
    /** Undefined before the first attempt. */
    readonly isUp: boolean | undefined
    readonly connections: number
    /** How many of its calls wait for input of their caller. */
    readonly parked: number
  }[]
  readonly sessions: number
  /** How many operations this process runs, by state. */
  readonly operations: Readonly<Record<string, number>>
}

/** Counts the calls of one target. */
export interface Meter {
  /** `isListed` returns whether the server lists the tool; called only if no call of that name has succeeded. */
  count(outcome: string, seconds: number | undefined, isListed: () => boolean): void
}

interface Options {
  /** Whether a method is known; unknown ones share one label value. */
  isMethod(name: string): boolean
  /** Whether an outcome is known. */
  isOutcome(outcome: string): boolean
  levels(): Levels
  /** The number of calls that wait for approval; undefined if the store cannot be read. */
  pendingApprovals(): Promise<number | undefined>
  /** The number of events that were given up; undefined if the store cannot be read, or there are no events. */
  deadLetters(): Promise<number | undefined>
  /** Kept data by kind; undefined if the store cannot be read, or nothing is kept. */
  references(): Promise<ReferenceLevels | undefined>
}

/** How much data is kept, by kind: the count, and the size in bytes. */
export type ReferenceLevels = Readonly<Record<string, { readonly count: number; readonly bytes: number }>>

/** How many tools of one server have their own label value; the others share one. */
const MAX_TOOL_LABELS = 500
const OTHER = 'other'
const CALL_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]
const LAG_SECONDS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600]
const STORE_SECONDS = [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5]

/** All metrics, for Prometheus. */
export class Metrics {
  readonly #options: Options
  readonly #series = new Map<string, Series>()
  readonly #tools = new Map<string, Set<string>>()
  readonly #operations = new Map<string, Duration>()
  readonly #duration = new Durations({
    name: 'gatehouse_call_duration_seconds',
    help: 'Duration of calls.',
    labels: ['method', 'upstream', 'tool'],
    bounds: CALL_SECONDS,
  })
  readonly #authFailures = new Map<string, number>()
  readonly #rateLimited = new Map<string, number>()
  readonly #deliveries = new Map<string, number>()
  readonly #references = new Map<string, number>()
  readonly #lag = new Durations({
    name: 'gatehouse_event_lag_seconds',
    help: 'Time from an event until a webhook receiver accepted it.',
    labels: [],
    bounds: LAG_SECONDS,
  })
  readonly #store = new Durations({
    name: 'gatehouse_store_seconds',
    help: 'Duration of store operations.',
    labels: ['operation'],
    bounds: STORE_SECONDS,
  })

  #exposition: Promise<Exposition> | undefined

  constructor(options: Options) {
    this.#options = options
  }

  /** All metrics in the text format, and its media type. */
  async page(): Promise<{ readonly text: string; readonly type: string }> {
    // The library, with its process metrics, is loaded at the first request.
    this.#exposition ??= import('./exposition.ts').then(({ expose }) =>
      expose({
        calls: this.#series,
        authFailures: this.#authFailures,
        rateLimited: this.#rateLimited,
        deliveries: this.#deliveries,
        referenced: this.#references,
        references: () => this.#options.references(),
        levels: () => this.#options.levels(),
        pendingApprovals: () => this.#options.pendingApprovals(),
        deadLetters: () => this.#options.deadLetters(),
      }),
    )
    const { text, type } = await this.#exposition
    const lag = this.#deliveries.size > 0 ? this.#lag.text : ''
    return { text: (await text()) + this.#duration.text + this.#store.text + lag, type }
  }

  /** Counts the calls of a target. */
  meter(target: Target): Meter {
    const { upstream = '', name } = target
    const method = this.#options.isMethod(target.method) ? target.method : OTHER
    const tool = target.method === 'tools/call' ? (name ?? OTHER) : undefined
    const find = (label: string): Series => this.#find([method, upstream, label])
    let series: Series | undefined
    return {
      count: (outcome, seconds, isListed) => {
        if (tool === undefined) series ??= find('')
        else if (!series && (this.#isKnown(upstream, tool) || outcome === 'ok' || isListed()))
          series = find(this.#learn(upstream, tool))
        const meant = series ?? find(OTHER)
        meant.outcome(this.#options.isOutcome(outcome) ? outcome : OTHER).count++
        if (seconds !== undefined) meant.duration.observe(seconds)
      },
    }
  }

  refused(code: string): void {
    count(this.#authFailures, code)
  }

  rateLimited(upstream: string): void {
    count(this.#rateLimited, upstream)
  }

  /** Counts an attempt to deliver an event, and how long after the event it was accepted. */
  delivered(outcome: string, lagSeconds?: number): void {
    count(this.#deliveries, outcome)
    if (lagSeconds !== undefined) this.#lag.with().observe(lagSeconds)
  }

  /** Counts references by outcome. */
  referenced(outcome: string, by = 1): void {
    count(this.#references, outcome, by)
  }

  /** Records the duration of a store operation. */
  stored(operation: string, seconds: number): void {
    const found = this.#operations.get(operation) ?? this.#store.with(operation)
    this.#operations.set(operation, found)
    found.observe(seconds)
  }

  #isKnown(upstream: string, tool: string): boolean {
    return this.#tools.get(upstream)?.has(tool) === true
  }

  /** The label value of a tool. */
  #learn(upstream: string, tool: string): string {
    const tools = this.#tools.get(upstream) ?? new Set()
    this.#tools.set(upstream, tools)
    if (!tools.has(tool) && tools.size >= MAX_TOOL_LABELS) return OTHER
    tools.add(tool)
    return tool
  }

  #find(given: readonly [method: string, upstream: string, tool: string]): Series {
    const key = given.join(' ')
    const found = this.#series.get(key)
    if (found) return found
    const [method, upstream, tool] = given
    // Names come from servers, and the page may be shown in a terminal.
    const labels = [method, upstream, oneLine(tool)] as const
    const outcomes = new Map<string, Tally>()
    const series: Series = {
      labels,
      outcomes,
      duration: this.#duration.with(...labels),
      outcome: (outcome) => {
        const known = outcomes.get(outcome)
        if (known) return known
        const tally = { count: 0 }
        outcomes.set(outcome, tally)
        return tally
      },
    }
    this.#series.set(key, series)
    return series
  }
}

function count(counts: Map<string, number>, label: string, by = 1): void {
  counts.set(label, (counts.get(label) ?? 0) + by)
}

/** The counters for one set of labels. */
export interface Series {
  readonly labels: readonly [method: string, upstream: string, tool: string]
  readonly outcomes: ReadonlyMap<string, Tally>
  readonly duration: Duration
  outcome(outcome: string): Tally
}

interface Tally {
  count: number
}

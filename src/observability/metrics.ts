/** Counters and histograms of calls, for Prometheus. The number of label values is limited. */
import type { Target } from '../core/call.ts'
import type { Exposition, MetricSources, Series, Tally } from './exposition.ts'
import { oneLine } from '../core/text/escape.ts'
import { type Duration, Durations } from './histogram.ts'
import { KnownNames, McpMetrics } from './operations.ts'
import { type OtherWorkers, type Snapshot, summed, workersText } from './worker-metrics.ts'

/** Counts the calls of one target. */
export interface Meter {
  /** `isListed` returns whether the server lists the tool; called only if no call of that name has succeeded. */
  count(outcome: string, seconds: number | undefined, isListed: () => boolean): void
}

/** What metrics are read from, and which labels they may have. */
export interface ObservedGateway extends MetricSources {
  /** Whether a method is known; unknown ones share one label value. */
  isMethod(name: string): boolean
  /** Whether an outcome is known. */
  isOutcome(outcome: string): boolean
  /** The workers that are one gateway with this one. */
  readonly workers?: OtherWorkers | undefined
}

/** How many tools of one server have their own label value; the others share one. */
const MAX_TOOL_LABELS = 500
const OTHER = 'other'
const CALL_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]
const LAG_SECONDS = [0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600]
const STORE_SECONDS = [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5]

/** All metrics, for Prometheus. */
export class Metrics {
  /** Those of the MCP semantic conventions of OpenTelemetry. */
  readonly mcp: McpMetrics
  readonly #gateway: ObservedGateway
  readonly #series = new Map<string, Series>()
  readonly #tools = new KnownNames(MAX_TOOL_LABELS)
  readonly #operations = new Map<string, Duration>()
  readonly #duration = new Durations({
    name: 'gatehouse_call_duration_seconds',
    help: 'Duration of calls.',
    labels: ['method', 'upstream', 'tool'],
    bounds: CALL_SECONDS,
  })
  readonly #counts = {
    authFailures: new Map<string, number>(),
    rateLimited: new Map<string, number>(),
    deliveries: new Map<string, number>(),
    referenced: new Map<string, number>(),
    notified: new Map<string, number>(),
    forwarded: new Map<string, number>(),
    moved: new Map<string, number>(),
  }
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
  /** What is collected from all workers now, for all who request it. */
  #collecting: Promise<string> | undefined

  constructor(gateway: ObservedGateway) {
    this.#gateway = gateway
    this.mcp = new McpMetrics((name) => gateway.isMethod(name))
    gateway.workers?.answerWith(() => this.#snapshot())
  }

  /** All metrics in the text format, and its media type: those of all workers, whichever is asked. */
  async page(): Promise<{ readonly text: string; readonly type: string }> {
    const { text, type } = await this.#exposed()
    const { workers } = this.#gateway
    if (!workers) return { text: (await text()) + this.#histograms, type }
    this.#collecting ??= this.#ofAll(workers).finally(() => {
      this.#collecting = undefined
    })
    return { text: await this.#collecting, type }
  }

  async #ofAll(workers: OtherWorkers): Promise<string> {
    const own = await this.#snapshot()
    const collected = await workers.collect(own)
    const all = [own, ...collected.answers]
    const { combined } = await this.#exposed()
    const levels = await combined(all.map((each) => each.levels))
    const sums = summed([...all.map((each) => each.sums), ...collected.past])
    return levels + sums + workersText(collected)
  }

  async #snapshot(): Promise<Snapshot> {
    const { snapshot } = await this.#exposed()
    const { sums, levels } = await snapshot()
    return { sums: sums + this.#histograms, levels }
  }

  /** The library, with its process metrics, is loaded at the first request. */
  #exposed(): Promise<Exposition> {
    this.#exposition ??= import('./exposition.ts').then(({ expose }) =>
      expose({ calls: this.#series, ...this.#counts }, this.#gateway),
    )
    return this.#exposition
  }

  /** The histograms in the text format. */
  get #histograms(): string {
    const lag = this.#counts.deliveries.size > 0 ? this.#lag.text : ''
    return this.mcp.text + this.#duration.text + this.#store.text + lag
  }

  /** Counts the calls of a target. */
  meter(target: Target): Meter {
    const { upstream = '', name } = target
    const method = this.#gateway.isMethod(target.method) ? target.method : OTHER
    const tool = target.method === 'tools/call' ? (name ?? OTHER) : undefined
    const find = (label: string): Series => this.#find([method, upstream, label])
    let series: Series | undefined
    return {
      count: (outcome, seconds, isListed) => {
        if (tool === undefined) series ??= find('')
        else if (!series && (this.#tools.has(upstream, tool) || outcome === 'ok' || isListed()))
          series = find(this.#tools.learn(upstream, tool) ? tool : OTHER)
        const meant = series ?? find(OTHER)
        meant.outcome(this.#gateway.isOutcome(outcome) ? outcome : OTHER).count++
        if (seconds !== undefined) meant.duration.observe(seconds)
      },
    }
  }

  refused(code: string): void {
    count(this.#counts.authFailures, code)
  }

  rateLimited(upstream: string): void {
    count(this.#counts.rateLimited, upstream)
  }

  /** Counts an attempt to deliver an event, and how long after the event it was accepted. */
  delivered(outcome: string, lagSeconds?: number): void {
    count(this.#counts.deliveries, outcome)
    if (lagSeconds !== undefined) this.#lag.with().observe(lagSeconds)
  }

  /** Counts messages to people by channel and outcome. */
  notified(channel: string, outcome: string): void {
    count(this.#counts.notified, `${channel} ${outcome}`)
  }

  /** Counts requests that another process of the fleet answers, by what became of them. */
  forwarded(outcome: string): void {
    count(this.#counts.forwarded, outcome)
  }

  /** Counts sessions that this process took over, or lost to another one. */
  sessionMoved(how: 'adopted' | 'fenced'): void {
    count(this.#counts.moved, how)
  }

  /** Counts references by outcome. */
  referenced(outcome: string, by = 1): void {
    count(this.#counts.referenced, outcome, by)
  }

  /** Records the duration of a store operation. */
  stored(operation: string, seconds: number): void {
    const found = this.#operations.get(operation) ?? this.#store.with(operation)
    this.#operations.set(operation, found)
    found.observe(seconds)
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

import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client'
import { self } from '../core/self.ts'
import type { Target } from '../core/target.ts'
import { type Duration, Durations } from './durations.ts'

/** What is counted only when somebody asks. */
export interface Levels {
  readonly upstreams: readonly {
    readonly name: string
    readonly isUp: boolean
    readonly connections: number
    /** How many of its calls wait for an answer of their caller. */
    readonly parked: number
  }[]
  readonly sessions: number
}

/** Counts the calls of one target. */
export interface Meter {
  /** `isListed` tells whether the server lists the tool; asked only where its name was never good for anything. */
  count(outcome: string, seconds: number, isListed: () => boolean): void
}

interface Options {
  /** Whether a method is one that is known; others are counted together. */
  isMethod(name: string): boolean
  /** Whether an outcome is one of those there are. */
  isOutcome(outcome: string): boolean
  levels(): Levels
}

/** How many tools of one server are counted apart; the rest together. */
const TOOLS = 500
const OTHER = 'other'
const CALL_SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300]
const STORE_SECONDS = [0.0001, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1, 5]

/** Everything that is counted, for Prometheus. */
export class Metrics {
  readonly #registry = new Registry()
  readonly #options: Options
  readonly #series = new Map<string, Series>()
  readonly #tools = new Map<string, Set<string>>()
  readonly #operations = new Map<string, Duration>()
  readonly #duration = new Durations({
    name: 'gatehouse_call_duration_seconds',
    help: 'How long calls took.',
    labels: ['method', 'upstream', 'tool'],
    bounds: CALL_SECONDS,
  })
  readonly #authFailures = this.#counter(
    'gatehouse_auth_failures_total',
    'Requests refused because of who made them, or because nobody said so.',
    ['reason'],
  )
  readonly #rateLimited = this.#counter('gatehouse_rate_limited_total', 'Calls refused by a rate or quota.', [
    'upstream',
  ])
  readonly #store = new Durations({
    name: 'gatehouse_store_seconds',
    help: 'How long the store took.',
    labels: ['operation'],
    bounds: STORE_SECONDS,
  })

  constructor(options: Options) {
    this.#options = options
    collectDefaultMetrics({ register: this.#registry })
    this.#createCalls()
    this.#createLevels()
    this.#gauge('gatehouse_build_info', 'The version that runs.', ['version', 'node']).set(
      { version: self.version, node: process.versions.node },
      1,
    )
  }

  get type(): string {
    return this.#registry.contentType
  }

  /** Everything as Prometheus reads it. */
  async text(): Promise<string> {
    return (await this.#registry.metrics()) + this.#duration.text + this.#store.text
  }

  /** Counts the calls of a target. */
  meter(target: Target): Meter {
    const { upstream = '', name } = target
    const method = this.#options.isMethod(target.method) ? target.method : OTHER
    const tool = target.method === 'tools/call' ? (name ?? OTHER) : undefined
    const find = (label: string): Series => this.#find([method, upstream, label])
    let series = tool === undefined ? find('') : undefined
    return {
      count: (outcome, seconds, isListed) => {
        if (
          !series &&
          tool !== undefined &&
          (this.#isKnown(upstream, tool) || outcome === 'ok' || isListed())
        )
          series = find(this.#learn(upstream, tool))
        const meant = series ?? find(OTHER)
        meant.outcome(this.#options.isOutcome(outcome) ? outcome : OTHER).count++
        meant.duration.observe(seconds)
      },
    }
  }

  refused(code: string): void {
    this.#authFailures.inc({ reason: code })
  }

  rateLimited(upstream: string): void {
    this.#rateLimited.inc({ upstream })
  }

  /** Takes the time an operation of the store took. */
  stored(operation: string, seconds: number): void {
    const found = this.#operations.get(operation) ?? this.#store.with(operation)
    this.#operations.set(operation, found)
    found.observe(seconds)
  }

  #isKnown(upstream: string, tool: string): boolean {
    return this.#tools.get(upstream)?.has(tool) === true
  }

  /** The name a tool is counted under. */
  #learn(upstream: string, tool: string): string {
    const tools = this.#tools.get(upstream) ?? new Set()
    this.#tools.set(upstream, tools)
    if (!tools.has(tool) && tools.size >= TOOLS) return OTHER
    tools.add(tool)
    return tool
  }

  #find(labels: readonly [method: string, upstream: string, tool: string]): Series {
    const key = labels.join(' ')
    const found = this.#series.get(key)
    if (found) return found
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

  /** Counts are kept here and told when somebody asks: that is rarer than calls. */
  #createCalls(): void {
    const calls = new Counter({
      name: 'gatehouse_calls_total',
      help: 'Calls by what they ended with.',
      labelNames: ['method', 'upstream', 'tool', 'outcome'],
      registers: [this.#registry],
      collect: () => {
        calls.reset()
        for (const { labels, outcomes } of this.#series.values())
          for (const [outcome, { count }] of outcomes) calls.labels(...labels, outcome).inc(count)
      },
    })
  }

  #createLevels(): void {
    const { levels } = this.#options
    const perUpstream = (
      name: string,
      help: string,
      value: (each: Levels['upstreams'][number]) => number,
    ): void => {
      const gauge = this.#gauge(name, help, ['upstream'], () => {
        gauge.reset()
        for (const each of levels().upstreams) gauge.set({ upstream: each.name }, value(each))
      })
    }
    perUpstream('gatehouse_upstream_up', 'Whether a server can be reached.', ({ isUp }) => (isUp ? 1 : 0))
    perUpstream('gatehouse_upstream_connections', 'Open connections to a server.', (each) => each.connections)
    const sessions = this.#gauge('gatehouse_sessions', 'Open sessions of clients.', [], () =>
      sessions.set(levels().sessions),
    )
    const parked = this.#gauge(
      'gatehouse_parked_calls',
      'Calls that wait for an answer of their caller.',
      [],
      () => parked.set(levels().upstreams.reduce((sum, each) => sum + each.parked, 0)),
    )
  }

  #counter(name: string, help: string, labelNames: string[]): Counter {
    return new Counter({ name, help, labelNames, registers: [this.#registry] })
  }

  #gauge(name: string, help: string, labelNames: string[], collect?: () => void): Gauge {
    return new Gauge({ name, help, labelNames, registers: [this.#registry], ...(collect && { collect }) })
  }
}

/** The counters of one set of labels. */
interface Series {
  readonly labels: readonly [method: string, upstream: string, tool: string]
  readonly outcomes: ReadonlyMap<string, Tally>
  readonly duration: Duration
  outcome(outcome: string): Tally
}

interface Tally {
  count: number
}

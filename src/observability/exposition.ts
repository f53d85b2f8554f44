/** The content of `/metrics`. prom-client is loaded at the first request. */
import {
  AggregatorRegistry,
  type Aggregator,
  collectDefaultMetrics,
  Counter,
  Gauge,
  Registry,
} from 'prom-client'
import { self } from '../core/identity.ts'
import { isObject } from '../core/json/json.ts'
import type { Duration } from './histogram.ts'
import type { Snapshot } from './worker-metrics.ts'

/** Metrics in the text format of Prometheus. */
export interface Exposition {
  text(): Promise<string>
  /** The same in the form in which those of several workers are combined. */
  snapshot(): Promise<Snapshot>
  /** The gauges of several workers as those of one gateway, in the text format. */
  combined(levels: readonly Snapshot['levels'][]): Promise<string>
  /** Its media type. */
  readonly type: string
}

/** Values that are read when the metrics are requested. */
export interface Levels {
  readonly upstreams: readonly {
    readonly name: string
    /** Undefined before the first attempt. */
    readonly isUp: boolean | undefined
    readonly connections: number
    /** How many of its calls wait for input of their caller. */
    readonly suspended: number
  }[]
  readonly sessions: number
  /** How many operations this process runs, by state. */
  readonly operations: Readonly<Record<string, number>>
  /** Whether writes are paused; undefined if that is not known, or they cannot be. */
  readonly isPaused?: boolean | undefined
}

/** How much data is kept, by kind: the count, and the size in bytes. */
export type ReferenceLevels = Readonly<Record<string, { readonly count: number; readonly bytes: number }>>

/** The counters for one set of labels. */
export interface Series {
  readonly labels: readonly [method: string, upstream: string, tool: string]
  readonly outcomes: ReadonlyMap<string, Tally>
  readonly duration: Duration
  outcome(outcome: string): Tally
}

export interface Tally {
  count: number
}

/** What is read when the metrics are requested. */
export interface MetricSources {
  levels(): Levels
  /** The number of calls that wait for approval; undefined if the store cannot be read. */
  pendingApprovals(): Promise<number | undefined>
  /** The number of events that were given up; undefined if the store cannot be read, or there are no events. */
  deadLetters(): Promise<number | undefined>
  /** Kept data by kind; undefined if the store cannot be read, or nothing is kept. */
  references(): Promise<ReferenceLevels | undefined>
}

/** The current counts. */
interface Counted {
  readonly calls: ReadonlyMap<string, Series>
  readonly authFailures: ReadonlyMap<string, number>
  readonly rateLimited: ReadonlyMap<string, number>
  /** Attempts to deliver events, by outcome. */
  readonly deliveries: ReadonlyMap<string, number>
  /** References by outcome. */
  readonly referenced: ReadonlyMap<string, number>
  /** Messages to people, by channel and outcome with a space between. */
  readonly notified: ReadonlyMap<string, number>
  /** Requests that another process answers, by outcome. */
  readonly forwarded: ReadonlyMap<string, number>
  /** Sessions that changed their process: `adopted` by this one, or lost by it (`fenced`). */
  readonly moved: ReadonlyMap<string, number>
}

/** Default gauges with names of counters, which `promtool check metrics` rejects. */
const misnamed = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
]

/** Renders the counts, and the metrics of the process. */
export function expose(counted: Counted, sources: MetricSources): Exposition {
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  for (const name of misnamed) registry.removeSingleMetric(name)

  const gauge = (
    name: string,
    help: string,
    labelNames: string[],
    collect: (gauge: Gauge) => void | Promise<void>,
  ): void => {
    const aggregator = aggregators[name] ?? 'sum'
    const made: Gauge = new Gauge({
      name,
      help,
      labelNames,
      registers,
      aggregator,
      collect: () => collect(made),
    })
  }
  /** A level that can be unknown. */
  const level = (name: string, help: string, read: () => Promise<number | undefined>): void =>
    gauge(name, help, [], async (made) => {
      const found = await read()
      if (found === undefined) made.remove()
      else made.set(found)
    })
  const perUpstream = (
    name: string,
    help: string,
    value: (each: Levels['upstreams'][number]) => number | undefined,
  ): void =>
    gauge(name, help, ['upstream'], (made) => {
      made.reset()
      for (const each of sources.levels().upstreams) {
        const found = value(each)
        if (found !== undefined) made.set({ upstream: each.name }, found)
      }
    })
  const counter = (
    name: string,
    help: string,
    labelNames: string[],
    counts: () => Iterable<readonly [labels: readonly string[], count: number]>,
  ): void => {
    const made: Counter = new Counter({
      name,
      help,
      labelNames,
      registers,
      collect: () => {
        made.reset()
        for (const [labels, count] of counts()) made.labels(...labels).inc(count)
      },
    })
  }
  const countBy = (label: string, name: string, help: string, counts: ReadonlyMap<string, number>): void =>
    counter(name, help, [label], () => [...counts].map(([value, count]) => [[value], count]))

  counter('gatehouse_calls_total', 'Calls by outcome.', ['method', 'upstream', 'tool', 'outcome'], () =>
    [...counted.calls.values()].flatMap(({ labels, outcomes }) =>
      [...outcomes].map(([outcome, { count }]) => [[...labels, outcome], count] as const),
    ),
  )
  const refused = 'Requests rejected because authentication or authorization failed.'
  countBy('reason', 'gatehouse_auth_failures_total', refused, counted.authFailures)
  const limited = 'Calls rejected by a rate limit or quota.'
  countBy('upstream', 'gatehouse_rate_limited_total', limited, counted.rateLimited)
  perUpstream('gatehouse_upstream_up', 'Whether a server is reachable.', ({ isUp }) =>
    isUp === undefined ? undefined : Number(isUp),
  )
  perUpstream('gatehouse_upstream_connections', 'Open connections to a server.', (each) => each.connections)
  gauge('gatehouse_sessions', 'Open client sessions.', [], (made) => made.set(sources.levels().sessions))
  gauge('gatehouse_parked_calls', 'Calls that wait for input of their caller.', [], (made) =>
    made.set(sources.levels().upstreams.reduce((sum, { suspended }) => sum + suspended, 0)),
  )
  gauge('gatehouse_operations', 'Operations that this process runs, by state.', ['state'], (made) => {
    made.reset()
    for (const [state, count] of Object.entries(sources.levels().operations)) made.set({ state }, count)
  })
  gauge('gatehouse_writes_paused', 'Whether an operator paused writes.', [], (made) => {
    const { isPaused } = sources.levels()
    if (isPaused === undefined) made.remove()
    else made.set(Number(isPaused))
  })
  const pending = 'Calls that wait for approval, in the shared store.'
  level('gatehouse_pending_approvals', pending, () => sources.pendingApprovals())
  const attempts = 'Attempts to deliver events by webhooks, by outcome.'
  countBy('outcome', 'gatehouse_event_deliveries_total', attempts, counted.deliveries)
  const given = 'Events that webhook receivers did not accept, in the shared store.'
  level('gatehouse_event_dead_letters', given, () => sources.deadLetters())
  countBy('outcome', 'gatehouse_references_total', 'References by outcome.', counted.referenced)
  const told = 'Messages to people about calls that wait for approval, by outcome.'
  counter('gatehouse_notifications_total', told, ['channel', 'outcome'], () =>
    [...counted.notified].map(([labels, count]) => [labels.split(' '), count]),
  )
  const forwards = 'Requests that were forwarded to the process that owns what they are about, by outcome.'
  countBy('outcome', 'gatehouse_fleet_forwards_total', forwards, counted.forwarded)
  const moved = (how: string) => (): readonly [readonly string[], number][] => [
    [[], counted.moved.get(how) ?? 0],
  ]
  const adoptions = 'Sessions that this process took over from one that ended.'
  counter('gatehouse_fleet_adoptions_total', adoptions, [], moved('adopted'))
  const fences = 'Sessions that another process took over while this one did not respond.'
  counter('gatehouse_fleet_fences_total', fences, [], moved('fenced'))
  // Both levels of one scrape come from one scan.
  let scan: ReturnType<MetricSources['references']> | undefined
  const referenceLevel = (name: string, help: string, field: 'count' | 'bytes'): void =>
    gauge(name, help, ['kind'], async (made) => {
      scan ??= sources.references().finally(() => {
        scan = undefined
      })
      const found = await scan
      made.reset()
      for (const [kind, of] of Object.entries(found ?? {})) made.set({ kind }, of[field])
    })
  referenceLevel('gatehouse_references', 'References in the shared store.', 'count')
  const size = 'Size of the data of references in the shared store.'
  referenceLevel('gatehouse_reference_bytes', size, 'bytes')
  gauge('gatehouse_build_info', 'The running version.', ['version', 'node'], (made) =>
    made.set({ version: self.version, node: process.versions.node }, 1),
  )
  return {
    text: () => registry.metrics(),
    snapshot: () => snapshotOf(registry),
    combined: (levels) => AggregatorRegistry.aggregate(levels.map((each) => [...each])).metrics(),
    type: registry.contentType,
  }
}

/** Gauges of several workers that are not summed: what all of them see in the store, and whether each of them reaches a server. */
const aggregators: Readonly<Record<string, Aggregator>> = {
  gatehouse_upstream_up: 'min',
  gatehouse_writes_paused: 'max',
  gatehouse_pending_approvals: 'max',
  gatehouse_event_dead_letters: 'max',
  gatehouse_references: 'max',
  gatehouse_reference_bytes: 'max',
  gatehouse_build_info: 'max',
}

async function snapshotOf(registry: Registry): Promise<Snapshot> {
  const metrics: readonly object[] = await registry.getMetricsAsJSON()
  const isLevel = (metric: object): boolean => 'type' in metric && metric.type === 'gauge'
  const sums = AggregatorRegistry.aggregate([metrics.filter((each) => !isLevel(each))])
  return { sums: await sums.metrics(), levels: metrics.filter(isLevel).map(transferable) }
}

/** A gauge without values that are no numbers, which JSON has no text for. The start is that of the worker that started first. */
function transferable(metric: object): object {
  const { values, aggregator, ...rest }: Readonly<Record<string, unknown>> = { ...metric }
  const isNumber = (each: unknown): boolean => isObject(each) && Number.isFinite(each.value)
  return {
    ...rest,
    aggregator: aggregator === 'omit' ? 'min' : aggregator,
    values: Array.isArray(values) ? values.filter(isNumber) : [],
  }
}

/** The content of `/metrics`. prom-client is loaded at the first request. */
import { collectDefaultMetrics, Counter, Gauge, Registry } from 'prom-client'
import { self } from '../core/identity.ts'
import type { Duration } from './histogram.ts'

/** Metrics in the text format of Prometheus. */
export interface Exposition {
  text(): Promise<string>
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

/** The current counts. */
interface Counted {
  readonly calls: ReadonlyMap<string, Series>
  readonly authFailures: ReadonlyMap<string, number>
  readonly rateLimited: ReadonlyMap<string, number>
  /** Attempts to deliver events, by outcome. */
  readonly deliveries: ReadonlyMap<string, number>
  /** References by outcome. */
  readonly referenced: ReadonlyMap<string, number>
  /** Kept data by kind; undefined if the store cannot be read, or nothing is kept. */
  references(): Promise<ReferenceLevels | undefined>
  levels(): Levels
  /** The number of calls that wait for approval; undefined if the store cannot be read. */
  pendingApprovals(): Promise<number | undefined>
  /** The number of events that were given up; undefined if that is not known. */
  deadLetters(): Promise<number | undefined>
}

/** Default gauges with names of counters, which `promtool check metrics` rejects. */
const misnamed = [
  'nodejs_active_handles_total',
  'nodejs_active_requests_total',
  'nodejs_active_resources_total',
]

type AddGauge = (
  name: string,
  help: string,
  labelNames: string[],
  collect: (gauge: Gauge) => void | Promise<void>,
) => void

type AddCounter = (name: string, help: string, labelNames: string[], fill: (to: Counter) => void) => void

function exposeReferences(
  { referenced, references }: Pick<Counted, 'referenced' | 'references'>,
  gauge: AddGauge,
  counter: AddCounter,
): void {
  counter('gatehouse_references_total', 'References by outcome.', ['outcome'], (made) => {
    for (const [outcome, count] of referenced) made.labels(outcome).inc(count)
  })
  // Both levels of one scrape come from one scan.
  let scan: ReturnType<typeof references> | undefined
  const levels = (): ReturnType<typeof references> => {
    scan ??= references().finally(() => {
      scan = undefined
    })
    return scan
  }
  const level = (name: string, help: string, field: 'count' | 'bytes'): void =>
    gauge(name, help, ['kind'], async (made) => {
      const found = await levels()
      made.reset()
      for (const [kind, of] of Object.entries(found ?? {})) made.set({ kind }, of[field])
    })
  level('gatehouse_references', 'References in the shared store.', 'count')
  level('gatehouse_reference_bytes', 'Size of the data of references in the shared store.', 'bytes')
}

/** Renders the counts, and the metrics of the process. */
export function expose(counted: Counted): Exposition {
  const { calls, authFailures, rateLimited, deliveries, levels, pendingApprovals, deadLetters } = counted
  const registry = new Registry()
  const registers = [registry]
  collectDefaultMetrics({ register: registry })
  for (const name of misnamed) registry.removeSingleMetric(name)

  const gauge: AddGauge = (name, help, labelNames, collect) => {
    const made: Gauge = new Gauge({ name, help, labelNames, registers, collect: () => collect(made) })
  }
  const counter: AddCounter = (name, help, labelNames, fill) => {
    const made: Counter = new Counter({
      name,
      help,
      labelNames,
      registers,
      collect: () => {
        made.reset()
        fill(made)
      },
    })
  }
  const perUpstream = (
    name: string,
    help: string,
    value: (each: Levels['upstreams'][number]) => number | undefined,
  ): void =>
    gauge(name, help, ['upstream'], (made) => {
      made.reset()
      for (const each of levels().upstreams) {
        const found = value(each)
        if (found !== undefined) made.set({ upstream: each.name }, found)
      }
    })

  const labels = ['method', 'upstream', 'tool', 'outcome']
  counter('gatehouse_calls_total', 'Calls by outcome.', labels, (made) => {
    for (const series of calls.values())
      for (const [outcome, { count }] of series.outcomes) made.labels(...series.labels, outcome).inc(count)
  })
  const refused = 'Requests rejected because authentication or authorization failed.'
  counter('gatehouse_auth_failures_total', refused, ['reason'], (made) => {
    for (const [reason, count] of authFailures) made.labels(reason).inc(count)
  })
  counter(
    'gatehouse_rate_limited_total',
    'Calls rejected by a rate limit or quota.',
    ['upstream'],
    (made) => {
      for (const [upstream, count] of rateLimited) made.labels(upstream).inc(count)
    },
  )
  perUpstream('gatehouse_upstream_up', 'Whether a server is reachable.', ({ isUp }) =>
    isUp === undefined ? undefined : Number(isUp),
  )
  perUpstream('gatehouse_upstream_connections', 'Open connections to a server.', (each) => each.connections)
  gauge('gatehouse_sessions', 'Open client sessions.', [], (made) => made.set(levels().sessions))
  gauge('gatehouse_parked_calls', 'Calls that wait for input of their caller.', [], (made) =>
    made.set(levels().upstreams.reduce((sum, { suspended }) => sum + suspended, 0)),
  )
  gauge('gatehouse_operations', 'Operations that this process runs, by state.', ['state'], (made) => {
    made.reset()
    for (const [state, count] of Object.entries(levels().operations)) made.set({ state }, count)
  })
  const pending = 'Calls that wait for approval, in the shared store.'
  gauge('gatehouse_pending_approvals', pending, [], async (made) => {
    const found = await pendingApprovals()
    if (found === undefined) made.remove()
    else made.set(found)
  })
  const attempts = 'Attempts to deliver events by webhooks, by outcome.'
  counter('gatehouse_event_deliveries_total', attempts, ['outcome'], (made) => {
    for (const [outcome, count] of deliveries) made.labels(outcome).inc(count)
  })
  const given = 'Events that webhook receivers did not accept, in the shared store.'
  gauge('gatehouse_event_dead_letters', given, [], async (made) => {
    const found = await deadLetters()
    if (found === undefined) made.remove()
    else made.set(found)
  })
  exposeReferences(counted, gauge, counter)
  gauge('gatehouse_build_info', 'The running version.', ['version', 'node'], (made) =>
    made.set({ version: self.version, node: process.versions.node }, 1),
  )
  return { text: () => registry.metrics(), type: registry.contentType }
}

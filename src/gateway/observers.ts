/** Connects metrics, tracing and the audit log to a gateway: values of gauges, timed store operations, peer addresses. */
import { world } from '../core/world.ts'
import type { MetricSources } from '../observability/exposition.ts'
import type { Call, Target } from '../core/call.ts'
import { errorCodes } from '../core/error.ts'
import type { Log } from '../core/log.ts'
import { checkOf } from '../observability/health.ts'
import type { Anchors } from '../observability/audit/anchor.ts'
import type { CallObserver } from '../observability/observe.ts'
import { Observing } from '../observability/observing.ts'
import type { Way } from '../observability/operations.ts'
import type { OtherWorkers } from '../observability/worker-metrics.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import type { Store } from '../store/store.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { isProtocolMethod } from '../protocol/methods.ts'

/** The current state of the gateway that is observed. */
interface View extends Omit<MetricSources, 'levels'> {
  readonly calls?: CallObserver
  upstreams(): ReadonlyMap<string, Upstream>
  /** Whether a feature answers a method. */
  isOwnMethod(name: string): boolean
  /** How many operations run, by state. */
  operations(): Readonly<Record<string, number>>
  /** The number of client sessions. */
  sessions(): number
  /** Whether writes are paused; undefined if that is not known, or they cannot be. */
  isPaused?(): boolean | undefined
  /** The store of audit log heads, in addition to the files. */
  anchors?(): Anchors | undefined
  readonly workers?: OtherWorkers | undefined
}

/** Creates the observers of the calls of a gateway. */
export function createObserving(log: Log, view: View): Observing {
  return new Observing({
    log,
    levels: () => ({
      upstreams: [...view.upstreams().values()].map(({ name, status, suspended }) => {
        return { name, suspended, connections: status.connections, isUp: isUp[checkOf(status)] }
      }),
      sessions: view.sessions(),
      operations: view.operations(),
      isPaused: view.isPaused?.(),
    }),
    pendingApprovals: () => view.pendingApprovals(),
    deadLetters: () => view.deadLetters(),
    references: () => view.references(),
    anchors: () => view.anchors?.(),
    ...(view.calls && { calls: view.calls }),
    workers: view.workers,
    isMethod: (name) => isProtocolMethod(name) || view.isOwnMethod(name),
    isOutcome: (outcome) => outcomes.has(outcome),
    isListed: (call, target) => isListed(view.upstreams().get(target.upstream ?? ''), call, target),
  })
}

/** Whether a server is reachable; undefined before the first attempt, for example if it requires users to sign in. */
const isUp = { ok: true, failing: false, starting: undefined } as const

const outcomes = new Set([...errorCodes, 'ok', 'tool_error', 'ask', 'dry_run'])

/** Whether the known tool list of the server contains the called tool. */
function isListed(upstream: Upstream | undefined, call: Call, target: Target): boolean {
  const { name } = target
  if (!upstream || name === undefined || upstream.status.connections === 0) return false
  const found = upstream.tool({ ...call, target, params: call.params.with({ name }) })
  if (!(found instanceof Promise)) return found !== undefined
  found.catch(() => undefined)
  return false
}

/** The transport and address of a server. */
export function wayTo({ reach }: UpstreamSettings): Way {
  if (reach.kind === 'command') return { transport: 'pipe' }
  const { hostname, port, protocol } = new URL(reach.url)
  const isSecure = protocol === 'https:'
  return {
    transport: 'tcp',
    address: hostname.replace(/^\[|\]$/g, ''),
    port: port === '' ? (isSecure ? 443 : 80) : Number(port),
    // Over TLS, the server chooses it.
    ...(!isSecure && { httpVersion: '1.1' }),
  }
}

/** Wraps a store so that each operation is timed. */
export function timed(store: Store, { metrics }: Observing): Store {
  const timing = <Result>(name: string, operation: () => Promise<Result>): Promise<Result> => {
    const start = world.monotonic()
    const end = (): void => metrics.stored(name, (world.monotonic() - start) / 1000)
    const result = operation()
    result.then(end, end)
    return result
  }
  return {
    get unavailableReason() {
      return store.unavailableReason
    },
    opened: async () => store.opened?.(),
    get: (key) => timing('get', () => store.get(key)),
    put: (key, value, ttl) => timing('put', () => store.put(key, value, ttl)),
    putAll: (values, removed) => timing('put_all', () => store.putAll(values, removed)),
    setIfAbsent: (key, value, ttl) => timing('claim', () => store.setIfAbsent(key, value, ttl)),
    compareAndSwap: (key, before, value, ttl) =>
      timing('swap', () => store.compareAndSwap(key, before, value, ttl)),
    compareAndDelete: (key, before) => timing('drop', () => store.compareAndDelete(key, before)),
    scan: (collection) => timing('scan', () => store.scan(collection)),
    delete: (key) => timing('delete', () => store.delete(key)),
    takeTokens: (buckets) => {
      const start = world.monotonic()
      const taken = store.takeTokens(buckets)
      if (taken instanceof Promise) return timing('take', () => taken)
      metrics.stored('take', (world.monotonic() - start) / 1000)
      return taken
    },
    peekTokens: (buckets) => store.peekTokens(buckets),
    watch: (key, listener) => store.watch(key, listener),
    blobs: store.blobs,
    close: () => store.close(),
  }
}

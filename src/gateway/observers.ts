/** Connects the observers to a gateway: levels for gauges, timed store operations, the way of a call. */
import type { Call, Target } from '../core/call.ts'
import { errorCodes } from '../core/error.ts'
import type { Log } from '../core/log.ts'
import { checkOf } from '../observability/health.ts'
import type { Anchors } from '../observability/audit/anchor.ts'
import { Observing } from '../observability/observing.ts'
import type { Way } from '../observability/tracing.ts'
import type { Store } from '../store/store.ts'
import type { Upstream } from '../upstream/upstream.ts'
import { isProtocolMethod } from '../protocol/methods.ts'

/** What of the gateway is looked at from outside, as it is just then. */
interface View {
  upstreams(): ReadonlyMap<string, Upstream>
  features(): readonly { readonly instance: { readonly methods?: Readonly<Record<string, unknown>> } }[]
  /** How many sessions of clients there are. */
  sessions(): number
  /** How many calls wait for the approval of a person; unknown where the store does not answer. */
  pendingApprovals(): Promise<number | undefined>
  /** Where the heads of audit logs are kept besides the files. */
  anchors?(): Anchors | undefined
}

/** Everything that observes the calls of a gateway. */
export function createObserving(log: Log, view: View): Observing {
  const isOwnMethod = (name: string): boolean =>
    view.features().some(({ instance: { methods = {} } }) => Object.hasOwn(methods, name))
  return new Observing({
    log,
    levels: () => ({
      upstreams: [...view.upstreams().values()].map(({ name, status, parked }) => {
        return { name, parked, connections: status.connections, isUp: isUp[checkOf(status)] }
      }),
      sessions: view.sessions(),
    }),
    pendingApprovals: () => view.pendingApprovals(),
    anchors: () => view.anchors?.(),
    isMethod: (name) => isProtocolMethod(name) || isOwnMethod(name),
    isOutcome: (outcome) => outcomes.has(outcome),
    isListed: (call, target) => isListed(view.upstreams().get(target.upstream ?? ''), call, target),
  })
}

/** Whether a server can be reached; unknown of one that was never tried, as it is for users who signed in alone. */
const isUp = { ok: true, failing: false, starting: undefined } as const

const outcomes = new Set([...errorCodes, 'ok', 'tool_error', 'ask'])

/** Whether a server's list, where that is known, has the tool a call came to. */
function isListed(upstream: Upstream | undefined, call: Call, target: Target): boolean {
  const { name } = target
  if (!upstream || name === undefined || upstream.status.connections === 0) return false
  const found = upstream.tool({ ...call, target, params: call.params.with({ name }) })
  if (!(found instanceof Promise)) return found !== undefined
  found.catch(() => undefined)
  return false
}

/** How a server is reached, for those who look at the way of a call. */
export function wayTo(upstream: Upstream | undefined, call: Call): Way {
  if (!upstream || upstream.settings.reach.kind === 'command') return { transport: 'pipe' }
  const { hostname, port, protocol } = new URL(upstream.settings.reach.url)
  const usual = protocol === 'https:' ? 443 : 80
  const revision = upstream.revisionFor(call) ?? upstream.status.revision
  return { transport: 'tcp', address: hostname, port: port === '' ? usual : Number(port), revision }
}

/** The same store, with each operation timed. */
export function timed(store: Store, { metrics }: Observing): Store {
  const timing = <Result>(name: string, operation: () => Promise<Result>): Promise<Result> => {
    const start = performance.now()
    const end = (): void => metrics.stored(name, (performance.now() - start) / 1000)
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
    setIfAbsent: (key, value, ttl) => timing('claim', () => store.setIfAbsent(key, value, ttl)),
    compareAndSwap: (key, before, value, ttl) =>
      timing('swap', () => store.compareAndSwap(key, before, value, ttl)),
    compareAndDelete: (key, before) => timing('drop', () => store.compareAndDelete(key, before)),
    scan: (collection) => timing('scan', () => store.scan(collection)),
    delete: (key) => timing('delete', () => store.delete(key)),
    takeTokens: (buckets) => {
      const start = performance.now()
      const taken = store.takeTokens(buckets)
      if (taken instanceof Promise) return timing('take', () => taken)
      metrics.stored('take', (performance.now() - start) / 1000)
      return taken
    },
    peekTokens: (buckets) => store.peekTokens(buckets),
    close: () => store.close(),
  }
}

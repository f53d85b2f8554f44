/**
 * Middleware that reports calls: a log line, metrics, a span and an audit entry at their end. No overhead if nothing is
 * observed.
 */
import { world } from '../core/world.ts'
import type { Call, Handler, Middleware, Target } from '../core/call.ts'
import { calledAsSlot } from '../core/exchange.ts'
import { asGatewayError, type GatewayError } from '../core/error.ts'
import type { Log } from '../core/log.ts'
import { Trail } from '../core/logged-call.ts'
import { trailSlot } from '../core/slot.ts'
import { legacyErrorCode } from '../protocol/legacy.ts'
import { isListening } from '../protocol/methods.ts'
import { modernErrorCode } from '../protocol/modern.ts'
import { type Audit, isAudited } from './audit/audit.ts'
import { callEntry, type EndedCall } from './call-entry.ts'
import {
  type Ending,
  endingOf,
  endingOfCall,
  failureOf,
  isAuthFailure,
  isRateLimit,
  isRefusal,
  displayName,
} from './ending.ts'
import type { Meter, Metrics } from './metrics.ts'
import type { Way } from './operations.ts'
import type { Tracing } from './tracing.ts'

/** The current observers of calls. */
export interface Observers {
  readonly log: Log
  readonly metrics: Metrics
  /** Whether successful calls are not observed at all. */
  readonly isQuiet: boolean
  readonly audit?: Audit | undefined
  readonly calls?: CallObserver | undefined
  /** Whether spans are enabled, even if the library is still loading. */
  readonly isTraced: boolean
  readonly tracing?: Tracing | undefined
  /** The transport of clients. */
  readonly way: Way
  /** Whether the known list of the server has the called tool. */
  isListed(call: Call, target: Target): boolean
}

/** Takes calls for the log of calls, at their end. */
export interface CallObserver {
  ended(call: EndedCall, entry: ReturnType<typeof callEntry>): void
}

/** The log field for the target that a call reached. Private to this file. */
const TARGET_FIELD = 'target'

/** A target of calls, and its counter. */
interface Reached {
  readonly target: Target
  readonly meter: Meter
}

/** The outermost middleware: one log line for each call, with metrics, a span and an audit entry. */
export function observe(observers: Observers): Middleware {
  return (next) => {
    const watched = watching(observers, next)
    return (call) => (observers.isQuiet ? next(call).catch(complain(observers, call)) : watched(call))
  }
}

/** Reports an internal error if the observers are off. */
function complain(observers: Observers, call: Call): (thrown: unknown) => never {
  return (thrown) => {
    const error = asGatewayError(thrown)
    if (error.code === 'SERVER_ERROR') {
      observers.log.error('call', {
        ...line(call, failureOf(error, 0), factsOf(call)),
        cause: stackOf(thrown),
      })
    }
    throw thrown
  }
}

function watching(observers: Observers, next: Handler): Handler {
  return async (given) => {
    const start = world.monotonic()
    const span = isLasting(given) ? undefined : observers.tracing?.received(given, observers.way)
    const received = span?.call ?? given
    const trail = observers.calls && new Trail()
    const call = trail ? trailSlot.set(received, trail) : received
    try {
      const outcome = await next(call)
      const ending = endingOfCall(call, outcome, since(start))
      const facts = factsOf(call)
      if (observers.log.isInfo !== false) observers.log.info('call', line(call, ending, facts))
      record(observers, call, { ending, trail, facts, outcome })
      span?.end(ending)
      return outcome
    } catch (thrown) {
      const error = asGatewayError(thrown)
      const ending = answeredFailure(call, error, since(start))
      const facts = factsOf(call)
      const fields = line(call, ending, facts)
      if (error.code === 'SERVER_ERROR') observers.log.error('call', { ...fields, cause: stackOf(thrown) })
      else observers.log.info('call', fields)
      record(observers, call, { ending, trail, facts })
      span?.end(ending, error)
      throw thrown
    }
  }
}

/** The middleware of one target: it records the target for the outermost middleware. */
export function observeTarget(observers: Observers, target: Target): Middleware {
  const { metrics } = observers
  const reached: Reached = { target, meter: metrics.meter(target) }
  const several: Reached = {
    target: { method: target.method },
    meter: metrics.meter({ method: target.method }),
  }
  return (next) => (call) => {
    if (observers.isQuiet) return next(call)
    const before = reachedBy(call)
    const isAnother = before?.target.method === target.method && before.target.upstream !== target.upstream
    call.logFields.set(TARGET_FIELD, isAnother ? several : reached)
    return next(call)
  }
}

/** The middleware around the server: a span of its work; undefined if nobody observes it. */
export function observeServer(observers: Observers, target: Target, way: Way): Middleware | undefined {
  if (isLasting(target)) return undefined
  const traced = observers.isTraced ? traceServer(observers, target, way) : undefined
  if (!observers.calls) return traced
  return (next) => {
    const handle = traced?.(next) ?? next
    return async (call) => {
      const end = trailSlot.of(call)?.begin('server')
      try {
        return await handle(call)
      } finally {
        end?.()
      }
    }
  }
}

function traceServer(observers: Observers, target: Target, way: Way): Middleware {
  return (next) => async (call) => {
    const span = observers.tracing?.sent(call, target, way)
    if (!span) return next(call)
    const start = world.monotonic()
    try {
      const outcome = await next(span.call)
      span.end(endingOf(outcome, since(start)))
      return outcome
    } catch (thrown) {
      const error = asGatewayError(thrown)
      span.end(failureOf(error, since(start)), error)
      throw thrown
    }
  }
}

/** The end of a call, and what is known of its way. */
type Ended = Pick<EndedCall, 'ending' | 'outcome'> & {
  readonly trail: Trail | undefined
  readonly facts: Facts | undefined
}

function record(observers: Observers, call: Call, { ending, trail, facts, outcome: returned }: Ended): void {
  const { metrics, audit, calls } = observers
  const reached = reachedBy(call)
  const target = reached?.target ?? { method: call.method }
  const calledAs = calledAsSlot.of(call)
  const meter = calledAs
    ? metrics.meter({ ...target, method: calledAs })
    : (reached?.meter ?? metrics.meter(target))
  const { outcome, code = outcome } = ending
  const seconds = isLasting(call) ? undefined : ending.ms / 1000
  const isListed = (): boolean => observers.isListed(call, target)
  meter.count(isRefusal(code) ? code : outcome, seconds, isListed)
  if (seconds !== undefined) metrics.mcp.served({ call, target, ending, way: observers.way, isListed })
  if (isRateLimit(ending.code)) metrics.rateLimited(target.upstream ?? '')
  if (isAuthFailure(ending.code)) metrics.refused(String(ending.code).toLowerCase())
  if ((!audit && !trail) || !(isAudited(call.method) || isRefusal(ending.code))) return
  const named = target.name === undefined ? call.target : target
  audit?.called(call, named, ending)
  // What the gateway reads for itself is no call of anybody.
  if (!trail || call.internal === 'read') return
  const ended = { call, target: named, ending, trail, outcome: returned }
  calls?.ended(ended, callEntry(ended, facts))
}

type Facts = Readonly<Record<string, unknown>>

/** What features noted of a call; of most calls nothing. */
function factsOf({ logFields }: Call): Facts | undefined {
  if (logFields.size === (logFields.has(TARGET_FIELD) ? 1 : 0)) return undefined
  return Object.fromEntries([...logFields].filter(([name]) => name !== TARGET_FIELD))
}

/** A subscription lasts as long as the client listens, so its duration is not observed. */
function isLasting({ method }: Pick<Call, 'method'>): boolean {
  return isListening(method)
}

/** The ending for an error, with the JSON-RPC code that the client receives in its revision. */
function answeredFailure(call: Call, error: GatewayError, ms: number): Ending {
  const { rpc: _own, ...ending } = failureOf(error, ms)
  const method = calledAsSlot.of(call) ?? call.method
  const code = call.client.era === 'legacy' ? legacyErrorCode({ method }, error) : modernErrorCode(error)
  return { ...ending, ...(code !== undefined && { rpc: code }) }
}

function reachedBy({ logFields }: Call): Reached | undefined {
  // Set only by the middleware above.
  return logFields.get(TARGET_FIELD) as Reached | undefined
}

function line(
  call: Call,
  { outcome, code, rpc, reason, ms }: Ending,
  facts: Facts | undefined,
): Record<string, unknown> {
  const { principal, client, meta, requestId, rpcId } = call
  const target = reachedBy(call)?.target
  const fields: Record<string, unknown> = {
    method: calledAsSlot.of(call) ?? call.method,
    upstream: target?.upstream ?? call.target.upstream,
    name: displayName(call.method, target?.name ?? call.target.name),
    principal: principal.id,
    revision: client.revision,
    outcome,
    ms,
    request_id: requestId,
    rpc_id: rpcId === undefined || rpcId.length <= MAX_ID_LENGTH ? rpcId : rpcId.slice(0, MAX_ID_LENGTH),
  }
  if (rpc !== undefined) fields.rpc = rpc
  else if (code !== undefined) fields.code = code
  if (reason !== undefined) fields.reason = reason
  if (typeof meta.traceparent === 'string') fields.trace_id = meta.traceparent.slice(3, 35)
  return facts ? Object.assign(fields, facts) : fields
}

/** The maximum length of a JSON-RPC id in logs. */
const MAX_ID_LENGTH = 64

function since(start: number): number {
  return Math.round((world.monotonic() - start) * 100) / 100
}

function stackOf(thrown: unknown): string | undefined {
  return thrown instanceof Error ? thrown.stack : String(thrown)
}

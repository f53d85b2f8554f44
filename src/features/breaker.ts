/** Circuit breaker: stops calls to a failing server for a pause, then lets one call probe it. */
import { world } from '../core/world.ts'
import type { Call } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import type { Log } from '../core/log.ts'
import { lastKnownSlot } from '../core/slot.ts'
import { method as methodOf } from '../protocol/methods.ts'
import type { Feature } from './feature.ts'
import { circuits, type CircuitView } from './offers.ts'
import { type BreakerSettings, breakerSchema } from './settings/upstream.ts'

/**
 * Gives a failing server time to recover: after a number of consecutive failures its calls are refused for a while,
 * then one call is let through as a probe. Failing connection attempts have their own backoff.
 */
export const breaker: Feature<BreakerSettings> = {
  ...breakerSchema,
  create: (settings, { log }) => {
    const known = new Map<string, Circuit>()
    return {
      offers: [circuits.offer((upstream) => known.get(upstream))],
      calls: {
        // Reads the state of the server, and is no attempt.
        dryRun: ({ upstream, isBuiltin }) => {
          if (isBuiltin || upstream === undefined) return undefined
          return (next) => (call) => {
            const wait = known.get(upstream)?.wait() ?? 0
            return wait > 0 ? Promise.reject(refusal(wait)) : next(call)
          }
        },
        middleware: ({ upstream, method, isBuiltin }) => {
          if (
            isBuiltin ||
            upstream === undefined ||
            method === 'subscriptions/listen' ||
            method.startsWith('notifications/')
          )
            return undefined
          const circuit = known.get(upstream) ?? new Circuit(upstream, settings(upstream), log)
          known.set(upstream, circuit)
          const isListed = methodOf(method).list !== undefined || method === 'server/discover'
          return (next) => (call) => {
            // Asks no server.
            if (isListed && lastKnownSlot.of(call) === true) return next(call)
            const wait = circuit.enter()
            if (wait > 0) return Promise.reject(refusal(wait))
            return next(call).then(
              (outcome) => {
                circuit.succeed()
                return outcome
              },
              (error: unknown) => {
                circuit.end(call, error)
                throw error
              },
            )
          }
        },
      },
    }
  },
}

/** The breaker of one server. */
class Circuit implements CircuitView {
  readonly #upstream: string
  readonly #maxFailures: number
  readonly #window: number
  readonly #pause: number
  readonly #log: Log
  #failures = 0
  #since = 0
  #openUntil = 0

  constructor(upstream: string, { failures, window, pause }: BreakerSettings, log: Log) {
    this.#upstream = upstream
    this.#maxFailures = failures
    this.#window = window
    this.#pause = pause
    this.#log = log
  }

  get failures(): number {
    return this.#failures
  }

  /** How long a call would have to wait now, in milliseconds; 0 if it may be made. */
  wait(): number {
    return this.#openUntil === 0 ? 0 : Math.max(0, this.#openUntil - world.monotonic())
  }

  /** How long a call must wait, in milliseconds; 0 lets it through. */
  enter(): number {
    if (this.#openUntil === 0) return 0
    const wait = this.wait()
    if (wait > 0) return wait
    // This call is the probe; the others wait for its result, or for the next probe.
    this.#openUntil = world.monotonic() + this.#pause
    return 0
  }

  succeed(): void {
    if (this.#openUntil !== 0) this.#log.info('upstream.circuit_closed', { upstream: this.#upstream })
    this.#failures = 0
    this.#openUntil = 0
  }

  /** Records that a call ended with an error, which may be the server's response. */
  end(call: Call, error: unknown): void {
    const evidence = evidenceOf(call, error)
    if (evidence === 'answered') this.succeed()
    if (evidence === 'failed') this.#fail()
    // The probe was inconclusive, so the next call may probe at once.
    if (evidence === 'unknown' && this.#openUntil !== 0 && this.#failures >= this.#maxFailures)
      this.#openUntil = 1
  }

  #fail(): void {
    const now = world.monotonic()
    if (this.#openUntil === 0 && now - this.#since > this.#window) this.#failures = 0
    if (this.#failures === 0) this.#since = now
    this.#failures++
    if (this.#failures < this.#maxFailures) return
    if (this.#openUntil === 0) {
      this.#log.warn('upstream.circuit_open', { upstream: this.#upstream, failures: this.#failures })
    }
    this.#openUntil = now + this.#pause
  }
}

const failing: ReadonlySet<string> = new Set(['SERVER_UNAVAILABLE', 'OPERATION_TIMEOUT', 'OUTCOME_UNKNOWN'])

/** What an error says about the server: that it responds, that it fails, or nothing. */
function evidenceOf({ signal }: Call, error: unknown): 'answered' | 'failed' | 'unknown' {
  const failure: unknown = signal.aborted ? signal.reason : error
  if (!(failure instanceof GatewayError)) return 'unknown'
  // The credentials of one caller say nothing about those of others.
  const status = failure.extra.details?.['http_status']
  if (status === 401 || status === 403) return 'unknown'
  // Of the aborts from this side, only the deadline is caused by the server.
  if (signal.aborted && failure.code !== 'OPERATION_TIMEOUT') return 'unknown'
  // A server that cannot be reached has delays of its own, and calls wait for it.
  if (failure.code === 'SERVER_UNAVAILABLE' && failure.extra.isUnsent === true) return 'unknown'
  // A refusal with a retry time came from the open breaker, not from the server.
  if (failing.has(failure.code)) return failure.extra.retryAfterSeconds === undefined ? 'failed' : 'unknown'
  return failure.code === 'OVERLOADED' ? 'unknown' : 'answered'
}

function refusal(wait: number): GatewayError {
  const seconds = Math.ceil(wait / 1000)
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    `The server does not respond; it will be tried again in ${seconds} s.`,
    {
      retryAfterSeconds: seconds,
      isUnsent: true,
    },
  )
}

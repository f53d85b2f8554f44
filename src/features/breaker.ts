/** Stops calls to a server that keeps failing, for a pause; then one call tries it. */
import type { Call } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import type { Log } from '../core/log.ts'
import { durationSchema } from '../core/time/units.ts'
import type { Feature } from './feature.ts'

/** Times are milliseconds. */
interface Settings {
  readonly failures: number
  readonly window: number
  readonly pause: number
}

/**
 * Gives a server that does not answer time to recover: after so many failures in a row its calls are refused for a
 * while, then one of them is let through to see. Connections that cannot be opened are paused by themselves.
 */
export const breaker: Feature<Settings> = {
  name: 'breaker',
  place: 'features',
  schema: {
    type: 'object',
    properties: {
      failures: {
        type: 'integer',
        minimum: 1,
        default: 10,
        errorMessage: 'must be a whole number from 1',
        description:
          'After how many failures in a row the calls of a server are refused: no answer in time, a broken connection, or HTTP 5xx. Refused credentials are none.',
      },
      window: { ...durationSchema, default: '1m', description: 'Within what time these failures must be.' },
      pause: { ...durationSchema, default: '30s', description: 'How long calls are refused then.' },
    },
  },
  create: (settings, { log }) => {
    const circuits = new Map<string, Circuit>()
    return {
      middleware: ({ upstream, method, isBuiltin }) => {
        if (
          isBuiltin ||
          upstream === undefined ||
          method === 'subscriptions/listen' ||
          method.startsWith('notifications/')
        )
          return undefined
        const circuit = circuits.get(upstream) ?? new Circuit(upstream, settings(upstream), log)
        circuits.set(upstream, circuit)
        return (next) => (call) => {
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
    }
  },
}

/** What is known of how a server fares. */
class Circuit {
  readonly #upstream: string
  readonly #most: number
  readonly #window: number
  readonly #pause: number
  readonly #log: Log
  #failures = 0
  #since = 0
  #openUntil = 0

  constructor(upstream: string, { failures, window, pause }: Settings, log: Log) {
    this.#upstream = upstream
    this.#most = failures
    this.#window = window
    this.#pause = pause
    this.#log = log
  }

  /** How long a call must wait, in milliseconds; 0 lets it through. */
  enter(): number {
    if (this.#openUntil === 0) return 0
    const now = performance.now()
    if (now < this.#openUntil) return this.#openUntil - now
    // This call is the one that tries; the others wait for what comes of it, or for the next.
    this.#openUntil = now + this.#pause
    return 0
  }

  succeed(): void {
    if (this.#openUntil !== 0) this.#log.info('upstream.circuit_closed', { upstream: this.#upstream })
    this.#failures = 0
    this.#openUntil = 0
  }

  /** A call ended with an error, which may be the server's answer. */
  end(call: Call, error: unknown): void {
    const verdict = verdictOf(call, error)
    if (verdict === 'answered') this.succeed()
    if (verdict === 'failed') this.#fail()
    // Nothing was learned, so the next call may try at once.
    if (verdict === 'unknown' && this.#openUntil !== 0 && this.#failures >= this.#most) this.#openUntil = 1
  }

  #fail(): void {
    const now = performance.now()
    if (this.#openUntil === 0 && now - this.#since > this.#window) this.#failures = 0
    if (this.#failures === 0) this.#since = now
    this.#failures++
    if (this.#failures < this.#most) return
    if (this.#openUntil === 0) {
      this.#log.warn('upstream.circuit_open', { upstream: this.#upstream, failures: this.#failures })
    }
    this.#openUntil = now + this.#pause
  }
}

const failing: ReadonlySet<string> = new Set(['SERVER_UNAVAILABLE', 'OPERATION_TIMEOUT', 'OUTCOME_UNKNOWN'])

/** What an error says of the server: that it answered, that it did not, or nothing. */
function verdictOf({ signal }: Call, error: unknown): 'answered' | 'failed' | 'unknown' {
  const failure: unknown = signal.aborted ? signal.reason : error
  if (!(failure instanceof GatewayError)) return 'unknown'
  // The credentials of one caller say nothing of the others'.
  const status = failure.extra.details?.['http_status']
  if (status === 401 || status === 403) return 'unknown'
  // Of those that end a call from this side, its deadline alone is the server's doing.
  if (signal.aborted && failure.code !== 'OPERATION_TIMEOUT') return 'unknown'
  // A refusal with a retry time came from the open breaker, not from the server.
  if (failing.has(failure.code)) return failure.extra.retryAfterSeconds === undefined ? 'failed' : 'unknown'
  return failure.code === 'OVERLOADED' ? 'unknown' : 'answered'
}

function refusal(wait: number): GatewayError {
  const seconds = Math.ceil(wait / 1000)
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    `The server does not answer; it is tried again in ${seconds} s.`,
    {
      retryAfterSeconds: seconds,
      isUnsent: true,
    },
  )
}

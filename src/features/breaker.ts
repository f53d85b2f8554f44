/**
 * Circuit breaker: stops calls to a failing server for a pause, then lets one call probe it.
 *
 * Gateways that share a store have one breaker for each server: the one that finds out that a server fails writes until when calls
 * are refused, and the others, which watch that value, refuse them too. After the pause, one of them may probe. Calls ask no store,
 * but for the one that would be the probe. A gateway whose store does not answer decides by itself.
 */
import { isStoreShared } from '../core/settings.ts'
import { ifAnswered } from '../core/time/waiting.ts'
import { world } from '../core/world.ts'
import type { Call, Outcome } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { background, type Log } from '../core/log.ts'
import { lastKnownSlot } from '../core/slot.ts'
import { method as methodOf } from '../protocol/methods.ts'
import { isObject, readJson } from '../core/json/json.ts'
import { whenChanged } from '../durable/when-changed.ts'
import type { Store } from '../store/store.ts'
import type { Feature } from './feature.ts'
import { circuits, type CircuitView } from './offers.ts'
import { type BreakerSettings, breakerSchema } from './settings/upstream.ts'

/**
 * Gives a failing server time to recover: after a number of consecutive failures its calls are refused for a while,
 * then one call is let through as a probe. Failing connection attempts have their own backoff.
 */
export const breaker: Feature<BreakerSettings> = {
  ...breakerSchema,
  create: (settings, { log, store, gateway }) => {
    const known = new Map<string, Circuit>()
    const isShared = isStoreShared(gateway.settings)
    const circuitOf = (upstream: string): Circuit => {
      const shared = isShared ? new SharedState(upstream, store, log) : undefined
      const circuit = new Circuit(upstream, settings(upstream), log, shared)
      known.set(upstream, circuit)
      return circuit
    }
    return {
      close: async () => {
        for (const circuit of known.values()) circuit.close()
      },
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
          const circuit = known.get(upstream) ?? circuitOf(upstream)
          const isListed = methodOf(method).list !== undefined || method === 'server/discover'
          return (next) => {
            const made = (wait: number, call: Call): Promise<Outcome> => {
              if (wait > 0) return Promise.reject(refusal(wait))
              const { openings } = circuit
              return next(call).then(
                (outcome) => {
                  circuit.answered(openings)
                  return outcome
                },
                (error: unknown) => {
                  circuit.end(call, error, openings)
                  throw error
                },
              )
            }
            return (call) => {
              // Asks no server.
              if (isListed && lastKnownSlot.of(call) === true) return next(call)
              const enter = circuit.enter()
              if (enter instanceof Promise) return enter.then((wait) => made(wait, call))
              return made(enter, call)
            }
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
  readonly #shared: SharedState | undefined
  /** How often it has opened. */
  openings = 0
  #failures = 0
  #since = 0
  #openUntil = 0

  constructor(
    upstream: string,
    { failures, window, pause }: BreakerSettings,
    log: Log,
    shared: SharedState | undefined,
  ) {
    this.#upstream = upstream
    this.#shared = shared
    this.#maxFailures = failures
    this.#window = window
    this.#pause = pause
    this.#log = log
    shared?.follow((until) => this.#learn(until))
  }

  close(): void {
    this.#shared?.close()
  }

  get failures(): number {
    return this.#failures
  }

  /** How long a call would have to wait now, in milliseconds; 0 if it may be made. */
  wait(): number {
    return this.#openUntil === 0 ? 0 : Math.max(0, this.#openUntil - world.monotonic())
  }

  /** How long a call must wait, in milliseconds; 0 lets it through. */
  enter(): number | Promise<number> {
    if (this.#openUntil === 0) return 0
    const wait = this.wait()
    if (wait > 0) return wait
    // This call is the probe; the others wait for its result, or for the next probe.
    this.#openUntil = world.monotonic() + this.#pause
    return this.#shared ? this.#claimProbe(this.#shared) : 0
  }

  /** The server responded to a call. One that was made before the breaker opened last says nothing of the time since. */
  answered(openings: number): void {
    if (openings === this.openings) this.succeed()
  }

  succeed(): void {
    if (this.#openUntil !== 0) {
      this.#log.info('upstream.circuit_closed', { upstream: this.#upstream })
      this.#shared?.write(0, this.#pause)
    }
    this.#failures = 0
    this.#openUntil = 0
  }

  /** How long a call has to wait that would be the probe: another gateway may be probing. */
  async #claimProbe(shared: SharedState): Promise<number> {
    if (await shared.claimProbe(this.#pause)) return 0
    const wait = Math.min(this.#pause, PROBE_INTERVAL_MS)
    // It may have learned in the meantime that the server responds.
    if (this.#openUntil === 0) return 0
    this.#openUntil = world.monotonic() + wait
    return wait
  }

  /** Another gateway found out that the server fails or responds; `until` is in milliseconds since 1970, or 0. */
  #learn(until: number): void {
    // Clocks of machines differ: calls are refused for no longer than the pause.
    const wait = Math.min(until - world.now(), this.#pause)
    if (until === 0 && this.#openUntil !== 0) {
      this.#log.info('upstream.circuit_closed', { upstream: this.#upstream, elsewhere: true })
      this.#failures = 0
      this.#openUntil = 0
    } else if (wait > 0 && this.wait() < wait) {
      if (this.#openUntil === 0) {
        this.openings++
        this.#log.warn('upstream.circuit_open', { upstream: this.#upstream, elsewhere: true })
      }
      this.#failures = Math.max(this.#failures, this.#maxFailures)
      this.#openUntil = world.monotonic() + wait
    }
  }

  /** Records that a call ended with an error, which may be the server's response. */
  end(call: Call, error: unknown, openings: number): void {
    const evidence = evidenceOf(call, error)
    if (evidence === 'answered') this.answered(openings)
    if (evidence === 'failed') this.#fail()
    // The probe was inconclusive, so the next call may probe at once.
    if (evidence === 'unknown' && this.#openUntil !== 0 && this.#failures >= this.#maxFailures) {
      this.#openUntil = 1
      this.#shared?.releaseProbe()
    }
  }

  #fail(): void {
    const now = world.monotonic()
    if (this.#openUntil === 0 && now - this.#since > this.#window) this.#failures = 0
    if (this.#failures === 0) this.#since = now
    this.#failures++
    if (this.#failures < this.#maxFailures) return
    if (this.#openUntil === 0) {
      this.openings++
      this.#log.warn('upstream.circuit_open', { upstream: this.#upstream, failures: this.#failures })
    }
    this.#openUntil = now + this.#pause
    this.#shared?.write(world.now() + this.#pause, this.#pause)
  }
}

/** How often a gateway asks whether it may probe, while another one does, in milliseconds. */
const PROBE_INTERVAL_MS = 1000
/** How long the store has to answer whether this gateway may probe, in milliseconds. */
const STORE_TIMEOUT_MS = 1000
/** How long it is known after the pause that a server failed, in milliseconds. */
const RETENTION_MS = 60_000

/** What the gateways with a store know together of the breaker of one server. */
class SharedState {
  readonly #upstream: string
  readonly #store: Store
  readonly #log: Log
  #isProbing = false
  #unwatch: (() => void) | undefined

  constructor(upstream: string, store: Store, log: Log) {
    this.#upstream = upstream
    this.#store = store
    this.#log = log
  }

  /** Calls a listener with until when calls are refused, in milliseconds since 1970, whenever that may have changed; 0 if they are not. */
  follow(listener: (until: number) => void): void {
    this.#unwatch = whenChanged(this.#store, this.#key, async () => {
      const text = await this.#store.get(this.#key)
      const value = text === undefined ? undefined : readJson(text)
      // A server of which nothing is known may be open here.
      if (isObject(value) && typeof value.until === 'number') listener(value.until)
    })
  }

  /** Says until when calls are refused. Does not wait for the store, which may be away. */
  write(until: number, pauseMs: number): void {
    const written = this.#store.put(this.#key, JSON.stringify({ until }), pauseMs + RETENTION_MS)
    background(
      written.then(() => this.#release()),
      this.#log,
    )
  }

  /** Whether this gateway may probe; true if the store does not answer. */
  async claimProbe(pauseMs: number): Promise<boolean> {
    const claiming = this.#store.setIfAbsent(this.#probeKey, '1', pauseMs)
    const isTaken = await ifAnswered(
      claiming.then((other) => other !== undefined),
      STORE_TIMEOUT_MS,
    )
    this.#isProbing = isTaken === false
    return isTaken !== true
  }

  /** The probe showed nothing: another one may be made. */
  releaseProbe(): void {
    background(this.#release(), this.#log)
  }

  close(): void {
    this.#unwatch?.()
    this.releaseProbe()
  }

  async #release(): Promise<void> {
    if (!this.#isProbing) return
    this.#isProbing = false
    await this.#store.delete(this.#probeKey)
  }

  get #key(): string {
    return `circuit:${this.#upstream}`
  }

  get #probeKey(): string {
    return `circuit-probe:${this.#upstream}`
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

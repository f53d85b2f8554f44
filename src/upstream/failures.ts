/**
 * Failures before and during a call: which are temporary, which left the call unsent, and which are repeated briefly.
 */
import type { Call } from '../core/call.ts'
import { CONTEXT_LOST, contextSlot, type ServerContext } from '../core/slot.ts'
import { world } from '../core/world.ts'
import { asGatewayError, GatewayError, type Extra } from '../core/error.ts'
import { pause } from '../core/time/waiting.ts'
import { method as known } from '../protocol/methods.ts'
import { isOfCredentials } from './transport/auth-retry.ts'

/** A failure to connect. The call itself was not sent yet, so its outcome is known. */
export function beforeCall(thrown: unknown): unknown {
  const failure = asGatewayError(thrown)
  const { code, message, cause } = failure
  const { forOperator } = failure.extra
  if (code === 'SERVER_UNAVAILABLE') return failure.with({ isUnsent: true })
  if (code !== 'OUTCOME_UNKNOWN' && code !== 'OPERATION_TIMEOUT') return thrown
  const why = code === 'OUTCOME_UNKNOWN' && cause instanceof Error ? cause.message : message
  return new GatewayError('SERVER_UNAVAILABLE', `The connection to the server failed: ${why}`, {
    cause: thrown,
    isUnsent: true,
    ...(forOperator !== undefined && { forOperator }),
  })
}

/** The error for callers: sessions between gateway and server are hidden from them, and a list has no outcome to be checked. */
export function asOurs(error: unknown, method: string): unknown {
  if (known(method).list !== undefined && asGatewayError(error).code === 'OUTCOME_UNKNOWN')
    return new GatewayError('SERVER_UNAVAILABLE', LOST_LIST, { cause: error })
  if (!isSessionLost(error)) return error
  return new GatewayError('SERVER_UNAVAILABLE', 'The server lost its session with the gateway.', {
    cause: error,
  })
}

const LOST_LIST = 'The connection to the server was lost before its list arrived.'

/** An error of a server, which says of which era the server is: its codes mean what they mean there. */
export function relayedFrom(error: unknown, era: 'legacy' | 'modern' | undefined): unknown {
  const isRelayed = error instanceof GatewayError && error.extra.relayed !== undefined
  return isRelayed ? error.with({ relayedFrom: era }) : error
}

/** Whether a server refused a request because it forgot the session. */
export function isSessionLost(error: unknown): boolean {
  return asGatewayError(error).code === 'SESSION_NOT_FOUND'
}

/** Whether a proxy in front of a server reports that the server is unavailable. */
export function isAway(error: unknown): boolean {
  const status = asGatewayError(error).extra.details?.http_status
  return status === 502 || status === 503 || status === 504
}

/** Whether a retry may succeed. */
export function isPassing(error: unknown): boolean {
  return ['SERVER_UNAVAILABLE', 'OUTCOME_UNKNOWN', 'OVERLOADED'].includes(asGatewayError(error).code)
}

/** The failure of requests whose connection is gone before their responses came. */
export function responseLost(message: string, extra: Extra = {}): GatewayError {
  const suggestion = 'Check whether the call took effect before making it again.'
  return new GatewayError('OUTCOME_UNKNOWN', message, { suggestion, ...extra })
}

/** The failure of the pending requests of a connection that was closed. */
export function connectionClosed(cause: Error): GatewayError {
  return responseLost(`${cause.message} A pending call may have taken effect.`, { cause })
}

/** Refuses a call that relies on another context than that of its connection. @throws CONFLICT */
export function requireContext(call: Call, context: ServerContext | undefined): void {
  const watch = contextSlot.of(call)
  if (!watch?.expected || watch.mayReplace || watch.expected.id === context?.id) return
  throw new GatewayError('CONFLICT', 'What this call relies on was lost on the server, so it was not made.', {
    reason: CONTEXT_LOST,
    isUnsent: true,
    isResult: true,
  })
}

/** How long a failure is repeated instead of retried, in milliseconds. */
const FAILURE_TTL_MS = 250

/**
 * Attempts once for all parts of one call, so that they do not each wait for an unavailable server. `key` identifies
 * the call.
 */
export class NegativeCache<Value> {
  #key: string | undefined
  #failed: { readonly error: unknown; readonly at: number } | undefined

  /** The result of the attempt. @throws the recent failure of the same key */
  async try(key: string, attempt: () => Promise<Value>): Promise<Value> {
    const failed = this.#key === key ? this.#failed : undefined
    if (failed && world.monotonic() - failed.at < FAILURE_TTL_MS) throw failed.error
    try {
      return await attempt()
    } catch (error) {
      this.#key = key
      this.#failed = { error, at: world.monotonic() }
      throw error
    }
  }
}

// Whether a server can be reached, as its last connection or call showed. Those who wait for changes learn of each
// transition once, however many calls fail.

/** Called with whether a server can be reached, whenever that changes. */
type OnReachable = (isReachable: boolean) => void

/** The reachability of one server. */
export class Reachability {
  readonly #listeners = new Set<OnReachable>()
  #isReachable: boolean | undefined
  #awaySince: number | undefined
  #changedAt: number | undefined

  /** Since when it is as it is, in milliseconds since 1970; undefined before the first attempt. */
  get changedAt(): number | undefined {
    return this.#changedAt
  }

  /** Since when the server cannot be reached, in milliseconds since 1970; undefined while it can, or never could. */
  get awaySince(): number | undefined {
    return this.#awaySince
  }

  /** Calls a listener with each change from now on, until the signal is aborted. */
  onChange(listener: OnReachable, signal: AbortSignal): void {
    if (signal.aborted) return
    this.#listeners.add(listener)
    signal.addEventListener('abort', () => this.#listeners.delete(listener), { once: true })
  }

  /** Waits for a time, or until the server can be reached again, or the signal is aborted. */
  async untilReturn(milliseconds: number, signal: AbortSignal): Promise<void> {
    const ended = new AbortController()
    const end = (): void => ended.abort()
    this.onChange((isReachable) => isReachable && end(), ended.signal)
    signal.addEventListener('abort', end)
    if (signal.aborted) end()
    await pause(milliseconds, ended.signal).catch(() => undefined)
    signal.removeEventListener('abort', end)
    end()
  }

  /** The server has answered, or its connection is gone. */
  set(isReachable: boolean): void {
    if (this.#isReachable === isReachable) return
    this.#awaySince = isReachable || this.#isReachable === undefined ? undefined : world.now()
    this.#isReachable = isReachable
    this.#changedAt = world.now()
    for (const listener of this.#listeners) listener(isReachable)
  }

  /** A connection or a call failed, which may be due to the server. */
  failed(thrown: unknown): void {
    const { code, extra } = asGatewayError(thrown)
    // Refused credentials are an answer, and so is an error of the server.
    if (code === 'SERVER_UNAVAILABLE' && !extra.relayed && !isOfCredentials(thrown)) this.set(false)
  }
}

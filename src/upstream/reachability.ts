/**
 * Whether a server can be reached, as its last connection or call showed. Those who wait for changes learn of each
 * transition once, however many calls fail.
 */
import { asGatewayError } from '../core/error.ts'
import { isOfCredentials } from './transport/auth-retry.ts'

/** Called with whether a server can be reached, whenever that changes. */
export type OnReachable = (isReachable: boolean) => void

/** The reachability of one server. */
export class Reachability {
  readonly #listeners = new Set<OnReachable>()
  #isReachable: boolean | undefined

  /** Calls a listener with each change from now on, until the signal is aborted. */
  onChange(listener: OnReachable, signal: AbortSignal): void {
    if (signal.aborted) return
    this.#listeners.add(listener)
    signal.addEventListener('abort', () => this.#listeners.delete(listener), { once: true })
  }

  /** The server has answered, or its connection is gone. */
  set(isReachable: boolean): void {
    if (this.#isReachable === isReachable) return
    this.#isReachable = isReachable
    for (const listener of this.#listeners) listener(isReachable)
  }

  /** A connection or a call failed, which may be due to the server. */
  failed(thrown: unknown): void {
    const { code, extra } = asGatewayError(thrown)
    // Refused credentials are an answer, and so is an error of the server.
    if (code === 'SERVER_UNAVAILABLE' && !extra.relayed && !isOfCredentials(thrown)) this.set(false)
  }
}

import type { GatewayError } from './error.ts'

/** A request that was turned away before it became a call. */
export interface Refusal {
  /** Names the request in logs and in the answer. */
  readonly requestId: string
  readonly error: GatewayError
  /** What was asked for: an HTTP method and path, without the query. */
  readonly request: string
  /** The network address it came from. */
  readonly address?: string | undefined
  /** Who made it, where that is known. */
  readonly principal?: string | undefined
}

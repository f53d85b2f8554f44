/** Where the messages about one request of a client go; transports implement it. */
import type { Call, RateLimitReporter } from '../../core/call.ts'
import type { GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import type { GatewayMetadata } from '../../protocol/meta-keys.ts'
import type { TraceContext } from '../../protocol/trace-context.ts'

/** Where the messages about one request of the client go. */
export interface ResponseSink extends RateLimitReporter {
  /** Names the request in logs and in errors. */
  readonly requestId: string
  /** Whose request it is, where its transport tells each time: what a caller may do changes with its token. */
  readonly principal?: Principal | undefined
  /** The trace context its transport carried. */
  readonly trace?: TraceContext | undefined
  /** The values for features its transport carried. */
  readonly gatewayMetadata?: GatewayMetadata | undefined
  /** A notification or a question, before the answer. */
  emit(message: string): void
  /** The answer will say this: over HTTP some calls that are refused before they are dispatched have their own status. */
  refuse?(error: GatewayError): void
  /** The answer, or nothing where none is wanted any more; with its code where it is an error. */
  end(message?: string, errorCode?: unknown): void
}

/** What belongs to one message of the client. */
export type MessageContext = Pick<ResponseSink, 'requestId' | 'principal' | 'trace' | 'gatewayMetadata'> &
  Pick<Call, 'emit' | 'rateLimitReporter'>

import type { IncomingMessage, ServerResponse } from 'node:http'
import type { GatewayError } from '../core/error.ts'
import type { Principal } from '../core/principal.ts'

/** One request to an MCP endpoint, and who makes it. */
export interface HttpContext {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  /** The server the URL names; absent where it names all. */
  readonly upstream: string | undefined
  readonly principal: Principal
  /** Names the request in logs and in the answer. */
  readonly requestId: string
  /** The challenge to a caller that could get another token; nothing for other errors than a missing scope. */
  readonly challenge?: (error: GatewayError) => string | undefined
}

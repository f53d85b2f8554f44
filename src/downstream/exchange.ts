import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Principal } from '../core/principal.ts'

/** One request to an MCP endpoint, and who makes it. */
export interface Exchange {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  /** The server the URL names; absent where it names all. */
  readonly upstream: string | undefined
  readonly principal: Principal
  /** Names the request in logs and in the answer. */
  readonly requestId: string
}

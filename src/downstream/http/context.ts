/** One authenticated HTTP request, and the lifetime its token gives a stream. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Call } from '../../core/call.ts'
import type { GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import type { Edge } from './edge.ts'
import { endOf } from '../auth/verified.ts'

/** One request to an MCP endpoint, and its principal. */
export interface HttpContext {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  /** The server in the URL; absent at the endpoint of all servers. */
  readonly upstream: string | undefined
  readonly principal: Principal
  /** The principal with its present rights: a reload can change those of the same credentials. @throws if it has none */
  readonly presentCaller?: Call['presentCaller'] | undefined
  /** The configuration at the start of the request. */
  readonly edge: Edge
  /** The id of the request in logs and the response. */
  readonly requestId: string
  /** The challenge to a caller that could get another token; undefined for errors other than a missing scope. */
  readonly challenge?: (error: GatewayError) => string | undefined
}

/** How long a stream may stay open: as long as its token is valid. */
export interface TokenLifetime {
  /** Renews it for another request of the caller, whose token may expire later. */
  extend(principal: Principal): void
  /** Cancels it: the stream is closed. */
  end(): void
}

/** Calls `onOver` once the token of a caller has expired. */
export function tokenLifetime(
  { principal, edge: { ticker } }: Pick<HttpContext, 'principal' | 'edge'>,
  onOver: () => void,
): TokenLifetime {
  let until = endOf(principal)
  if (until === Infinity) return lasting
  const tick = (now: number): void => {
    if (until > now) return
    end()
    onOver()
  }
  const key = ticker.add({ tick })
  const end = (): void => ticker.remove(key)
  return {
    extend: (next) => {
      until = Math.max(until, endOf(next))
    },
    end,
  }
}

/** The lifetime for a token without expiry, or no token. */
const lasting: TokenLifetime = { extend: () => undefined, end: () => undefined }

/** One authenticated HTTP request, and the lifetime its token gives a stream. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Call } from '../../core/call.ts'
import { asGatewayError, type GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import { attempt } from '../../core/time/waiting.ts'
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

/** How long a stream may stay open: as long as its token is valid, and the configuration knows its caller. */
export interface TokenLifetime {
  /** Renews it for another request of the caller, whose token may expire later. */
  extend(caller: Pick<HttpContext, 'principal' | 'presentCaller'>): void
  /** Cancels it: the stream is closed. */
  end(): void
}

/** How long the stream of a caller that is not known any more stays open, in milliseconds: features say why it ends. */
const REVOKED_MS = 3000

type Caller = Pick<HttpContext, 'principal' | 'presentCaller'>

/** Calls `onOver` once the token of a caller has expired, or a reload has withdrawn it. */
export function tokenLifetime(
  { edge: { ticker }, ...first }: Caller & Pick<HttpContext, 'edge'>,
  onOver: () => void,
): TokenLifetime {
  let caller: Caller = first
  let until = endOf(first.principal)
  let known: unknown
  /** Authenticates the caller again after a reload; before that, nothing has changed. */
  const look = (): void => {
    const { presentCaller } = caller
    const present = presentCaller && attempt(presentCaller)
    if (present === known) return
    known = present
    if (!(present instanceof Promise)) return
    present.catch((error: unknown) => {
      const isCurrent = present === known
      if (isCurrent && isWithdrawn(error)) until = Math.min(until, Date.now() + REVOKED_MS)
      else if (isCurrent) known = undefined
    })
  }
  const tick = (now: number): void => {
    look()
    if (until > now) return
    end()
    onOver()
  }
  const key = ticker.add({ tick })
  const end = (): void => ticker.remove(key)
  return {
    extend: (next) => {
      caller = next
      until = Math.max(until, endOf(next.principal))
    },
    end,
  }
}

/** Whether an error of authentication says that credentials are not valid any more; when they expire is known already. */
function isWithdrawn(error: unknown): boolean {
  const { code } = asGatewayError(error)
  return code !== 'SERVER_UNAVAILABLE' && code !== 'OVERLOADED' && code !== 'TOKEN_EXPIRED'
}

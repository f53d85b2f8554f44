/** One authenticated HTTP request, and how long its token lets a stream live. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import { Registry } from '../../core/registry.ts'
import type { Edge } from './edge.ts'
import { endOf } from '../auth/verified.ts'

/** One request to an MCP endpoint, and who makes it. */
export interface HttpContext {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  /** The server the URL names; absent where it names all. */
  readonly upstream: string | undefined
  readonly principal: Principal
  /** The configuration the request began with. */
  readonly edge: Edge
  /** Names the request in logs and in the answer. */
  readonly requestId: string
  /** The challenge to a caller that could get another token; nothing for other errors than a missing scope. */
  readonly challenge?: (error: GatewayError) => string | undefined
}

/** How long something may stay open: as long as the token it was opened with is good. */
export interface TokenLifetime {
  /** Its caller came again, maybe with a token that is good for longer. */
  extend(principal: Principal): void
  /** It is closed already. */
  end(): void
}

interface Running {
  until: number
  onOver(): void
}

/** How exact ends are, in milliseconds. */
const TICK_MS = 1000

/** Every lease that ends some time; one timer serves them all. */
const running = new Registry<number, Running>()
let last = 0
setInterval(() => {
  const now = Date.now()
  for (const each of running.values()) if (each.until <= now) each.onOver()
}, TICK_MS).unref()

/** Calls `onOver` once the token of a caller is over. */
export function tokenLifetime(principal: Principal, onOver: () => void): TokenLifetime {
  const until = endOf(principal)
  if (until === Infinity) return lasting
  const key = ++last
  const end = (): void => void running.delete(key)
  const own = {
    until,
    onOver: () => {
      end()
      onOver()
    },
  }
  running.set(key, own)
  return {
    extend: (next) => {
      own.until = Math.max(own.until, endOf(next))
    },
    end,
  }
}

/** That of a caller whose token does not end, or who has none. */
const lasting: TokenLifetime = { extend: () => undefined, end: () => undefined }

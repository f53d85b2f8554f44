/**
 * The part of the running configuration that the listener uses. A reload replaces the edge, so a request reads it
 * once and keeps it until it finishes.
 */
import type { AuthSettings } from '../../core/auth-settings.ts'
import type { ByteExchange, Call } from '../../core/call.ts'
import type { PageSignIn } from '../../core/events.ts'
import type { Log } from '../../core/log.ts'
import type { Principal } from '../../core/principal.ts'
import type { FindProxy } from '../../core/proxy.ts'
import type { ListenSettings } from '../../core/settings.ts'
import type { HeaderMirror } from '../../protocol/headers.ts'
import { type AuthGate, createAuthGate } from '../auth/auth-gate.ts'
import { type Access, createAccess } from './origin.ts'
import type { Bodies } from './body.ts'
import type { StatusMapping } from './statuses.ts'
import type { Ticker } from './ticker.ts'

/** A path of documents; `*` is the name of a server. */
export interface DocumentPath {
  readonly path: string
  /** Whether it is readable without authentication. */
  isOpen?(): boolean
  /** Whether readers can have it as a page for people or as JSON. */
  readonly isNegotiated?: true
}

/** A path whose requests are calls of the gateway; its last segment can be `:name`, a member of the params. */
export interface RoutePath {
  readonly verb: 'GET' | 'POST'
  readonly path: string
  /** Whether the response is an event stream. */
  readonly isStream?: true
}

/** A path whose requests or responses are bytes; its last segment can be `:name`. */
export interface BytePath {
  readonly verb: 'GET' | 'POST' | 'PUT'
  readonly path: string
  /** The caller that the URL names, if it is a credential. @throws if it is not valid */
  bearer?(url: Pick<ByteExchange, 'name' | 'query'>): Promise<Principal | undefined>
}

/** One version of the configuration, as the listener sees it. Immutable. */
export interface HttpRuntime {
  readonly listen: ListenSettings
  readonly auth: AuthSettings
  /** The proxies for requests to issuers. */
  readonly proxies: FindProxy
  has(upstream: string): boolean
  /** Which arguments of the called tool are repeated in headers. */
  mirror(call: Call): HeaderMirror | Promise<HeaderMirror>
  /** Whether the caller may make the tool call. */
  isPermitted?(call: Call): Promise<boolean>
  /** The HTTP status of each error of a call, for clients with sessions; undefined if all have 200. */
  readonly statusMapping?: StatusMapping | undefined
  /** The paths of the gateway's documents. */
  readonly documents: readonly DocumentPath[]
  /** The paths whose requests are calls. */
  readonly routes?: readonly RoutePath[]
  /** The paths whose requests or responses are bytes. */
  readonly byteRoutes?: readonly BytePath[]
}

/** A runtime, with the objects that the listener creates once for it. */
export interface Edge {
  readonly runtime: HttpRuntime
  readonly access: Access
  readonly authGate: AuthGate
  /** The path of the gateway for clients, without a trailing slash. */
  readonly prefix: string
  /** Those of the listener, for all edges. */
  readonly ticker: Ticker
  readonly bodies: Bodies
}

interface Options {
  /** The current runtime. */
  runtime(): HttpRuntime
  /** The port of the listener. */
  port(): number
  readonly pageSignIn: Pick<PageSignIn, 'identity'>
  readonly ticker: Ticker
  readonly bodies: Bodies
  readonly log: Log
}

/** Returns the edge of the current runtime, created once for each runtime. */
export function createEdges({ runtime, port, pageSignIn, ticker, bodies, log }: Options): () => Edge {
  let edge: Edge | undefined
  return () => {
    const current = runtime()
    if (edge?.runtime === current) return edge
    const { listen, auth, proxies } = current
    edge = {
      runtime: current,
      access: createAccess(listen),
      authGate: createAuthGate({ auth, listen, port: port(), pageSignIn, proxies, log }),
      ticker,
      bodies,
      prefix: new URL(listen.publicUrl ?? 'http://localhost/').pathname.replace(/\/$/, ''),
    }
    return edge
  }
}

/**
 * The part of the running configuration that the listener uses. A reload replaces the edge, so a request reads it
 * once and keeps it until it finishes. Also such a request (`HttpContext`), and what it takes from the edge.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { AuthSettings } from '../../core/auth-settings.ts'
import type { Call } from '../../core/call.ts'
import type { BytePath, DocumentPath, RoutePath } from '../../core/http-paths.ts'
import type { PageSignIn } from '../../core/audit-step.ts'
import type { ClientPeer } from '../../core/exchange.ts'
import type { Log } from '../../core/log.ts'
import type { Principal } from '../../core/principal.ts'
import type { FindProxy } from '../../core/proxy.ts'
import type { ListenSettings, Settings } from '../../core/settings.ts'
import type { HeaderMirror } from '../../protocol/headers.ts'
import { type AuthGate, createAuthGate } from '../auth/auth-gate.ts'
import { type Access, createAccess } from './origin.ts'
import type { Bodies } from './body.ts'
import { asGatewayError, type GatewayError } from '../../core/error.ts'
import { gatewayMetadataOf } from '../../protocol/meta-keys.ts'
import { headerTrace } from '../../protocol/trace-context.ts'
import type { ClientRequest } from '../session/response-sink.ts'
import { attempt } from '../../core/time/waiting.ts'
import { endOf } from '../auth/verified.ts'
import { isObject } from '../../core/json/json.ts'
import { Registry } from '../../core/registry.ts'
import { world } from '../../core/world.ts'

/** A call of a tool. */
export interface Called {
  /** The call with its tool, if a server lists one. */
  readonly call: Call
  /** Which arguments of the tool are repeated in headers. */
  readonly mirror: HeaderMirror
}

/** One version of the configuration, as the listener sees it. Immutable. */
export interface HttpRuntime {
  readonly listen: ListenSettings
  readonly auth: AuthSettings
  /** The proxies for requests to issuers. */
  readonly proxies: FindProxy
  has(upstream: string): boolean
  /** Looks up the tool that a call names. */
  withTool(call: Call): Called | Promise<Called>
  /** Whether servers get tokens in exchange for those of callers. */
  readonly exchangesTokens?: boolean
  /** The process that has what a call relies on; undefined if any of those with the same store can make it. */
  placeOf?(call: Call): Promise<string | undefined> | undefined
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
  /** The connection of the client, where another gateway has it and forwarded the request. */
  readonly forwardedFrom?: ClientPeer
  /** Identifies the token of the client, which that gateway has. */
  readonly forwardedToken?: string | undefined
}

/** What the call of a request gets of it. */
export function factsOf({
  incoming,
  requestId,
  principal,
  presentCaller,
  forwardedFrom,
}: HttpContext): ClientRequest {
  const { headers } = incoming
  const trace = headerTrace(headers)
  return {
    requestId,
    principal,
    presentCaller,
    peer: forwardedFrom ?? incoming,
    trace,
    gatewayMetadata: gatewayMetadataOf(headers),
  }
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
      if (isCurrent && isWithdrawn(error)) until = Math.min(until, world.now() + REVOKED_MS)
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

/** The HTTP statuses of calls within a session, if errors are mapped to statuses. */
export interface StatusMapping {
  /** The status of a response by its error code. */
  statusOf(errorCode: unknown): number
  /**
   * How long the head of a response may be delayed, in milliseconds: as long as any call may be silent, so that no
   * timeout is sent with status 200.
   */
  readonly maxHeadDelay: number
}

/** The mapping of statuses; undefined if all errors have 200, which every client can read. */
export function statusMapping(settings: Mapped): StatusMapping | undefined {
  return isMapped(settings) ? { statusOf: mappedStatus, maxHeadDelay: maxHeadDelay(settings) } : undefined
}

type Mapped = Pick<Settings, 'features' | 'profile' | 'upstreams'>

function isMapped({ features, profile }: Mapped): boolean {
  const own = features.errors?.common
  if (!isObject(own)) return false
  return (own.http_status ?? (profile === 'corporate' ? 'mapped' : 'compatible')) === 'mapped'
}

function maxHeadDelay({ features, upstreams }: Mapped): number {
  const limits = features.limits
  const given: readonly unknown[] = [limits?.common, ...Object.values(limits?.upstreams ?? {})].map((each) =>
    isObject(each) ? each.timeout : undefined,
  )
  const ofTools = upstreams.flatMap(({ tools }) => Object.values(tools).map(({ timeout }) => timeout))
  const all = [...given, ...ofTools].filter((each) => typeof each === 'number').filter(Number.isFinite)
  return Math.max(0, ...all) + DEADLINE_MARGIN_MS
}

/** How long after its deadline a timeout may be reported, in milliseconds. */
const DEADLINE_MARGIN_MS = 5000

/** The HTTP status of each JSON-RPC error, for clients that read statuses. */
const statuses: Readonly<Record<number, number>> = {
  [-32700]: 400,
  [-32600]: 400,
  [-32602]: 400,
  [-32603]: 500,
  [-32000]: 500,
  [-32003]: 429,
  [-32004]: 504,
  [-32005]: 413,
  [-32006]: 503,
  [-32007]: 409,
  // 404 would mean that the session has ended (2025-03-26 basic/transports, session management).
  [-32601]: 200,
  [-32002]: 200,
}

function mappedStatus(errorCode: unknown): number {
  return typeof errorCode === 'number' ? (statuses[errorCode] ?? 200) : 200
}

/*
 * The timer of a listener: it keeps open replies alive, and ends streams when the token of their caller expires. One timer
 * serves all of them, so that thousands of open streams cost no timer each.
 */

/** Called at each tick until it is removed; `now` is in milliseconds since 1970. */
interface Ticking {
  tick(now: number): void
}

const TICK_MS = 500

/** The replies and streams of one listener. */
export class Ticker {
  readonly #all = new Registry<number, Ticking>()
  #last = 0
  readonly #timer = world
    .setInterval(() => {
      const now = world.now()
      for (const each of this.#all.values()) each.tick(now)
    }, TICK_MS)
    .unref()

  /** Returns the key that removes it. */
  add(each: Ticking): number {
    const key = ++this.#last
    this.#all.set(key, each)
    return key
  }

  remove(key: number): void {
    this.#all.delete(key)
  }

  close(): void {
    world.clearInterval(this.#timer)
  }
}

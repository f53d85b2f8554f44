/**
 * Paths of features whose requests are calls: the response is the result as JSON, or an event stream that a feature
 * sends notifications to. They run with the same checks as calls over MCP.
 */
import type { HttpBindings } from '@hono/node-server'
import type { Context, Hono } from 'hono'
import type { ClientStream, Handler } from '../../core/call.ts'
import { Payload } from '../../core/payload.ts'
import { encodeNotification } from '../../protocol/jsonrpc.ts'
import { routeMethod } from '../../protocol/methods.ts'
import { encodeEvent } from '../../protocol/sse.ts'
import { type HttpContext, tokenLifetime } from './context.ts'
import type { Edge, RoutePath } from './edge.ts'
import { HttpReply } from './reply.ts'
import { bodyParams, callGateway, jsonBody, type RequestedDocument, sendJson } from './routes.ts'

type Env = { Bindings: HttpBindings }
type Fields = Readonly<Record<string, string>>

interface Options {
  edge(): Edge
  readonly handle: Handler
  /** Serves an authorized request, for the given server. */
  guarded(
    context: Context<Env>,
    serve: (exchange: HttpContext) => Promise<void>,
    request: RequestedDocument,
  ): Promise<Response>
}

/** A path that was requested, and the members of the params in it. */
interface FoundRoute<Route> {
  readonly route: Route
  readonly named: Fields
}

/** Adds the paths of the running configuration. */
export function addCalls(app: Hono<Env>, { edge, handle, guarded }: Options): void {
  app.on(['GET', 'POST'], '/*', async (context, next) => {
    const { path, method } = context.req
    const found = routeAt(method, path, edge().runtime.routes ?? [])
    if (!found) return next()
    const { upstream, ...query } = context.req.query()
    return guarded(context, (exchange) => serve(exchange, found, { query, handle }), {
      upstream,
      isOpen: false,
      isCall: true,
    })
  })
}

/** The route of a request. */
export function routeAt<Route extends Pick<RoutePath, 'path'> & { readonly verb: string }>(
  verb: string,
  path: string,
  routes: readonly Route[],
): FoundRoute<Route> | undefined {
  for (const route of routes) {
    if (route.verb !== verb) continue
    const [before = '', name] = route.path.split(':')
    if (name === undefined && path === before) return { route, named: {} }
    const rest = path.slice(before.length)
    if (name !== undefined && path.startsWith(before) && /^[^/]+$/.test(rest))
      return { route, named: { [name]: rest } }
  }
  return undefined
}

async function serve(
  exchange: HttpContext,
  { route, named }: FoundRoute<RoutePath>,
  { query, handle }: { readonly query: Fields; readonly handle: Handler },
): Promise<void> {
  const { incoming } = exchange
  const method = routeMethod(route)
  if (route.isStream) {
    const eventId = incoming.headers['last-event-id']
    const after = typeof eventId === 'string' && eventId !== '' ? { after: eventId } : {}
    return serveStream(exchange, { method, params: Payload.of({ ...query, ...after, ...named }) }, handle)
  }
  const params =
    route.verb === 'GET'
      ? Payload.of({ ...query, ...named })
      : bodyParams(await jsonBody(exchange)).with(named)
  sendJson(exchange, await callGateway(exchange, { method, params }, handle))
}

/** Opens an event stream. If the call fails, its error is the response. */
async function serveStream(
  exchange: HttpContext,
  request: { readonly method: string; readonly params: Payload },
  handle: Handler,
): Promise<void> {
  const { outgoing, requestId, edge } = exchange
  // A client that is already gone would never emit `close`.
  if (outgoing.destroyed) return
  const closed = new AbortController()
  const reply = new HttpReply(outgoing, {
    requestId,
    ticker: edge.ticker,
    canStream: true,
    onSlow: () => closed.abort(),
  })
  const lifetime = tokenLifetime(exchange, () => outgoing.end())
  outgoing.on('close', () => {
    lifetime.end()
    closed.abort()
  })
  const stream: ClientStream = {
    isOpen: () => !reply.isGone,
    closed: closed.signal,
    emit: ({ method, params }, id) => {
      reply.open()
      reply.write(encodeEvent(encodeNotification(method, params), id))
    },
    drained: () => reply.flushed(),
    end: () => outgoing.end(),
  }
  await callGateway(exchange, { ...request, stream }, handle)
  reply.open()
}

/**
 * Paths of features whose requests or responses are bytes: streams in both directions, at the pace of the slower side.
 * They run as calls, with the same checks; where the URL itself is a credential, it names the caller.
 */
import type { HttpBindings } from '@hono/node-server'
import type { Context, Hono } from 'hono'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { pipeline } from 'node:stream/promises'
import type { ByteExchange, ByteResponse, Handler } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import type { PageSignIn } from '../../core/events.ts'
import { Payload } from '../../core/payload.ts'
import { isFromHere } from '../../core/web.ts'
import { presentPrincipal } from '../auth/authenticator.ts'
import { visitorNamed } from '../pages/visitors.ts'
import { routeMethod } from '../../protocol/methods.ts'
import { routeAt } from './calls.ts'
import type { Arrivals } from './arrivals.ts'
import type { HttpContext } from './context.ts'
import type { Edge } from './edge.ts'
import { callGateway, type RequestedDocument } from './routes.ts'

type Env = { Bindings: HttpBindings }

interface Options {
  edge(): Edge
  readonly handle: Handler
  readonly transfers: Transfers
  readonly pageSignIn: Pick<PageSignIn, 'link'>
  /** Serves an authorized request. */
  guarded(
    context: Context<Env>,
    serve: (exchange: HttpContext) => Promise<void>,
    request: RequestedDocument,
  ): Promise<Response>
}

/** How long either side may be silent, in milliseconds. */
const IDLE_TIMEOUT_MS = 60_000
/** How long the rest of a refused body is read and discarded before the error is sent, in milliseconds. */
const DRAIN_TIMEOUT_MS = 1000

/** The transfers in progress. */
export class Transfers {
  #count = 0
  readonly #arrivals: Pick<Arrivals, 'exempt' | 'mayDiscard'>
  /** How long either side may be silent, in milliseconds. */
  readonly idleTimeoutMs: number

  constructor(arrivals: Pick<Arrivals, 'exempt' | 'mayDiscard'>, idleTimeoutMs = IDLE_TIMEOUT_MS) {
    this.#arrivals = arrivals
    this.idleTimeoutMs = idleTimeoutMs
  }

  get isAny(): boolean {
    return this.#count > 0
  }

  /** Reads the rest of a body before its error is sent: a client that is disconnected while it sends may never read it. */
  async discard(incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> {
    if (incoming.complete || incoming.destroyed) return
    outgoing.setHeader('connection', 'close')
    if (!this.#arrivals.mayDiscard(incoming)) return
    await new Promise<void>((resolve) => {
      const timer = setTimeout(resolve, DRAIN_TIMEOUT_MS)
      incoming.once('close', () => {
        clearTimeout(timer)
        resolve()
      })
      // A reader that was stopped while it waited for bytes would keep them from flowing.
      incoming.removeAllListeners('readable')
      incoming.resume()
    })
  }

  /** Counts one until it ends. */
  async during(incoming: IncomingMessage, transfer: () => Promise<unknown>): Promise<void> {
    this.#arrivals.exempt(incoming)
    this.#count++
    try {
      await transfer()
    } finally {
      this.#count--
    }
  }
}

/** Adds the paths of the running configuration. */
export function addByteRoutes(app: Hono<Env>, { guarded, edge, ...options }: Options): void {
  app.on(['GET', 'POST', 'PUT'], '/*', async (context, next) => {
    const { path, method } = context.req
    const found = routeAt(method === 'HEAD' ? 'GET' : method, path, edge().runtime.byteRoutes ?? [])
    if (!found) return next()
    const { route, named: params } = found
    const name = decoded(Object.values(params)[0] ?? '')
    const query = new URL(context.req.url).searchParams
    const { bearer } = route
    const request = {
      upstream: undefined,
      isOpen: false,
      isCall: true,
      ...(bearer && {
        bearer: async () => {
          const named = await bearer({ name, query })
          // It was allowed to when the URL was made.
          return named && presentPrincipal(named, edge().runtime.auth)
        },
      }),
    } as const
    const serve = async (http: HttpContext): Promise<void> => {
      const { transfers } = options
      const rest = { name, query, signInLink: options.pageSignIn.link(path) }
      const exchange = exchangeOf(http, transfers, rest)
      const call = { method: routeMethod(route), params: Payload.of({}), exchange }
      await transfers.during(http.incoming, () =>
        served(http, transfers, () => callGateway(http, call, options.handle)),
      )
    }
    return guarded(context, serve, request)
  })
}

/** A segment of a path; as it is if it is not encoded correctly. */
function decoded(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}

/** Serves a request, and reads the rest of its body if it is refused. */
async function served(
  { incoming, outgoing }: HttpContext,
  transfers: Transfers,
  serve: () => Promise<unknown>,
): Promise<void> {
  const { socket } = incoming
  const onIdle = (): void => void socket.destroy()
  socket.setTimeout(transfers.idleTimeoutMs, onIdle)
  try {
    await serve()
  } catch (error) {
    if (!outgoing.headersSent) await transfers.discard(incoming, outgoing)
    throw error
  } finally {
    socket.off('timeout', onIdle)
    // Once a response is sent, the time is the one that its connection may be idle.
    if (!outgoing.writableFinished) socket.setTimeout(0)
  }
}

function exchangeOf(
  { incoming, outgoing, edge, requestId }: HttpContext,
  transfers: Transfers,
  rest: Pick<ByteExchange, 'name' | 'query' | 'signInLink'>,
): ByteExchange {
  const { method, headers } = incoming
  return {
    ...rest,
    verb: method === 'HEAD' || method === 'POST' || method === 'PUT' ? method : 'GET',
    headers,
    body: bodyOf(incoming),
    isFromHere: isFromHere(headers, edge.runtime.listen.publicUrl),
    person: async () => {
      const { auth } = edge.runtime
      if (auth.users.length === 0 && rest.signInLink === undefined) return undefined
      const request = { incoming, outgoing, upstream: undefined, requestId }
      const principal = await edge.authGate.authenticateService(request)
      return visitorNamed(principal, auth)?.by ?? principal.id
    },
    send: async (response) => {
      if (response.status >= 400) await transfers.discard(incoming, outgoing)
      await send(outgoing, { ...response, headers: { ...response.headers, 'x-request-id': requestId } })
    },
  }
}

async function* bodyOf(incoming: IncomingMessage): AsyncGenerator<Uint8Array> {
  try {
    // A body that is refused is not destroyed: the error is sent on the same connection.
    yield* incoming.iterator({ destroyOnReturn: false })
  } catch (cause) {
    throw disconnected(cause)
  }
}

async function send(outgoing: ServerResponse, { status, headers, body }: ByteResponse): Promise<void> {
  if (outgoing.destroyed) throw disconnected(undefined)
  outgoing.writeHead(status, headers)
  if (typeof body !== 'object') {
    outgoing.end(body)
    return
  }
  if (outgoing.req.method === 'HEAD') {
    outgoing.end()
    return
  }
  try {
    await pipeline(body, outgoing)
  } catch (cause) {
    throw cause instanceof GatewayError ? cause : disconnected(cause)
  }
}

function disconnected(cause: unknown): GatewayError {
  return new GatewayError('CANCELLED', 'The client disconnected.', { cause })
}

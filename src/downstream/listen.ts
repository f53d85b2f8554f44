import { createServer, type Server } from 'node:http'
import { setTimeout as wait } from 'node:timers/promises'
import { getRequestListener, type HttpBindings } from '@hono/node-server'
import { RESPONSE_ALREADY_SENT } from '@hono/node-server/utils/response'
import { type Context, Hono } from 'hono'
import type { Call, Handler } from '../core/call.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import type { Log } from '../core/log.ts'
import { anonymous } from '../core/principal.ts'
import type { ListenSettings } from '../core/settings.ts'
import type { Seal } from '../bridge/seal.ts'
import type { Mirror } from '../wire/headers.ts'
import { createAccess } from './access.ts'
import { readBody } from './body.ts'
import type { Exchange } from './exchange.ts'
import { HttpFront, refuse, requestId } from './http.ts'
import { LegacySse } from './legacy-sse.ts'

interface Options {
  readonly handle: Handler
  mirror(call: Call): Mirror | Promise<Mirror>
  has(upstream: string): boolean
  readonly listen: () => ListenSettings
  readonly seal: Seal
  /** What `/ready` answers: whether calls can be served, and the state of each part. */
  ready(): { readonly isReady: boolean; readonly checks: Readonly<Record<string, unknown>> }
  /** The page for people at `/`. */
  page(): string
  readonly log: Log
}

/** The open HTTP listener. */
export interface Listener {
  readonly url: string
  /** Takes no new connections; resolves when the calls under way have ended, or after `patience` ms. */
  drain(patience: number): Promise<void>
  /** Ends sessions and streams. */
  close(): Promise<void>
}

type Env = { Bindings: HttpBindings }

/** Listens for clients over HTTP. @throws the system's error where the address can not be had */
export async function listenHttp(options: Options): Promise<Listener> {
  const { listen, log } = options
  let isClosing = false
  let settings = listen()
  let access = createAccess(settings)
  const current = (): typeof access => {
    // The configuration may have been read again.
    if (listen() !== settings) {
      settings = listen()
      access = createAccess(settings)
    }
    return access
  }
  const front = new HttpFront({
    ...options,
    authenticate: () => anonymous,
    access: current,
    body: () => listen().body,
  })
  const prefix = (): string => new URL(listen().publicUrl ?? 'http://localhost/').pathname.replace(/\/$/, '')
  const sse = new LegacySse({ handle: options.handle, prefix, log })

  const guarded = async (
    { env: { incoming, outgoing }, req }: Context<Env>,
    serve: (exchange: Exchange) => Promise<void> | void,
  ): Promise<Response> => {
    const upstream = req.param('upstream')
    try {
      if (!listen().legacySse) throw new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
      current().check(incoming)
      current().allow(incoming, outgoing)
      if (upstream !== undefined && !options.has(upstream))
        throw new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
      await serve({ incoming, outgoing, upstream, principal: anonymous, requestId: requestId(incoming) })
    } catch (error) {
      refuse(outgoing, asGatewayError(error), 'null', log)
    }
    return RESPONSE_ALREADY_SENT
  }

  const app = new Hono<Env>()
  const open = (context: Context<Env>): Promise<Response> =>
    guarded(context, (exchange) => sse.stream(exchange))
  app.get('/sse', open)
  app.get('/sse/:upstream', open)
  app.post('/messages', (context) =>
    guarded(context, async (exchange) =>
      sse.post(exchange, await readBody(exchange.incoming, listen().body)),
    ),
  )
  app.get('/health', (context) => context.json({ status: 'ok' }))
  app.get('/ready', (context) => {
    const { isReady, checks } = options.ready()
    return context.json(
      { status: isReady && !isClosing ? 'ready' : 'not_ready', checks },
      isReady && !isClosing ? 200 : 503,
    )
  })
  app.get('/', (context) => context.html(options.page(), 200, pageHeaders))
  app.notFound((context) => context.json({ error: 'Not found. The MCP endpoint is /mcp.' }, 404))

  const server = createServer({
    requestTimeout: 30_000,
    headersTimeout: 15_000,
    keepAliveTimeout: 65_000,
    connectionsCheckingInterval: 5000,
  })
  const others = getRequestListener(app.fetch, { overrideGlobalObjects: false })
  server.on('request', (incoming, outgoing) => {
    // Every call comes this way: routing it here costs a tenth less than anywhere else.
    const endpoint = endpointOf(incoming.url)
    if (endpoint) void front.serve(incoming, outgoing, endpoint.upstream)
    else void others(incoming, outgoing)
  })
  await bind(server, settings)
  const address = server.address()
  const port = typeof address === 'object' && address ? address.port : settings.port

  return {
    url: `http://${settings.host.includes(':') ? `[${settings.host}]` : settings.host}:${port}`,
    drain: async (patience) => {
      isClosing = true
      server.close()
      const until = Date.now() + patience
      while (front.isBusy && Date.now() < until) await wait(20)
    },
    close: async () => {
      isClosing = true
      const closed = new Promise((resolve) => server.once('close', resolve))
      if (server.listening) server.close()
      front.sessions.close()
      sse.close()
      server.closeIdleConnections()
      setTimeout(() => server.closeAllConnections(), 500).unref()
      if (server.listening || (await connections(server)) > 0) await closed
    },
  }
}

function connections(server: Server): Promise<number> {
  return new Promise((resolve) => server.getConnections((_error, count) => resolve(count)))
}

/** The MCP endpoint a URL is of: that of one server, or of all. */
function endpointOf(url = ''): { readonly upstream?: string } | undefined {
  if (url === '/mcp') return everything
  const path = url.split('?', 1)[0] ?? ''
  // Some clients lose their body over a redirect, so a slash at the end is taken as it is.
  const [, name] = /^\/mcp(?:\/([^/]*))?\/?$/.exec(path) ?? [undefined, null]
  if (name === null) return undefined
  return name === undefined || name === '' ? everything : { upstream: name }
}

const everything = {}

const pageHeaders = {
  'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'",
  'x-content-type-options': 'nosniff',
  'referrer-policy': 'no-referrer',
}

function bind(server: Server, { host, port }: ListenSettings): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, () => {
      server.off('error', reject)
      resolve()
    })
  })
}

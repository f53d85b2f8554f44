/**
 * Protection against DNS rebinding and cross-origin requests: checks of `Host` and `Origin`, and CORS headers.
 */
import type { IncomingMessage, ServerResponse } from 'node:http'
import { isIP } from 'node:net'
import { GatewayError } from '../../core/error.ts'
import type { ListenSettings } from '../../core/settings.ts'

const EXPOSED =
  'Mcp-Session-Id, MCP-Protocol-Version, WWW-Authenticate, X-Request-Id, Retry-After, ' +
  'RateLimit, RateLimit-Policy, X-RateLimit-Limit, X-RateLimit-Remaining, X-RateLimit-Reset'
const ALLOWED = [
  'accept',
  'authorization',
  'baggage',
  'content-type',
  'last-event-id',
  'mcp-method',
  'mcp-name',
  'mcp-protocol-version',
  'mcp-session-id',
  'traceparent',
  'tracestate',
  'x-mcp-dry-run',
  'x-mcp-session-token',
  'idempotency-key',
  'x-idempotency-key',
  'x-request-id',
]

/** Which browser origins may call the gateway, and under which host names. */
export interface Access {
  /** Rejects requests that a foreign page may have caused a browser to send. @throws FORBIDDEN */
  check(incoming: IncomingMessage): void
  /** The same, but accepts an IP address or no Host at all, as probes send them. @throws FORBIDDEN */
  checkProbe(incoming: IncomingMessage): void
  /** Allows the calling page to read the response. */
  allow(incoming: IncomingMessage, outgoing: ServerResponse): void
  /** Answers a preflight request. */
  preflight(incoming: IncomingMessage, outgoing: ServerResponse): void
}

/** An origin as browsers send it: without the default port of its scheme. */
function withoutPort(written: string): string {
  const origin = URL.canParse(written) ? new URL(written).origin : 'null'
  // Non-web schemes have no default port.
  return origin === 'null' ? written : origin
}

/** The listen address of a gateway, and its public URL. */
interface Address {
  readonly host: string
  readonly port: number
  readonly publicUrl?: string | undefined
}

/** Whether a gateway accepts requests for a host name or address. */
function isCalledBy(name: string, { host, publicUrl }: Address): boolean {
  const own = publicUrl === undefined ? undefined : new URL(publicUrl)
  if (name === own?.hostname || isLoopback(name)) return true
  // On other interfaces the host names are unknown, unless there is a public URL.
  return !isLoopback(host) && (own === undefined || isAddress(name))
}

/** Whether an origin is one of the gateway, as far as it knows; `port` is the port of the listener. */
export function isOwnOrigin(origin: string, { host, port, publicUrl }: Address): boolean {
  if (!URL.canParse(origin)) return false
  const called = new URL(origin)
  if (publicUrl !== undefined && called.origin === new URL(publicUrl).origin) return true
  // On loopback the port is known; elsewhere a proxy or container may use another port.
  if (isLoopback(host)) return isLoopback(called.hostname) && Number(called.port || 80) === port
  return isCalledBy(called.hostname, { host, port, publicUrl })
}

/** Checks `Host` against DNS rebinding and `Origin` against other sites (2025-11-25 basic/transports). */
export function createAccess(listen: ListenSettings): Access {
  const { publicUrl, origins } = listen
  const known = new Set(origins.map(withoutPort))
  if (publicUrl !== undefined) known.add(new URL(publicUrl).origin)

  const isAllowedHost = (name: string | undefined): boolean => name !== undefined && isCalledBy(name, listen)
  const isAllowedOrigin = (origin: string): boolean => {
    if (known.has('*') || known.has(origin)) return true
    if (!URL.canParse(origin)) return false
    const { protocol, hostname: name } = new URL(origin)
    return (protocol === 'http:' || protocol === 'https:') && isLoopback(name)
  }

  const checkOrigin = ({ headers }: IncomingMessage): void => {
    if (headers.origin === undefined || isAllowedOrigin(headers.origin)) return
    throw new GatewayError('FORBIDDEN', 'Forbidden: this origin is not allowed.', {
      suggestion: 'Add the origin to listen.origins.',
    })
  }

  let lastHost: string | undefined

  return {
    checkProbe: (incoming) => {
      const { host: called } = incoming.headers
      const name = hostname(called)
      // Browsers always send a Host, and a rebound DNS name is never an IP address.
      const isProbe = called === undefined || (name !== undefined && isAddress(name))
      if (!isProbe && !isAllowedHost(name)) throw wrongHost()
      checkOrigin(incoming)
    },
    check: (incoming) => {
      const { headers } = incoming
      // Almost every request has the same Host as the one before.
      if (headers.host === undefined || headers.host !== lastHost) {
        if (!isAllowedHost(hostname(headers.host))) throw wrongHost()
        lastHost = headers.host
      }
      checkOrigin(incoming)
    },
    allow: ({ headers }, outgoing) => {
      if (headers.origin === undefined || !isAllowedOrigin(headers.origin)) return
      outgoing.setHeader('access-control-allow-origin', headers.origin)
      outgoing.setHeader('access-control-expose-headers', EXPOSED)
      outgoing.setHeader('vary', 'Origin')
    },
    preflight: ({ headers }, outgoing) => {
      const requestedHeaders = headers['access-control-request-headers'] ?? ''
      const mirrored = requestedHeaders.split(',').map((each) => each.trim().toLowerCase())
      const params = mirrored.filter((each) => /^mcp-param-[!#$%&'*+\-.^_`|~0-9a-z]+$/.test(each))
      outgoing.writeHead(204, {
        'access-control-allow-methods': 'GET, POST, DELETE',
        'access-control-allow-headers': [...ALLOWED, ...params].join(', '),
        'access-control-max-age': '600',
      })
      outgoing.end()
    },
  }
}

/** Whether a host name or address is loopback. */
export function isLoopback(name: string): boolean {
  return (
    name === 'localhost' ||
    name.endsWith('.localhost') ||
    /^127(?:\.\d{1,3}){3}$/.test(name) ||
    name === '::1' ||
    name === '[::1]'
  )
}

function isAddress(name: string): boolean {
  return isIP(name.replaceAll(/[[\]]/g, '')) !== 0
}

function hostname(host: string | undefined): string | undefined {
  if (host === undefined) return undefined
  return URL.canParse(`http://${host}`) ? new URL(`http://${host}`).hostname : undefined
}

function wrongHost(): GatewayError {
  return new GatewayError('FORBIDDEN', 'Forbidden: the Host header names another server.', {
    suggestion: 'Set listen.public_url to the address clients use.',
  })
}

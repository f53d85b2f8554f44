/** HTTP requests to authorization servers: HTTPS, public addresses unless the configuration names others, bounded. */
import { LRUCache } from 'lru-cache'
import { lookup, type LookupAddress, promises as dns } from 'node:dns'
import type { LookupFunction } from 'node:net'
import { Agent, type Dispatcher, ProxyAgent, request } from 'undici'
import { isLoopbackHost, isNearHost, isPrivateAddress, isPrivateLiteral } from '../../core/address.ts'
import { GatewayError } from '../../core/error.ts'
import { type FindProxy, noProxy, type Proxy, proxyOptions } from '../../core/proxy.ts'
import { decodedText } from '../../protocol/content-coding.ts'

/** A request of an OAuth exchange. */
interface OAuthRequest {
  readonly method?: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: string
}

/** Requests to authorization servers: encrypted, bounded in size and time. */
export interface OAuthHttp {
  /** Follows a few redirects of a GET, to addresses that are permitted too. @throws SERVER_UNAVAILABLE */
  send(url: string, request?: OAuthRequest): Promise<Response>
  /** Sends a request to the server itself, whose address is configured. @throws SERVER_UNAVAILABLE */
  probe(url: string, request: OAuthRequest): Promise<Headers>
  /** By issuer and client, the name of the authentication that was accepted last. */
  readonly accepted: LRUCache<string, string>
  close(): Promise<void>
}

/** The timeout of one exchange, in milliseconds. */
const REQUEST_TIMEOUT_MS = 10_000
/** The maximum size of a response, in bytes. */
const MAX_RESPONSE_BYTES = 256 * 1024
const MAX_REDIRECTS = 3
/** How many clients are remembered. */
const MAX_ACCEPTED = 100

/**
 * `mayBePrivate` allows requests to private networks, which is not safe if the addresses come from an internet server.
 * Where a proxy resolves names, those that resolve to a private network here too are refused before.
 */
export function createOAuthHttp(mayBePrivate: boolean, proxies: FindProxy = noProxy): OAuthHttp {
  const options = {
    headersTimeout: REQUEST_TIMEOUT_MS,
    bodyTimeout: REQUEST_TIMEOUT_MS,
    keepAliveTimeout: 1000,
  }
  const own = new Agent({ ...options, connect: { timeout: REQUEST_TIMEOUT_MS } })
  const guarded = mayBePrivate
    ? own
    : new Agent({ ...options, connect: { timeout: REQUEST_TIMEOUT_MS, lookup: publicOnly } })
  const proxyAgents = new Map<Proxy, Dispatcher>()

  /** The connections for a URL; `direct` without a proxy. */
  const connectionsTo = (url: string, direct: Dispatcher): Dispatcher => {
    const proxy = proxies(new URL(url))
    if (!proxy) return direct
    const agent = proxyAgents.get(proxy) ?? new ProxyAgent({ ...options, ...proxyOptions(proxy) })
    proxyAgents.set(proxy, agent)
    return agent
  }

  const sendOnce = async (url: string, given: OAuthRequest): Promise<Response> => {
    checkUrl(url, mayBePrivate)
    try {
      const dispatcher = connectionsTo(url, guarded)
      if (dispatcher !== guarded && !mayBePrivate) await refusePrivateName(new URL(url).hostname)
      const answer = await request(url, { ...wire(given), dispatcher })
      const coding = answer.headers['content-encoding']
      const text = await decodedText(answer.body, coding, MAX_RESPONSE_BYTES)
      if (text === undefined) throw new Error(`the response has more than ${MAX_RESPONSE_BYTES} bytes`)
      const hasBody = answer.statusCode >= 200 && answer.statusCode !== 204 && answer.statusCode !== 304
      return new Response(hasBody ? text : null, {
        status: answer.statusCode,
        headers: flat(answer.headers),
      })
    } catch (error) {
      throw unreachable(url, error)
    }
  }

  return {
    accepted: new LRUCache<string, string>({ max: MAX_ACCEPTED }),
    send: async (url, given = {}) => {
      let place = url
      for (let redirects = 0; ; redirects++) {
        const response = await sendOnce(place, given)
        const target = given.method === undefined ? redirectOf(response, place) : undefined
        if (target === undefined || redirects === MAX_REDIRECTS) return response
        place = target
      }
    },
    probe: async (url, given) => {
      try {
        const answer = await request(url, { ...wire(given), dispatcher: connectionsTo(url, own) })
        // The response may be an endless stream.
        answer.body.on('error', () => undefined).destroy()
        return flat(answer.headers)
      } catch (error) {
        throw unreachable(url, error)
      }
    },
    close: async () => {
      await Promise.all([own, guarded, ...proxyAgents.values()].map((each) => each.destroy()))
    },
  }
}

function redirectOf(response: Response, from: string): string | undefined {
  const location = response.headers.get('location')
  const isRedirect = [301, 302, 303, 307, 308].includes(response.status)
  return isRedirect && location !== null && URL.canParse(location, from)
    ? new URL(location, from).href
    : undefined
}

/** Refuses URLs that are not allowed in OAuth exchanges. @throws SERVER_UNAVAILABLE */
export function checkUrl(url: string, mayBePrivate: boolean): URL {
  const parsed = URL.canParse(url) ? new URL(url) : undefined
  const isPlain = parsed?.protocol === 'http:' && isLoopbackHost(parsed.hostname)
  if (!parsed || (parsed.protocol !== 'https:' && !isPlain)) {
    throw refusedAddress(`must be https: ${displayUrl(url)}`)
  }
  if (!mayBePrivate && isPrivateLiteral(parsed.hostname)) {
    throw refusedAddress(`must not resolve to a private network: ${displayUrl(url)}`)
  }
  return parsed
}

function refusedAddress(what: string): GatewayError {
  const message = `The address of an authorization server ${what}`
  const fix = 'set oauth.issuer of this server in the configuration if that address is correct'
  return new GatewayError('SERVER_UNAVAILABLE', message, {
    ...permanent(`${message}.`, fix),
  })
}

function wire({ method = 'GET', headers, body }: OAuthRequest) {
  return {
    method,
    headers: { 'user-agent': 'gatehouse', ...headers },
    body: body ?? null,
    signal: AbortSignal.timeout(REQUEST_TIMEOUT_MS),
  }
}

function flat(headers: Readonly<Record<string, string | string[] | undefined>>): Headers {
  const pairs = Object.entries(headers).flatMap(([name, value]) =>
    [value ?? []].flat().map((item): [string, string] => [name, item]),
  )
  return new Headers(pairs)
}

/**
 * Refuses a name that resolves to a private network, or has no address here and is one of a private network by itself.
 * Other names without an address may be known to the proxy alone. @throws SERVER_UNAVAILABLE
 */
async function refusePrivateName(host: string): Promise<void> {
  const found = await dns.lookup(host, { all: true }).catch(() => [])
  const isPrivate =
    found.length === 0 ? isNearHost(host) : found.some(({ address }) => isPrivateAddress(address))
  if (isPrivate) throw refusedAddress(`must not resolve to a private network: ${host}`)
}

/** Resolves a name as the connection is made, so that it cannot resolve differently afterwards. */
const publicOnly: LookupFunction = (hostname, options, callback) => {
  lookup(hostname, { ...options, all: true }, (error, addresses) => {
    const [first] = addresses ?? []
    if (error || !first) return callback(error ?? new Error('The host name has no address.'), '')
    if (addresses.some(({ address }) => isPrivateAddress(address))) {
      return callback(new Error('The host name resolves to an address in a private network.'), '')
    }
    return options.all ? callback(null, addresses) : one(first, callback)
  })
}

function one({ address, family }: LookupAddress, callback: Parameters<LookupFunction>[2]): void {
  callback(null, address, family)
}

function unreachable(url: string, cause: unknown): GatewayError {
  if (cause instanceof GatewayError) return cause
  const why = cause instanceof Error ? cause.message : 'no answer'
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    `The authorization server at ${displayUrl(url)} cannot be reached: ${why}`,
    { cause },
  )
}

/** A URL without the parts that may be secret. */
function displayUrl(url: string): string {
  return URL.canParse(url) ? new URL(url).origin : 'an invalid URL'
}

/*
 * Failures of authorization servers. Most are mistakes in a configuration, here or there, that no retry mends: they are
 * permanent, and name the setting. Nothing that the authorization server wrote is repeated but the code of its error.
 */

/** What a response says of a failure: its HTTP status, and the error code of RFC 6749 §5.2 if it has one. */
export interface Failure {
  readonly status: number
  readonly code?: string
}

/** Codes that a later attempt may not meet. */
const passing: ReadonlySet<string> = new Set(['temporarily_unavailable', 'server_error', 'slow_down'])

/** The setting of a server that a code is about. */
const settingOf = new Map<string, string>(
  Object.entries({
    invalid_client: 'correct oauth.client_id, and its secret or key, of this server',
    unauthorized_client:
      'permit this grant for the client at the authorization server, or set oauth.grant of this server',
    unsupported_grant_type: 'set an oauth.grant of this server that the authorization server supports',
    invalid_scope: 'set oauth.scopes of this server to scopes that the client may have',
    invalid_target: 'correct oauth.resource of this server, or set it to off',
    invalid_dpop_proof: 'check the clocks, and oauth.dpop of this server',
  }),
)

/** The failure of a request that an authorization server refused: `what` it did not do, and what mends it. */
export function refused(what: string, { status, code }: Failure, fix?: string): GatewayError {
  const isPassing = code === undefined ? status === 429 || status >= 500 : passing.has(code)
  const why = code ?? (status < 300 ? 'its response is not as it should be' : `HTTP ${status}`)
  const message = `The authorization server ${what} (${why}).`
  return new GatewayError('SERVER_UNAVAILABLE', message, {
    ...(!isPassing &&
      permanent(
        message,
        fix ?? settingOf.get(code ?? '') ?? 'check oauth.issuer and the other oauth settings of this server',
      )),
    // A refusal, which is no evidence for other callers.
    ...(code !== undefined && { details: { http_status: 401, oauth_error: code } }),
  })
}

/** The failure of a response that cannot be used. */
export function unusableAnswer(why: string, cause?: unknown): GatewayError {
  const message = `The authorization server issued no token (${why}).`
  return new GatewayError('SERVER_UNAVAILABLE', message, {
    cause,
    ...permanent(message, 'check oauth.issuer and the other oauth settings of this server'),
  })
}

/** A failure that lasts until the operator of the gateway does what `fix` says. */
export function permanent(message: string, fix: string) {
  return {
    category: 'permanent',
    suggestion: `Ask the operator of the gateway to ${fix}.`,
    forOperator: `${message} To mend it, ${fix}.`,
  } as const
}

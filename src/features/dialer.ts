/**
 * HTTP requests to URLs that clients name, without a way into the networks of the gateway.
 *
 * Invariant: a connection is made to an address that was checked, and to no other. Each request resolves its host once,
 * checks every address, and connects to one of them; TLS still verifies the host's name. No connection is used twice, and no
 * redirect is followed. An origin in `allow` may use http and may be in a private network, but not at a reserved address,
 * where metadata services are.
 *
 * A proxy of the environment gets the name of the host, since it permits hosts by name, and resolves it itself. The same
 * check is made before: what has a forbidden address here is not sent to the proxy. A name without an address here is, unless
 * names of its kind belong to private networks; only the proxy can check what that one resolves to.
 */
import { lookup, Resolver } from 'node:dns/promises'
import { isIP } from 'node:net'
import type { Readable } from 'node:stream'
import { buildConnector, Client, type Dispatcher, ProxyAgent } from 'undici'
import { addressKind, bareHost, isNearHost } from '../core/address.ts'
import { type FindProxy, noProxy, proxyOptions } from '../core/proxy.ts'
import { decodedBody } from '../protocol/content-coding.ts'
import { untilAborted } from '../core/time/waiting.ts'

/** The longest URL, in characters. */
export const MAX_URL_LENGTH = 2048
/** How long a name server may take for its first answer, in milliseconds. */
const DNS_TIMEOUT_MS = 2000
/** How many addresses of a host are tried. */
const MAX_ADDRESSES = 4

/** A request to a foreign URL. */
export interface DialRequest {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  /** For the whole exchange, in milliseconds. */
  readonly timeoutMs: number
  /** How much of the response is read. */
  readonly maxResponseBytes: number
  readonly signal?: AbortSignal
}

type OpenRequest = Omit<DialRequest, 'body' | 'maxResponseBytes'>

/** The body of a POST request; absent for GET. */
type OptionalBody = Partial<Pick<DialRequest, 'body'>>

type BodylessRequest = Omit<DialRequest, 'body'>

/** A response whose body is read as it arrives. */
export interface OpenedResponse {
  readonly kind: 'response'
  readonly status: number
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  /** To be read once. It fails if the connection does, or if it takes too long. */
  readonly body: AsyncIterable<Uint8Array>
  /** Ends the connection. Call it in any case. */
  close(): void
}

/**
 * Why there is no response: the URL is not allowed; one of its addresses is not; the host has no address; the connection
 * failed; its TLS failed; it took too long; or the caller aborted the request.
 */
export type DialFailure = 'url' | 'address' | 'dns' | 'connection' | 'tls' | 'timeout' | 'aborted'

/** What became of a request. `body` ends at the limit. */
export type DialOutcome =
  | {
      readonly kind: 'response'
      readonly status: number
      readonly retryAfter: string | undefined
      readonly body: string
    }
  | DialFailed

interface DialFailed {
  readonly kind: 'failed'
  readonly reason: DialFailure
}

/** Sends requests to foreign URLs. */
export interface Dialer {
  /** Sends a POST request. Never throws. */
  post(request: DialRequest): Promise<DialOutcome>
  /** Sends a GET request. Never throws. */
  get(request: BodylessRequest): Promise<DialOutcome>
}

/** Opens responses that may be large. */
export interface Opener {
  /** Sends a GET request. Never throws. */
  open(request: OpenRequest): Promise<OpenedResponse | DialFailed>
}

type Resolve = (host: string, isAllowed: boolean) => Promise<readonly string[]>

interface Options {
  /** Origins that may use http and private addresses, such as `http://127.0.0.1:8080`. */
  readonly allow: readonly string[]
  /** The proxies that requests go through; by default none. */
  readonly proxies?: FindProxy
  /** The addresses of a host name, which is that of an allowed origin or a foreign one. */
  readonly resolve?: Resolve
  /** Opens a connection to the address in `hostname`. */
  readonly connect?: buildConnector.connector
}

/** A dialer; without `resolve` and `connect` it uses the network. */
export function createDialer({
  allow,
  proxies = noProxy,
  resolve = newResolve(),
  connect = newConnector(),
}: Options): Dialer & Opener {
  const allowed = new Set(allow.map((origin) => new URL(origin).origin))

  async function addressesOf(url: URL, signal: AbortSignal): Promise<readonly string[]> {
    const host = bareHost(url.hostname)
    const isAllowed = allowed.has(url.origin)
    const addresses = isIP(host) > 0 ? [host] : await resolved(resolve(host, isAllowed), signal)
    const isForbidden = (address: string): boolean => {
      const kind = addressKind(address)
      return kind === 'reserved' || (kind === 'private' && !isAllowed)
    }
    // A name with one foreign and one private address would otherwise reach either, by chance.
    if (addresses.some(isForbidden)) throw new DialError('address')
    return addresses.slice(0, MAX_ADDRESSES)
  }

  async function dial<Response>(
    request: OpenRequest,
    read: (url: URL, reach: Exchange) => Promise<Response>,
  ): Promise<Response | DialFailed> {
    const url = parseTarget(request.url, allowed)
    if (!url) return { kind: 'failed', reason: 'url' }
    const timeout = AbortSignal.timeout(request.timeoutMs)
    const signal = request.signal ? AbortSignal.any([timeout, request.signal]) : timeout
    try {
      const proxy = proxies(url)
      const addresses = await addressesOf(url, signal).catch((error: unknown) => {
        const isUnknown = error instanceof DialError && error.reason === 'dns'
        if (!proxy || !isUnknown) throw error
        if (isNearHost(url.hostname) && !allowed.has(url.origin)) throw new DialError('address')
        return []
      })
      signal.throwIfAborted()
      const options = { headersTimeout: request.timeoutMs, bodyTimeout: request.timeoutMs }
      const connections = proxy
        ? new ProxyAgent({ ...options, ...proxyOptions(proxy) })
        : new Client(url.origin, { ...options, connect: connectTo(addresses, connect) })
      return await read(url, { signal, connections })
    } catch (error) {
      if (request.signal?.aborted) return { kind: 'failed', reason: 'aborted' }
      return { kind: 'failed', reason: timeout.aborted ? 'timeout' : reasonOf(error) }
    }
  }

  const whole = (request: BodylessRequest & OptionalBody): Promise<DialOutcome> =>
    dial(request, (url, reach) => exchange(url, request, reach))
  return {
    post: whole,
    get: whole,
    open: (request) => dial(request, (url, reach) => opened(url, request, reach)),
  }
}

/** Whether requests to a URL are possible: it is https, or its origin is allowed. Its addresses are checked later. */
export function isAcceptableUrl(url: string, allow: readonly string[]): boolean {
  return parseTarget(url, new Set(allow.map((origin) => new URL(origin).origin))) !== undefined
}

/**
 * The origin that the operator would have to allow for a URL: it is http, or its host is of this machine or a private network
 * by its name. Undefined if the URL is malformed, or needs no permission.
 */
export function originToAllow(url: string, allow: readonly string[]): string | undefined {
  if (!URL.canParse(url)) return undefined
  const { origin, hostname } = new URL(url)
  if (allow.some((each) => new URL(each).origin === origin) || !isAcceptableUrl(url, [origin]))
    return undefined
  return isAcceptableUrl(url, allow) && !isNearHost(hostname) ? undefined : origin
}

/** The URL of a request; undefined unless it is https, or its origin is allowed. */
function parseTarget(text: string, allowed: ReadonlySet<string>): URL | undefined {
  if (text.length > MAX_URL_LENGTH || !URL.canParse(text)) return undefined
  const url = new URL(text)
  const isWeb = url.protocol === 'https:' || (url.protocol === 'http:' && allowed.has(url.origin))
  // Credentials in a URL would be sent by some clients and shown by others.
  return isWeb && url.username === '' && url.password === '' ? url : undefined
}

async function resolved(
  addresses: Promise<readonly string[]>,
  signal: AbortSignal,
): Promise<readonly string[]> {
  const found = await untilAborted(addresses, signal).catch((error: unknown) => {
    throw new DialError('dns', { cause: error })
  })
  if (found.length === 0) throw new DialError('dns')
  return found
}

/**
 * Resolves foreign names with the name servers of the system, and allowed ones like every program on this machine. The
 * second way occupies a thread of the process, of which there are four: slow name servers of strangers would stop
 * everything that needs one.
 */
function newResolve(): Resolve {
  const resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: 2 })
  return async (host, isAllowed) => {
    if (isAllowed) return (await lookup(host, { all: true })).map(({ address }) => address)
    return foreignAddresses(host, resolver)
  }
}

/** The IPv4 and IPv6 addresses of a name. @throws the error of the resolver if there are neither */
export async function foreignAddresses(
  host: string,
  resolver: Pick<Resolver, 'resolve4' | 'resolve6'>,
): Promise<readonly string[]> {
  const [four, six] = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
  if (four.status === 'rejected' && six.status === 'rejected') throw four.reason
  return [four, six].flatMap((each) => (each.status === 'fulfilled' ? each.value : []))
}

function newConnector(): buildConnector.connector {
  return buildConnector({ allowH2: false, maxCachedSessions: 0 })
}

/** Connects to the first of the addresses that accepts a connection. The name for TLS stays that of the URL. */
function connectTo(
  [address, ...others]: readonly string[],
  connect: buildConnector.connector,
): buildConnector.connector {
  return (options, callback) => {
    if (address === undefined) return callback(new DialError('dns'), null)
    connect({ ...options, hostname: address }, (...result) => {
      if (result[0] !== null && others.length > 0) return connectTo(others, connect)(options, callback)
      callback(...result)
    })
  }
}

interface Exchange {
  readonly signal: AbortSignal
  /** Of this request alone. */
  readonly connections: Dispatcher
}

async function exchange(
  url: URL,
  request: BodylessRequest & OptionalBody,
  reach: Exchange,
): Promise<DialOutcome> {
  const { status, headers, body, close } = await opened(url, request, reach)
  try {
    const { 'retry-after': retryAfter, 'content-encoding': coding } = headers
    return {
      kind: 'response',
      status,
      retryAfter: typeof retryAfter === 'string' ? retryAfter : undefined,
      body:
        request.maxResponseBytes === 0
          ? ''
          : await beginningOf(decodedBody(body, coding), request.maxResponseBytes),
    }
  } finally {
    close()
  }
}

/** Sends a request, and resolves once the headers of the response are there. */
async function opened(
  url: URL,
  { headers, body }: OpenRequest & OptionalBody,
  { signal, connections }: Exchange,
): Promise<OpenedResponse & { readonly body: Readable }> {
  const close = (): void => void connections.destroy().catch(() => undefined)
  try {
    const response = await connections.request({
      origin: url.origin,
      method: body === undefined ? 'GET' : 'POST',
      path: url.pathname + url.search,
      headers: { 'user-agent': 'gatehouse', ...headers },
      ...(body !== undefined && { body }),
      reset: true,
      signal,
    })
    // Destroying the client aborts the rest of a body, which emits another error.
    response.body.on('error', () => undefined)
    return {
      kind: 'response',
      status: response.statusCode,
      headers: response.headers,
      body: response.body,
      close,
    }
  } catch (error) {
    close()
    throw error
  }
}

/** The beginning of a body, as text. */
async function beginningOf(body: AsyncIterable<Uint8Array>, limit: number): Promise<string> {
  const chunks: Uint8Array[] = []
  let size = 0
  for await (const chunk of body) {
    chunks.push(chunk)
    size += chunk.byteLength
    if (size >= limit) break
  }
  return Buffer.concat(chunks).toString('utf8', 0, Math.min(size, limit))
}

/** A failure with a known reason. */
class DialError extends Error {
  override readonly name = 'DialError'
  readonly reason: DialFailure

  constructor(reason: DialFailure, options?: ErrorOptions) {
    super(`the request failed: ${reason}`, options)
    this.reason = reason
  }
}

function reasonOf(error: unknown): DialFailure {
  if (error instanceof DialError) return error.reason
  const code = error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
  if (/TIMEOUT|ETIMEDOUT/.test(code)) return 'timeout'
  return /TLS|SSL|CERT|SIGNATURE|ISSUER|EPROTO/.test(code) ? 'tls' : 'connection'
}

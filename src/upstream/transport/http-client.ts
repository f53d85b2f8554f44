/** HTTP requests to one server over an undici pool or a proxy, with bounds. */
import { responseLost } from '../failures.ts'
import { PassThrough, type Readable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { type Dispatcher, Pool, ProxyAgent } from 'undici'
import type { Quota } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import { type Proxy, proxyOptions } from '../../core/proxy.ts'
import { MAX_MESSAGE_BYTES } from '../../core/spool.ts'
import { decodedBody, isEncoded, withoutMark } from '../../protocol/content-coding.ts'
import { Chunks } from '../../protocol/lines.ts'
import { SpoolingReader } from '../../protocol/spooling.ts'
import { readEvents } from '../../protocol/sse.ts'
import { type Login, startWithAuth, type HttpAnswer, type HttpRequest } from './auth-retry.ts'
import { isObject, readJson } from '../../core/json/json.ts'
import { escapeHidden } from '../../core/text/escape.ts'

/** Sends requests to one URL, with its credentials. */
export interface HttpClient {
  readonly connections: Dispatcher
  readonly url: URL
  /** The proxy that its requests go through. */
  readonly proxy?: Proxy | undefined
  /** Headers of every request. */
  readonly headers: Readonly<Record<string, string>>
  /** Receives the rate limit headers of each response. */
  readonly quota?: UpstreamQuota | undefined
  /** Provides per-caller credentials, if headers are not enough. */
  readonly login?: Login | undefined
}

/** A client for a URL. It has no timeouts: a stream may be idle for long, and calls have deadlines. */
export function createHttpClient(
  url: URL,
  headers: Readonly<Record<string, string>>,
  proxy?: Proxy,
): HttpClient {
  const connections = proxy
    ? new ProxyAgent({ ...proxyOptions(proxy), ...unlimited, connectTimeout: CONNECT_TIMEOUT_MS })
    : new Pool(url.origin, { ...unlimited, connect: { timeout: CONNECT_TIMEOUT_MS } })
  return { connections, url, headers, proxy }
}

/** How long a connection may take to be made, in milliseconds. */
const CONNECT_TIMEOUT_MS = 10_000
const unlimited = { bodyTimeout: 0, headersTimeout: 0 }

/** Performs one HTTP exchange. @throws SERVER_UNAVAILABLE before it was sent, OUTCOME_UNKNOWN after */
export async function exchangeHttp(client: HttpClient, request: HttpRequest): Promise<HttpAnswer> {
  if (request.delay) await wait(request.delay)
  return new Promise((resolve, reject) => startHttp(client, request, resolve, reject))
}

type Resolve = (answer: HttpAnswer) => void
type Reject = (error: unknown) => void
interface Ends {
  readonly resolve: Resolve
  readonly reject: Reject
}

/** The same without a promise, for requests made with every call. */
export function startHttp(client: HttpClient, request: HttpRequest, resolve: Resolve, reject: Reject): void {
  const path = request.path ?? client.url.pathname + client.url.search
  const start = (item: HttpRequest, ends: Ends): void => dispatch({ client, request: item, path }, ends)
  const { login } = client
  if (login) startWithAuth(login, { request, url: client.url.origin + path }, start, { resolve, reject })
  else start(request, { resolve, reject })
}

/** The headers of all requests to a client's URL. */
export function baseHeaders({ headers }: HttpClient, method: HttpRequest['method']): Record<string, string> {
  return {
    ...(method === 'POST' && { 'content-type': 'application/json' }),
    // Servers require both types, literally.
    accept: method === 'GET' ? 'text/event-stream' : 'application/json, text/event-stream',
    ...headers,
  }
}

/** The maximum number of redirects that are followed, as by the official SDK. */
const MAX_REDIRECTS = 5

/** What is requested, and where. */
interface Target {
  readonly client: HttpClient
  readonly request: HttpRequest
  readonly path: string
}

function dispatch(target: Target, ends: Ends, redirects = 0): void {
  const { client, request, path } = target
  const { method, headers, body } = request
  const { origin } = client.url
  const handler = new HttpExchange(target, ends, redirects)
  // A proxy's connections take the limits of each request.
  client.connections.dispatch({ origin, path, method, headers, body: body ?? null, ...unlimited }, handler)
}

class HttpExchange implements Dispatcher.DispatchHandler {
  readonly #request: HttpRequest
  readonly #client: HttpClient
  readonly #path: string
  /** How many redirects were followed. */
  readonly #redirects: number
  /** The path of a redirect that is followed. */
  #moved: string | undefined
  readonly #resolve: Resolve
  readonly #reject: Reject
  #timer: NodeJS.Timeout | undefined
  #answer: (HttpAnswer & { body: string; isComplete: boolean }) | undefined
  #feed: ((chunk: Uint8Array) => void) | undefined
  #reader: SpoolingReader | undefined
  readonly #body = new Chunks()
  /** Set if the body has content codings: what arrives goes into `input`, and is decoded in `output`. */
  #coded: { readonly input: PassThrough; readonly output: Readable } | undefined
  #isSent = false
  #hasArrived = false

  constructor({ client, request, path }: Target, ends: Ends, redirects: number) {
    this.#client = client
    this.#request = request
    this.#path = path
    this.#redirects = redirects
    this.#resolve = ends.resolve
    this.#reject = ends.reject
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#isSent = true
    const abort = (): void =>
      this.#abort(controller, new GatewayError('CANCELLED', 'The request was cancelled.'))
    this.#request.onAbortable?.(abort)
    if (this.#request.timeout !== undefined) this.#timer = setTimeout(abort, this.#request.timeout).unref()
  }

  onResponseStart(
    controller: Dispatcher.DispatchController,
    status: number,
    headers: Readonly<Record<string, string | string[] | undefined>>,
  ): void {
    const type = single(headers['content-type']) ?? ''
    const isEventStream = status < 300 && type.toLowerCase().startsWith('text/event-stream')
    this.#answer = {
      status,
      isEventStream,
      isComplete: false,
      body: '',
      header: (name) => single(headers[name]),
    }
    this.#client.quota?.read(this.#answer.header)
    const target = { client: this.#client, request: this.#request, path: this.#path }
    this.#moved = this.#redirects < MAX_REDIRECTS ? redirectPath(target, this.#answer) : undefined
    if (this.#moved === undefined) this.#request.onHead?.(this.#answer)
    const coding = headers['content-encoding']
    if (isEncoded(coding)) this.#decode(controller, coding)
    if (status < 300) this.#reader = this.#createReader(controller)
    if (!isEventStream || !this.#request.onEvent) return
    this.#feed = readEvents(MAX_MESSAGE_BYTES, {
      onEvent: (event) => this.#request.onEvent?.(event),
      onRetry: (milliseconds) => this.#request.onRetry?.(milliseconds),
      onOverflow: () => this.#abort(controller, tooLarge()),
    })
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (!this.#coded) return this.#read(controller, chunk)
    if (!this.#coded.input.write(chunk)) controller.pause()
  }

  /** Reads the rest of the body through its decoders. */
  #decode(controller: Dispatcher.DispatchController, coding: string | string[] | undefined): void {
    const input = new PassThrough()
    const output = decodedBody(input, coding)
    input.on('drain', () => controller.resume())
    output.on('data', (chunk: Buffer) => this.#read(controller, chunk))
    output.on('end', () => this.#finish(this.#hasArrived))
    output.on('error', (cause) => this.#abort(controller, undecodable(coding, cause)))
    this.#coded = { input, output }
  }

  #read(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#reader) this.#reader.write(chunk)
    else this.#take(controller, chunk)
  }

  /** Ends the exchange early. Once all of the body has arrived, there is nothing to abort but its decoding. */
  #abort(controller: Dispatcher.DispatchController, error: GatewayError): void {
    if (this.#hasArrived) this.onResponseError(controller, error)
    else controller.abort(error)
  }

  #take(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#feed) return this.#feed(chunk)
    this.#body.add(chunk)
    if (this.#body.size <= MAX_MESSAGE_BYTES) return
    this.#body.clear()
    this.#abort(controller, tooLarge())
  }

  #createReader(controller: Dispatcher.DispatchController): SpoolingReader | undefined {
    const request = this.#request
    if (!request.spool) return undefined
    return new SpoolingReader({
      spool: () => request.spool?.(),
      pass: (chunk) => this.#take(controller, chunk),
      pause: () => (this.#coded?.output ?? controller).pause(),
      resume: () => (this.#coded?.output ?? controller).resume(),
    })
  }

  onResponseEnd(): void {
    this.#hasArrived = true
    if (this.#coded) this.#coded.input.end()
    else this.#finish(true)
  }

  #finish(isComplete: boolean): void {
    clearTimeout(this.#timer)
    this.#reader?.end()
    const answer = this.#answer
    if (!answer) return
    const path = this.#moved
    if (path !== undefined) {
      const target = { client: this.#client, request: this.#request, path }
      const ends = { resolve: this.#resolve, reject: this.#reject }
      return dispatch(target, ends, this.#redirects + 1)
    }
    answer.isComplete = isComplete
    answer.body = withoutMark(this.#body.take()).toString('utf8')
    this.#resolve(answer)
  }

  onResponseError(_controller: Dispatcher.DispatchController, error: Error): void {
    clearTimeout(this.#timer)
    // A broken stream is a response that ended: its content was already delivered, or is once it is decoded.
    const isBrokenStream = this.#answer?.isEventStream === true && !(error instanceof GatewayError)
    if (isBrokenStream && this.#coded) return void this.#coded.input.end()
    this.#coded?.output.destroy()
    this.#reader?.abort()
    if (isBrokenStream && this.#answer) return this.#resolve(this.#answer)
    this.#reject(error instanceof GatewayError ? error : noAnswer(error, this.#client, this.#isSent))
  }
}

/** The path of a redirect that keeps method and body, on the same origin: credentials are sent nowhere else. */
function redirectPath({ client, request, path }: Target, answer: HttpAnswer): string | undefined {
  const { origin } = client.url
  const keepsMethod = [307, 308, ...(request.method === 'GET' ? [301, 302, 303] : [])]
  const location = keepsMethod.includes(answer.status) ? answer.header('location') : undefined
  const from = origin + path
  if (location === undefined || !URL.canParse(location, from)) return undefined
  const target = new URL(location, from)
  return target.origin === origin ? target.pathname + target.search : undefined
}

function single(value: string | string[] | undefined): string | undefined {
  return Array.isArray(value) ? value[0] : value
}

/** The remaining rate limit reported in a server's HTTP responses. */
export class UpstreamQuota {
  #last: Quota | undefined

  /** Reads the headers of a response: `RateLimit-*`, `X-RateLimit-*`, or the combined `RateLimit`. */
  read(header: (name: string) => string | undefined): void {
    const combined = header('ratelimit')
    const remainingHeader = header('ratelimit-remaining') ?? header('x-ratelimit-remaining')
    if (combined === undefined && remainingHeader === undefined) return
    const remaining =
      combined === undefined ? remainingHeader : member(combined, /(?:^|[;,\s])(?:remaining|r)=(\d{1,15})/)
    if (remaining === undefined || !/^\d{1,15}$/.test(remaining)) return
    const reset =
      combined === undefined
        ? (header('ratelimit-reset') ?? header('x-ratelimit-reset'))
        : member(combined, /(?:^|[;,\s])(?:reset|t)=(\d{1,15})/)
    const resetsAt = timeOf(reset, Date.now())
    this.#last = { remaining: Number(remaining), ...(resetsAt !== undefined && { resetsAt }) }
  }

  /** The last reported quota; undefined once it has reset. */
  get last(): Quota | undefined {
    const { resetsAt } = this.#last ?? {}
    return resetsAt !== undefined && resetsAt <= Date.now() ? undefined : this.#last
  }
}

function member(text: string, pattern: RegExp): string | undefined {
  return pattern.exec(text)?.[1]
}

/** Some servers send the remaining seconds, others a time in seconds or milliseconds since 1970. */
function timeOf(text: string | undefined, now: number): number | undefined {
  if (text === undefined || !/^\d{1,15}$/.test(text)) return undefined
  const value = Number(text)
  if (value > 1e12) return value
  return value > 1e9 ? value * 1000 : now + value * 1000
}

/*
 * Error messages for a URL without MCP responses. Each failure has two texts: the message for callers names the cause, and
 * `forOperator` adds the address and the fix. Callers have no need to know the address. Addresses are displayed without
 * user, query and anything that looks like a secret.
 */

/** Where requests go. */
interface Address {
  readonly url: URL
  /** The proxy that they go through. */
  readonly proxy?: Proxy | undefined
}

/** The failure of a message over the limit. */
function tooLarge(): GatewayError {
  return new GatewayError('UPSTREAM_ERROR', 'The server sent a message that is too large.')
}

/** The failure of a body that its `Content-Encoding` does not fit. */
function undecodable(coding: string | string[] | undefined, cause: Error): GatewayError {
  const name = escapeHidden(String(coding)).slice(0, MAX_CODING_LENGTH)
  return new GatewayError(
    'UPSTREAM_ERROR',
    `The server sent a response that is not encoded as its Content-Encoding says (${name}).`,
    { cause },
  )
}

/** How much of a `Content-Encoding` an error repeats, in characters. */
const MAX_CODING_LENGTH = 60

/** System and HTTP client error codes that guarantee that no request was sent. */
const UNSENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

/** The failure of a request without an HTTP response. */
function noAnswer(cause: Error, { url, proxy }: Address, isSent: boolean): GatewayError {
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : ''
  const { what, fix } = proxy ? causeAtProxy(code, cause, proxy) : causeOf(code, cause, url)
  const forOperator = `no answer from ${displayUrl(url)}: ${what}. ${fix}`
  if (!isSent || UNSENT.has(code) || (proxy && REFUSED_BY_PROXY.has(code))) {
    const message = `The server cannot be reached: ${what}.`
    return new GatewayError('SERVER_UNAVAILABLE', message, { cause, isUnsent: true, forOperator })
  }
  return responseLost(LOST, { cause, forOperator })
}

/** What callers read if a connection was lost after the request was sent. */
export const LOST = 'The connection to the server was lost before the response arrived.'

/** The failure of a request whose HTTP response is not an MCP message. */
export function noMessage(answer: HttpAnswer, url: URL): GatewayError {
  const { status } = answer
  const details = { http_status: status }
  const extra = { details, ...seenOf(answer), forOperator: refusalText(answer, url) }
  if (status === 401 || status === 403) {
    const message = `The server refused the gateway's credentials (HTTP ${status}).`
    const suggestion =
      'Ask the operator of the gateway to correct the credentials of this server: headers, token or oauth.'
    return new GatewayError('SERVER_UNAVAILABLE', message, { ...extra, category: 'permanent', suggestion })
  }
  if (status >= 500)
    return new GatewayError('SERVER_UNAVAILABLE', `The server answered HTTP ${status}.`, extra)
  if (status >= 300) return new GatewayError('UPSTREAM_ERROR', `The server answered HTTP ${status}.`, extra)
  const what = isEmpty(answer)
    ? 'accepted the request and sent no response'
    : `answered with ${contentOf(answer)} instead of MCP`
  return new GatewayError('UPSTREAM_ERROR', `The server ${what}.`, extra)
}

/** A URL for display: without user, query and fragment, and without parts that may be secrets. */
function displayUrl({ protocol, host, pathname }: URL): string {
  const parts = pathname.split('/').map((part) => (looksSecret(part) ? '***' : part))
  return `${protocol}//${host}${parts.join('/')}`
}

/** URLs of hosted servers may contain a key: long, with digits, and not a word. */
function looksSecret(part: string): boolean {
  return part.length >= 20 && /\d/.test(part)
}

interface Cause {
  readonly what: string
  readonly fix: string
}

function causeOf(code: string, { name, message }: Error, { hostname, port, protocol }: URL): Cause {
  const at = port === '' ? (protocol === 'https:' ? '443' : '80') : port
  if (code === 'ECONNREFUSED')
    return {
      what: 'the connection is refused',
      fix: `Nothing listens on port ${at} of ${hostname}: start the server, or correct the port`,
    }
  if (code === 'ENOTFOUND')
    return {
      what: 'its host name is unknown',
      fix: `The host name ${hostname} has no address: correct it, or check the DNS`,
    }
  if (code === 'EAI_AGAIN')
    return {
      what: 'its host name cannot be resolved',
      fix: `The DNS does not respond for ${hostname}: check the network and the DNS`,
    }
  if (code === 'EHOSTUNREACH' || code === 'ENETUNREACH')
    return {
      what: 'there is no route to its host',
      fix: `Check the address ${hostname}, the network and the VPN`,
    }
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT')
    return {
      what: 'the connection timed out',
      fix: `A firewall may drop packets to port ${at} of ${hostname}`,
    }
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER' || code === 'EPROTO')
    return {
      what: 'it does not use TLS',
      fix: `Port ${at} of ${hostname} answers without TLS: use http:// if that is intended`,
    }
  if (code === 'CERT_HAS_EXPIRED')
    return { what: 'its certificate has expired', fix: 'Renew the certificate of the server' }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return {
      what: 'its certificate is for another host',
      fix: `Use the host name of the certificate, or install one for ${hostname}`,
    }
  if (/CERT|ISSUER|SIGNATURE/.test(code))
    return {
      what: `its certificate is not trusted (${code})`,
      fix: 'Set the environment variable NODE_EXTRA_CA_CERTS to the certificate file of the issuing authority',
    }
  if (name === 'HTTPParserError')
    return {
      what: 'it does not use HTTP',
      fix: `Port ${at} of ${hostname} uses another protocol: correct the port`,
    }
  const detail = code === '' ? message : `${message}, ${code}`
  return {
    what: `the connection was lost (${detail})`,
    fix: `Check that an MCP server over HTTP listens on port ${at} of ${hostname}, and check its log`,
  }
}

/** The codes of a proxy that refuses a tunnel, and of one that requires credentials. */
const REFUSED_BY_PROXY = new Set(['UND_ERR_ABORTED', 'UND_ERR_INVALID_ARG'])

function causeAtProxy(code: string, cause: Error, { url, authorization }: Proxy): Cause {
  if (REFUSED_BY_PROXY.has(code)) {
    return {
      what: 'the proxy refused the request',
      fix: `Check that the proxy ${url} permits this host${authorization ? ', and the credentials for it' : ' without credentials'}`,
    }
  }
  const { what, fix } = causeOf(code, cause, new URL(url))
  return { what: `through its proxy, ${what}`, fix: `The proxy is ${url}. ${fix}` }
}

function refusalText(answer: HttpAnswer, url: URL): string {
  const { status } = answer
  const at = displayUrl(url)
  if (status === 401 || status === 403)
    return `${at} refused the gateway's credentials (HTTP ${status}): configure the correct \`token\`, \`headers\` or \`oauth\` for this server`
  if (status === 404)
    return `${at} does not exist (HTTP 404): correct the path; MCP endpoints are often at /mcp or /sse`
  if (status === 405 || status === 501)
    return `${at} accepts no MCP requests (HTTP ${status}): is this the MCP endpoint?`
  if (status === 429) return `${at} refuses further requests (HTTP 429): wait, or request a higher limit`
  if (status >= 500) return `${at} failed (HTTP ${status}): check the log of the server`
  if (status >= 400)
    return `${at} refused the request (HTTP ${status}): is this the MCP endpoint, and does it require \`headers\`?`
  if (status >= 300)
    return `${at} redirects${locationOf(answer, url)} (HTTP ${status}): configure the address of the MCP endpoint itself`
  if (isEmpty(answer))
    return `expected MCP, got an empty answer from ${at} (HTTP ${status}): is this the MCP endpoint?`
  return `expected MCP, got ${contentOf(answer)} from ${at} (HTTP ${status}): is this the MCP endpoint?`
}

function locationOf(answer: HttpAnswer, url: URL): string {
  const location = answer.header('location') ?? ''
  return URL.canParse(location, url.href) ? ` to ${displayUrl(new URL(location, url))}` : ''
}

/** The body of a response may not be read yet: one with a content type has a body. */
function isEmpty(answer: HttpAnswer): boolean {
  return answer.body === '' && answer.header('content-type') === undefined
}

/** The content of a response by its media type; JSON without a message is described as other JSON. */
function contentOf(answer: HttpAnswer): string {
  const type = (answer.header('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
  if (!/^[\w.+-]{1,60}\/[\w.+-]{1,60}$/.test(type)) return 'content without a media type'
  return /[/+]json$/.test(type) ? `other JSON (${type})` : type
}

/** The maximum length of a refusal's body for rules, in characters. */
const MAX_BODY_LENGTH = 2000

/** The response body, for rules only. */
function seenOf({ body }: HttpAnswer): { readonly body?: string } {
  return body === '' ? {} : { body: body.slice(0, MAX_BODY_LENGTH) }
}

/**
 * The JSON-RPC message in the body of a refusal, unless it comes from something in front of the server. Errors without
 * a known id (`null`, or none) belong to the request they answer.
 */
export function errorIn(body: string, id: number): string | undefined {
  const value = readJson(body)
  if (!isObject(value)) return body
  const { error } = value
  if (value.jsonrpc === undefined && !(isObject(error) && typeof error.code === 'number')) return undefined
  if (!isObject(error) || (value.id !== null && value.id !== undefined)) return body
  return JSON.stringify({ ...value, jsonrpc: '2.0', id })
}

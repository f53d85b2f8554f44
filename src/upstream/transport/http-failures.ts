/**
 * Error messages for a URL without MCP responses. Each failure has two texts: the message for callers names the cause, and
 * `forOperator` adds the address and the fix. Callers have no need to know the address. Addresses are displayed without
 * user, query and anything that looks like a secret.
 */
import { GatewayError } from '../../core/error.ts'
import { isObject, readJson } from '../../core/json/json.ts'
import type { Proxy } from '../../core/proxy.ts'
import { escapeHidden } from '../../core/text/escape.ts'
import type { HttpAnswer } from './auth-retry.ts'

/** Where requests go. */
interface Target {
  readonly url: URL
  /** The proxy that they go through. */
  readonly proxy?: Proxy | undefined
}

/** The failure of a message over the limit. */
export function tooLarge(): GatewayError {
  return new GatewayError('UPSTREAM_ERROR', 'The server sent a message that is too large.')
}

/** The failure of a body that its `Content-Encoding` does not fit. */
export function undecodable(coding: string | string[] | undefined, cause: Error): GatewayError {
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
export function noAnswer(cause: Error, { url, proxy }: Target, isSent: boolean): GatewayError {
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : ''
  const { what, fix } = proxy ? causeAtProxy(code, cause, proxy) : causeOf(code, cause, url)
  const forOperator = `no answer from ${displayUrl(url)}: ${what}. ${fix}`
  if (!isSent || UNSENT.has(code) || (proxy && REFUSED_BY_PROXY.has(code))) {
    const message = `The server cannot be reached: ${what}.`
    return new GatewayError('SERVER_UNAVAILABLE', message, { cause, isUnsent: true, forOperator })
  }
  return new GatewayError(
    'OUTCOME_UNKNOWN',
    'The connection to the server was lost before the response arrived.',
    {
      cause,
      suggestion: 'Check whether the call took effect before making it again.',
      forOperator,
    },
  )
}

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

/**
 * What is wrong with a URL that gives no MCP answer, in words. Each failure has two texts: the message that callers
 * get names the cause, and `forOperator` adds the address and what to correct. Only the latter names the address,
 * which callers have no need to know. Addresses are shown without user, query and whatever looks like a secret.
 */
import { GatewayError } from '../core/error.ts'
import type { HttpAnswer } from './fetch.ts'
import { seenOf } from './refusal-body.ts'

/** Codes of the system and of HTTP clients after which it is certain that no request was sent. */
const UNSENT = new Set([
  'ECONNREFUSED',
  'ENOTFOUND',
  'EAI_AGAIN',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'UND_ERR_CONNECT_TIMEOUT',
])

/** The failure of a request that got no HTTP answer. */
export function noAnswer(cause: Error, url: URL, isSent: boolean): GatewayError {
  const code = 'code' in cause && typeof cause.code === 'string' ? cause.code : ''
  const { what, fix } = causeOf(code, cause, url)
  const forOperator = `no answer from ${displayUrl(url)}: ${what}. ${fix}`
  if (!isSent || UNSENT.has(code)) {
    const message = `The server cannot be reached: ${what}.`
    return new GatewayError('SERVER_UNAVAILABLE', message, { cause, isUnsent: true, forOperator })
  }
  return new GatewayError('OUTCOME_UNKNOWN', 'The connection to the server broke before it answered.', {
    cause,
    suggestion: 'Check whether the call took effect before making it again.',
    forOperator,
  })
}

/** The failure of a request whose HTTP answer is no MCP message. */
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
    ? 'accepted the request and answered nothing'
    : `answered with ${contentOf(answer)} and not in MCP`
  return new GatewayError('UPSTREAM_ERROR', `The server ${what}.`, extra)
}

/** An address as people may see it: without user, query and fragment, and without parts that may be secrets. */
function displayUrl({ protocol, host, pathname }: URL): string {
  const parts = pathname.split('/').map((part) => (looksSecret(part) ? '***' : part))
  return `${protocol}//${host}${parts.join('/')}`
}

/** Addresses of hosted servers may hold a key: long, with digits, and no word. */
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
      what: 'its host is not known',
      fix: `No address is known for the name ${hostname}: correct the name, or check the DNS`,
    }
  if (code === 'EAI_AGAIN')
    return {
      what: 'its host name cannot be looked up',
      fix: `The DNS gives no answer about ${hostname}: check the network and the DNS`,
    }
  if (code === 'EHOSTUNREACH' || code === 'ENETUNREACH')
    return {
      what: 'there is no route to its host',
      fix: `Check the address ${hostname}, the network and the VPN`,
    }
  if (code === 'UND_ERR_CONNECT_TIMEOUT' || code === 'ETIMEDOUT')
    return {
      what: 'the connection takes too long',
      fix: `A firewall may drop packets to port ${at} of ${hostname}`,
    }
  if (code === 'ERR_SSL_WRONG_VERSION_NUMBER' || code === 'EPROTO')
    return {
      what: 'it does not speak TLS',
      fix: `Port ${at} of ${hostname} answers without TLS: write http:// if that is meant`,
    }
  if (code === 'CERT_HAS_EXPIRED')
    return { what: 'its certificate has expired', fix: 'Renew the certificate of the server' }
  if (code === 'ERR_TLS_CERT_ALTNAME_INVALID')
    return {
      what: 'its certificate is for another host',
      fix: `Write the host name of the certificate, or give the server one for ${hostname}`,
    }
  if (/CERT|ISSUER|SIGNATURE/.test(code))
    return {
      what: `its certificate is not trusted (${code})`,
      fix: 'Name the file of the authority that issued it in the environment variable NODE_EXTRA_CA_CERTS',
    }
  if (name === 'HTTPParserError')
    return {
      what: 'it does not speak HTTP',
      fix: `Port ${at} of ${hostname} belongs to another protocol: correct the port`,
    }
  const detail = code === '' ? message : `${message}, ${code}`
  return {
    what: `the connection broke (${detail})`,
    fix: `Check that an MCP server over HTTP listens on port ${at} of ${hostname}, and look at its log`,
  }
}

function refusalText(answer: HttpAnswer, url: URL): string {
  const { status } = answer
  const at = displayUrl(url)
  if (status === 401 || status === 403)
    return `${at} refused the gateway's credentials (HTTP ${status}): give this server the right \`token\`, \`headers\` or \`oauth\``
  if (status === 404)
    return `${at} does not exist (HTTP 404): correct the path; MCP endpoints are often at /mcp or /sse`
  if (status === 405 || status === 501)
    return `${at} takes no MCP requests (HTTP ${status}): is this the MCP endpoint?`
  if (status === 429) return `${at} refuses more requests for now (HTTP 429): wait, or ask for a higher limit`
  if (status >= 500) return `${at} failed (HTTP ${status}): look at the log of the server`
  if (status >= 400)
    return `${at} refused the request (HTTP ${status}): is this the MCP endpoint, and does it need \`headers\`?`
  if (status >= 300)
    return `${at} redirects${locationOf(answer, url)} (HTTP ${status}): write the address of the MCP endpoint itself`
  if (isEmpty(answer))
    return `expected MCP, got an empty answer from ${at} (HTTP ${status}): is this the MCP endpoint?`
  return `expected MCP, got ${contentOf(answer)} from ${at} (HTTP ${status}): is this the MCP endpoint?`
}

function locationOf(answer: HttpAnswer, url: URL): string {
  const location = answer.header('location') ?? ''
  return URL.canParse(location, url.href) ? ` to ${displayUrl(new URL(location, url))}` : ''
}

/** The body of an answer may not be read yet: one that names its type has some. */
function isEmpty(answer: HttpAnswer): boolean {
  return answer.body === '' && answer.header('content-type') === undefined
}

/** What an answer consists of, by its media type; JSON that holds no message is other JSON. */
function contentOf(answer: HttpAnswer): string {
  const type = (answer.header('content-type') ?? '').split(';', 1)[0]?.trim().toLowerCase() ?? ''
  if (!/^[\w.+-]{1,60}\/[\w.+-]{1,60}$/.test(type)) return 'something without a media type'
  return /[/+]json$/.test(type) ? `other JSON (${type})` : type
}

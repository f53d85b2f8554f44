/**
 * Discovers the authorization server of an MCP server (RFC 9728, RFC 8414), from its challenge or at well-known paths.
 */
import { type AuthorizationServer, processDiscoveryResponse } from 'oauth4webapi'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import type { OAuthSettings } from '../../core/settings.ts'
import type { OAuthHttp } from './oauth-http.ts'

/** The token issuer of a server, and what to request there. */
export interface Issuer {
  readonly server: AuthorizationServer
  /** The resource identifier of the server (RFC 8707); absent if no resource is sent. */
  readonly resource: string | undefined
  /** The scopes the server requires of a caller. */
  readonly scopes: readonly string[]
}

interface Sought {
  readonly url: string
  readonly headers: Readonly<Record<string, string>>
  readonly oauth: OAuthSettings
  readonly http: OAuthHttp
}

/** Finds the token issuer: as configured, otherwise as declared by the server. @throws SERVER_UNAVAILABLE */
export async function findIssuer(sought: Sought): Promise<Issuer> {
  const { oauth, http } = sought
  const { issuer, tokenEndpoint, resource } = oauth
  if (tokenEndpoint !== undefined) {
    const server = {
      issuer: issuer ?? new URL(tokenEndpoint).origin,
      token_endpoint: tokenEndpoint,
    }
    return { server, resource, scopes: [] }
  }
  if (issuer !== undefined) return { server: await readServer(issuer, http, unusable), resource, scopes: [] }
  return askServer(sought)
}

/** RFC 9728: the server itself declares its issuers. */
async function askServer({ url, headers, oauth, http }: Sought): Promise<Issuer> {
  const answer = await http.probe(url, {
    method: 'POST',
    headers: {
      'content-type': 'application/json',
      accept: 'application/json, text/event-stream',
      ...headers,
    },
    body: '{"jsonrpc":"2.0","id":1,"method":"ping"}',
  })
  const challenge = readChallenge(answer.get('www-authenticate'))
  const metadata = await readResource(url, challenge.metadata, http)
  const listed = Array.isArray(metadata?.authorization_servers) ? metadata.authorization_servers : []
  // Servers of 2025-03-26 are their own authorization servers.
  const issuer: unknown = metadata ? listed[0] : new URL(url).origin
  if (typeof issuer !== 'string') throw unusable('declares no authorization server')
  const supported = Array.isArray(metadata?.scopes_supported) ? metadata.scopes_supported : []
  const named = typeof metadata?.resource === 'string' ? metadata.resource : undefined
  const isDefault = oauth.resource === url
  return {
    server: await readServer(issuer, http, unusable),
    resource: isDefault ? (named ?? oauth.resource) : oauth.resource,
    scopes: (challenge.scopes.length > 0 ? challenge.scopes : supported.filter(isText)).filter(isOfAccess),
  }
}

/**
 * `openid` requests the user's identity (OpenID Connect Core §3.1.2.1) and grants no access: the gateway does not need
 * it.
 */
function isOfAccess(scope: string): boolean {
  return scope !== 'openid'
}

type Metadata = Readonly<Record<string, unknown>>

async function readResource(
  url: string,
  named: string | undefined,
  http: OAuthHttp,
): Promise<Metadata | undefined> {
  const { origin, pathname } = new URL(url)
  const path = pathname.replace(/\/$/, '')
  const known = '/.well-known/oauth-protected-resource'
  const places = named === undefined ? [origin + known + path, origin + known] : [named]
  for (const place of new Set(places)) {
    const response = await http.send(place, { headers: { accept: 'application/json' } })
    const value: unknown = response.status === 200 ? await response.json().catch(() => undefined) : undefined
    if (!isObject(value)) continue
    if (!isOf(url, value.resource)) throw unusable('declares another resource than itself')
    return value
  }
  if (named !== undefined) throw unusable('refers to metadata that does not exist')
  return undefined
}

/** Whether a resource is the server or contains it. */
function isOf(url: string, resource: unknown): boolean {
  if (typeof resource !== 'string' || !URL.canParse(resource)) return false
  const own = new URL(url)
  const resourceUrl = new URL(resource)
  const path = (item: URL): string => `${item.pathname.replace(/\/$/, '')}/`
  return own.origin === resourceUrl.origin && path(own).startsWith(path(resourceUrl))
}

/**
 * The metadata of an issuer: RFC 8414, then OpenID Connect at both of its locations.
 * @throws SERVER_UNAVAILABLE, or the error that `refusal` creates for invalid metadata
 */
export async function readServer(
  issuer: string,
  http: OAuthHttp,
  refusal: (what: string) => GatewayError,
): Promise<AuthorizationServer> {
  if (!URL.canParse(issuer)) throw refusal('declares an authorization server that is not a URL')
  const { origin, pathname } = new URL(issuer)
  const path = pathname.replace(/\/$/, '')
  const places = new Set([
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ])
  for (const place of places) {
    const response = await http.send(place, { headers: { accept: 'application/json' } })
    if (response.status !== 200) continue
    try {
      return await processDiscoveryResponse(new URL(issuer), response)
    } catch (error) {
      throw refusal(`has an authorization server with unusable metadata (${asText(error)})`)
    }
  }
  throw refusal('has an authorization server without metadata')
}

function asText(error: unknown): string {
  return error instanceof Error ? error.message : asGatewayError(error).message
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function unusable(what: string): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', `The token issuer is unknown: the server ${what}.`, {
    suggestion: 'Set oauth.issuer of this server in the configuration.',
  })
}

/** The content of a `WWW-Authenticate` header (RFC 6750, RFC 9728). */
interface Challenge {
  readonly metadata?: string
  readonly scopes: readonly string[]
  readonly error?: string
}

/** Parses the bearer challenge of a 401 or 403. */
export function readChallenge(header: string | null | undefined): Challenge {
  const text = header ?? ''
  const start = text.search(/\bbearer\b/i)
  if (start < 0 || text.length > MAX_HEADER) return { scopes: [] }
  const found = new Map<string, string>()
  for (const [, name = '', quoted, plain] of text.slice(start).matchAll(PARAMETER)) {
    const key = name.toLowerCase()
    if (!found.has(key)) found.set(key, quoted?.replaceAll(/\\(.)/g, '$1') ?? plain ?? '')
  }
  const metadata = found.get('resource_metadata')
  const error = found.get('error')
  return {
    scopes: words(found.get('scope')),
    ...(metadata !== undefined && { metadata }),
    ...(error !== undefined && { error }),
  }
}

/** The scopes of a space-separated list. */
export function words(scope: string | undefined): readonly string[] {
  return scope === undefined ? [] : [...new Set(scope.split(/\s+/).filter((part) => SCOPE.test(part)))]
}

const MAX_HEADER = 8192
const PARAMETER = /([a-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/gi
/** RFC 6749 §3.3 */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/

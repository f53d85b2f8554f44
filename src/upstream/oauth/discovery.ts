/**
 * Discovers the authorization server of an MCP server (RFC 9728, RFC 8414), from its challenge or at well-known paths.
 *
 * Several places may have a document, and what is at some of them may be no document: a page, a refusal, a failure. The
 * first usable document counts. One that is about another resource or issuer ends the search, as it may be forged.
 */
import type { AuthorizationServer } from 'oauth4webapi'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { isObject, readJson } from '../../core/json/json.ts'
import type { OAuthSettings } from '../../core/settings.ts'
import { type OAuthHttp, permanent } from './oauth-http.ts'

/** The token issuer of a server, and what to request there. */
export interface Issuer {
  readonly server: AuthorizationServer
  /** The resource identifier of the server (RFC 8707); absent if no resource is sent. */
  readonly resource: string | undefined
  /** The scopes the server requires of a caller. */
  readonly scopes: readonly string[]
  /** Whether the server takes only tokens that are bound to a key (RFC 9449). */
  readonly needsDpop: boolean
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
  const given = { resource, scopes: [], needsDpop: false }
  if (tokenEndpoint !== undefined) {
    const server = { issuer: issuer ?? new URL(tokenEndpoint).origin, token_endpoint: tokenEndpoint }
    return { server, ...given }
  }
  if (issuer !== undefined) return { server: await readServer(issuer, http, unusable), ...given }
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
  const named = typeof metadata?.resource === 'string' ? metadata.resource : undefined
  const isDefault = oauth.resource === url
  const supported = scopesIn(metadata?.scopes_supported)
  return {
    server: await findServer(url, metadata, http),
    resource: isDefault ? (named ?? oauth.resource) : oauth.resource,
    scopes: (challenge.scopes.length > 0 ? challenge.scopes : supported).filter(isOfAccess),
    needsDpop: challenge.needsDpop || metadata?.dpop_bound_access_tokens_required === true,
  }
}

/** The first authorization server that is usable; a server that names none is its own. */
async function findServer(
  url: string,
  metadata: Metadata | undefined,
  http: OAuthHttp,
): Promise<AuthorizationServer> {
  const { origin } = new URL(url)
  // Servers of 2025-03-26 are their own authorization servers, with or without metadata.
  if (!metadata) return (await searchServer(origin, http, unusable)) ?? conventional(origin)
  const named = [metadata.authorization_servers ?? []].flat().filter(isText)
  let failure: unknown
  for (const issuer of named.length > 0 ? named.slice(0, MAX_ISSUERS) : [origin]) {
    try {
      return await readServer(issuer, http, unusable)
    } catch (error) {
      failure ??= error
    }
  }
  throw failure
}

/** How many authorization servers of one server are tried, and how many places that it names. */
const MAX_ISSUERS = 3
const MAX_PLACES = 3

/** 2025-03-26 basic/authorization: where the endpoints are if there is no metadata. */
function conventional(origin: string): AuthorizationServer {
  return {
    issuer: origin,
    authorization_endpoint: `${origin}/authorize`,
    token_endpoint: `${origin}/token`,
    registration_endpoint: `${origin}/register`,
    code_challenge_methods_supported: ['S256'],
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

/** The metadata of a server; undefined if it certainly has none. @throws SERVER_UNAVAILABLE */
async function readResource(
  url: string,
  named: readonly string[],
  http: OAuthHttp,
): Promise<Metadata | undefined> {
  const { origin, pathname } = new URL(url)
  const path = pathname.replace(/\/$/, '')
  const known = '/.well-known/oauth-protected-resource'
  const stated = named
    .flatMap((place) => (URL.canParse(place, url) ? [new URL(place, url).href] : []))
    .slice(0, MAX_PLACES)
  const places = new Set([...stated, origin + known + path, origin + known])
  let failure: GatewayError | undefined
  for (const place of places) {
    const found = await readDocument(place, http)
    failure ??= found.failure
    if (found.isUnreachable && new URL(place).origin === origin) break
    if (!has(found.value, 'resource', 'authorization_servers')) continue
    if (!isOf(url, found.value.resource)) throw unusable('declares another resource than itself')
    return found.value
  }
  if (failure) throw failure
  if (named.length > 0) throw unusable('refers to metadata that does not exist')
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

type Refusal = (what: string) => GatewayError

/**
 * The metadata of an issuer: RFC 8414, then OpenID Connect at both of its locations.
 * @throws SERVER_UNAVAILABLE, or the error that `refusal` creates for invalid metadata
 */
export async function readServer(
  issuer: string,
  http: OAuthHttp,
  refusal: Refusal,
): Promise<AuthorizationServer> {
  if (!URL.canParse(issuer)) throw refusal('declares an authorization server that is not a URL')
  const server = await searchServer(issuer, http, refusal)
  if (!server) throw refusal('has an authorization server without metadata')
  return server
}

/** The metadata of an issuer; undefined if it certainly has none. */
async function searchServer(
  issuer: string,
  http: OAuthHttp,
  refusal: Refusal,
): Promise<AuthorizationServer | undefined> {
  const { origin, pathname } = new URL(issuer)
  const path = pathname.replace(/\/$/, '')
  const places = new Set([
    `${origin}/.well-known/oauth-authorization-server${path}`,
    `${origin}/.well-known/openid-configuration${path}`,
    `${origin}${path}/.well-known/openid-configuration`,
  ])
  let failure: GatewayError | undefined
  let problem: string | undefined
  for (const place of places) {
    const found = await readDocument(place, http)
    // All places are at the same host.
    if (found.failure && found.isUnreachable) throw found.failure
    failure ??= found.failure
    if (!has(found.value, 'issuer', 'token_endpoint')) continue
    const server = asServer(found.value, issuer)
    if (typeof server !== 'string') return server
    problem ??= server
  }
  if (problem !== undefined) throw refusal(`has an authorization server with unusable metadata (${problem})`)
  if (failure) throw failure
  return undefined
}

/** The metadata in a document, without members that are `null`; or why it is none of this issuer. */
function asServer(document: Metadata, issuer: string): AuthorizationServer | string {
  if (typeof document.issuer !== 'string') return 'it has no issuer'
  if (!isSameIssuer(document.issuer, issuer)) return 'its issuer is another one'
  const members = Object.entries(document).flatMap(([name, value]): [string, unknown][] => {
    if (value === null) return []
    // `…s_supported` is a list, `…_parameter_supported` a boolean.
    if (name.endsWith('s_supported') || (name.endsWith('_supported') && typeof value !== 'boolean'))
      return lists(name, value)
    // Some name their endpoints relative to themselves.
    const isPlace = name.endsWith('_endpoint') && typeof value === 'string'
    return [[name, isPlace && URL.canParse(value, issuer) ? new URL(value, issuer).href : value]]
  })
  const { token_endpoint: tokenEndpoint, ...rest } = Object.fromEntries(members)
  if (typeof tokenEndpoint !== 'string') return 'it has no token endpoint'
  return { ...rest, issuer: document.issuer, token_endpoint: tokenEndpoint }
}

/** A list of texts; none if it has no text. */
function lists(name: string, value: unknown): [string, unknown][] {
  const texts = [value].flat().filter(isText)
  return texts.length > 0 ? [[name, texts]] : []
}

/** RFC 8414 §3.3, but for a slash at the end, which many write on one side alone. */
function isSameIssuer(one: string, other: string): boolean {
  const plain = (issuer: string): string =>
    URL.canParse(issuer) ? new URL(issuer).href.replace(/\/$/, '') : issuer
  return plain(one) === plain(other)
}

interface Found {
  /** The JSON object at this place. */
  readonly value?: Metadata
  /** Why it is not known whether there is one. */
  readonly failure?: GatewayError
  readonly isUnreachable?: true
}

async function readDocument(place: string, http: OAuthHttp): Promise<Found> {
  try {
    const response = await http.send(place, { headers: { accept: 'application/json' } })
    const { status } = response
    if (status === 429 || status >= 500) return { failure: failing(place, status) }
    const value = response.ok ? readJson(await response.text()) : undefined
    return isObject(value) ? { value } : {}
  } catch (error) {
    return { failure: asGatewayError(error), isUnreachable: true }
  }
}

/** Whether a document has one of these members: some answer with JSON of another kind what they do not have. */
function has(value: Metadata | undefined, ...members: readonly string[]): value is Metadata {
  return value !== undefined && members.some((member) => (value[member] ?? undefined) !== undefined)
}

function failing(place: string, status: number): GatewayError {
  const what = `The metadata for sign-in at ${new URL(place).origin} cannot be read (HTTP ${status}).`
  return new GatewayError('SERVER_UNAVAILABLE', what)
}

function scopesIn(value: unknown): readonly string[] {
  return words([value ?? []].flat().filter(isText).join(' '))
}

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

function unusable(what: string): GatewayError {
  const message = `The token issuer is unknown: the server ${what}.`
  const fix = 'set oauth.issuer of this server in the configuration'
  return new GatewayError('SERVER_UNAVAILABLE', message, permanent(message, fix))
}

/** What the challenges for tokens say, together. */
interface Challenge {
  /** Where the metadata of the server may be, relative to its URL. */
  readonly metadata: readonly string[]
  readonly scopes: readonly string[]
  readonly error?: string
  /** Whether it asks for a token that is bound to a key, and for no other. */
  readonly needsDpop: boolean
}

interface Single {
  readonly scheme: string
  readonly parameters: [name: string, value: string][]
}

/** Reads the challenges of a 401 or 403. */
export function readChallenge(header: string | null | undefined): Challenge {
  const text = header ?? ''
  const all = text.length > MAX_HEADER_LENGTH ? [] : challengesIn(text)
  const found = all.filter(({ scheme }) => scheme === 'bearer' || scheme === 'dpop')
  const valuesOf = (name: string): readonly string[] =>
    found.flatMap(({ parameters }) => parameters.flatMap(([key, value]) => (key === name ? [value] : [])))
  const [error] = valuesOf('error')
  return {
    metadata: valuesOf('resource_metadata'),
    scopes: words(valuesOf('scope')[0]),
    ...(error !== undefined && { error }),
    needsDpop: found.length > 0 && found.every(({ scheme }) => scheme === 'dpop'),
  }
}

/** The scopes of a space-separated list. */
export function words(scope: string | undefined): readonly string[] {
  return scope === undefined ? [] : [...new Set(scope.split(/\s+/).filter((part) => SCOPE.test(part)))]
}

/** All challenges. A word without a value begins one, at the start, after a comma, or if it is a known scheme. */
function challengesIn(text: string): readonly Single[] {
  const challenges: Single[] = []
  for (const { 1: before, 2: name = '', 3: quoted, 4: plain, index } of text.matchAll(PART)) {
    const value = quoted?.replaceAll(/\\(.)/g, '$1') ?? plain
    const last = challenges.at(-1)
    if (value !== undefined) last?.parameters.push([name.toLowerCase(), value])
    else if (before?.includes(',') === true || index === 0 || SCHEMES.test(name))
      challenges.push({ scheme: name.toLowerCase(), parameters: [] })
    else extend(last, name)
  }
  return challenges
}

/** Some forget the quotation marks around a list. */
function extend(challenge: Single | undefined, word: string): void {
  const parameter = challenge?.parameters.at(-1)
  if (parameter) parameter[1] += ` ${word}`
}

const MAX_HEADER_LENGTH = 8192
const SCHEMES = /^(?:bearer|dpop|basic|digest|negotiate)$/i
/** What is before it, a name, and its value in quotation marks or without. */
const PART = /([\s,]*)([\w!#$%&'*+.^`|~:/-]+)(?:\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+)))?/g
/** RFC 6749 §3.3 */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/

/** Provides the token issuer of a server. */
export interface Issuers {
  /** @throws SERVER_UNAVAILABLE */
  current(): Promise<Issuer>
  /** The server refused a token, so it may trust another authorization server from now on. */
  doubt(): void
}

/** How long the metadata of an authorization server is cached, in milliseconds. */
const ISSUER_TTL_MS = 3_600_000

/** Caches what `discover` finds. */
export function createIssuers(oauth: OAuthSettings, discover: () => Promise<Issuer>): Issuers {
  return new IssuerCache(discover, hasOwnCredentials(oauth))
}

class IssuerCache implements Issuers {
  readonly #discover: () => Promise<Issuer>
  readonly #isBound: boolean
  #known: { readonly issuer: Promise<Issuer>; readonly until: number; isSettled: boolean } | undefined
  #last: Issuer | undefined

  constructor(discover: () => Promise<Issuer>, isBound: boolean) {
    this.#discover = discover
    this.#isBound = isBound
  }

  current(): Promise<Issuer> {
    if (this.#known && Date.now() < this.#known.until) return this.#known.issuer
    const found = { issuer: this.#find(), until: Date.now() + ISSUER_TTL_MS, isSettled: false }
    this.#known = found
    found.issuer.then(
      () => (found.isSettled = true),
      () => {
        if (this.#known === found) this.#known = undefined
      },
    )
    return found.issuer
  }

  doubt(): void {
    if (this.#known?.isSettled) this.#known = undefined
  }

  async #find(): Promise<Issuer> {
    const issuer = await this.#discover().catch((error: unknown) => {
      if (this.#last && asGatewayError(error).category === 'transient') return this.#last
      throw error
    })
    const before = this.#last?.server.issuer
    if (this.#isBound && before !== undefined && before !== issuer.server.issuer) throw moved(before)
    this.#last = issuer
    return issuer
  }
}

/**
 * Whether the configuration has something that is meant for one authorization server: a client that was registered there, or
 * what is presented for a token. A client id that is a URL is meant for all of them.
 */
function hasOwnCredentials({ grant, clientId }: OAuthSettings): boolean {
  if (grant === 'token_exchange' || grant === 'jwt_bearer') return true
  return clientId !== undefined && !clientId.startsWith('https://')
}

function moved(before: string): GatewayError {
  const host = new URL(before).host
  const message = `The server names another authorization server than before (${host}), and its client is not known there.`
  const fix = 'set oauth.issuer of this server, with the client for it, and restart the gateway'
  return new GatewayError('SERVER_UNAVAILABLE', message, permanent(message, fix))
}

/**
 * The gateway's client at an authorization server: configured, described by a metadata document, or registered (RFC
 * 7591).
 */
import type { AuthorizationServer } from 'oauth4webapi'
import { isLoopbackHost } from '../../core/address.ts'
import { GatewayError } from '../../core/error.ts'
import { asObject, readJson } from '../../core/json/json.ts'
import type { OAuthSettings } from '../../core/settings.ts'
import {
  type ClientAuth,
  clientAuth,
  type OAuthClient,
  readClientAuth,
  failureOf,
  textIn,
} from './token-endpoint.ts'
import { type OAuthHttp, permanent, refused } from './oauth-http.ts'
import type { TokenVault } from './token-vault.ts'

/** The gateway's URLs for browsers and authorization servers. */
export interface Site {
  /** Where sign-ins begin. */
  readonly startUri: string
  /** Where browsers are redirected back to. */
  readonly redirectUri: string
  /** The URL of the client metadata document; only if it is reachable from the internet. */
  readonly document?: string
}

interface Options {
  readonly oauth: OAuthSettings
  readonly vault: TokenVault
  readonly http: OAuthHttp
}

/** How long a registration is kept unless the server limits it, in milliseconds. */
const REGISTRATION_TTL_MS = 365 * 24 * 3_600_000

/** The gateway's client metadata (RFC 7591, OAuth Client ID Metadata Document). */
export function clientMetadata(site: Site, auth: ClientAuth) {
  const isNative = isLoopbackHost(new URL(site.redirectUri).hostname)
  return {
    client_name: 'Gatehouse',
    redirect_uris: [site.redirectUri],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: auth,
    application_type: isNative ? 'native' : 'web',
  }
}

/**
 * The gateway's client at an authorization server: as configured, otherwise by its metadata document, otherwise by
 * registration. @throws SERVER_UNAVAILABLE
 */
export async function clientFor(
  server: AuthorizationServer,
  site: Site,
  options: Options,
): Promise<OAuthClient> {
  const { oauth: settings, vault } = options
  if (settings.clientId !== undefined) return configured(settings, settings.clientId, server)
  if (server.client_id_metadata_document_supported === true && site.document !== undefined) {
    return { id: site.document, auth: 'none' }
  }
  const kept = asClient(await vault.read(['client', server.issuer, site.redirectUri]))
  return kept ?? register(server, site, options)
}

/** Deletes a registration that the authorization server no longer knows. */
export function forgetClient(
  server: Pick<AuthorizationServer, 'issuer'>,
  redirectUri: string,
  vault: TokenVault,
): Promise<void> {
  return vault.delete(['client', server.issuer, redirectUri])
}

/** A configured client. */
export function configured(
  { clientSecret, privateKey }: Pick<OAuthSettings, 'clientSecret' | 'privateKey'>,
  id: string,
  server: AuthorizationServer,
): OAuthClient {
  if (privateKey) return { id, key: privateKey, auth: 'private_key_jwt' }
  if (!clientSecret) return { id, auth: 'none' }
  const secret = clientSecret.reveal()
  return { id, secret, auth: clientAuth(server, { id, secret }) }
}

async function register(
  server: AuthorizationServer,
  site: Site,
  { vault, http }: Options,
): Promise<OAuthClient> {
  if (server.registration_endpoint === undefined) {
    const message = 'The authorization server does not support dynamic client registration.'
    throw new GatewayError('SERVER_UNAVAILABLE', message, permanent(message, registerByHand))
  }
  const supported = server.token_endpoint_auth_methods_supported
  const isPublic = supported?.some((method) => method.startsWith('client_secret_')) === false
  const wanted = clientMetadata(site, isPublic ? 'none' : clientAuth(server, { id: '', secret: '' }))
  const response = await http.send(server.registration_endpoint, {
    method: 'POST',
    headers: { 'content-type': 'application/json', accept: 'application/json' },
    body: JSON.stringify(wanted),
  })
  const value = readJson(await response.text())
  const made = asObject(value)
  const [id, secret] = [textIn(made.client_id), textIn(made.client_secret)]
  if (!response.ok || id === undefined) {
    throw refused('did not register the gateway', failureOf(response.status, made), registerByHand)
  }
  // RFC 7591 §3.2.1: what the response does not say is as it was requested.
  const auth = readClientAuth(made.token_endpoint_auth_method) ?? wanted.token_endpoint_auth_method
  const client: OAuthClient = { id, ...(secret !== undefined && { secret }), auth }
  const ends = Number(textIn(made.client_secret_expires_at) ?? 0)
  const ttl = ends > 0 ? Math.min(REGISTRATION_TTL_MS, ends * 1000 - Date.now()) : REGISTRATION_TTL_MS
  if (ttl > 0) await vault.write(['client', server.issuer, site.redirectUri], { ...client }, ttl)
  return client
}

const registerByHand = 'register the gateway there, and set oauth.client_id of this server'

/** A stored client. */
export function asClient(value: Readonly<Record<string, unknown>> | undefined): OAuthClient | undefined {
  const auth = readClientAuth(value?.auth)
  if (typeof value?.id !== 'string' || auth === undefined) return undefined
  return { id: value.id, auth, ...(typeof value.secret === 'string' && { secret: value.secret }) }
}

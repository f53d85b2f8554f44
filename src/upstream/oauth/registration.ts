/**
 * The gateway's client at an authorization server: configured, described by a metadata document, or registered (RFC
 * 7591).
 */
import * as oauth from 'oauth4webapi'
import { isLoopbackHost } from '../../core/address.ts'
import { GatewayError } from '../../core/error.ts'
import type { OAuthSettings } from '../../core/settings.ts'
import type { OAuthHttp } from './oauth-http.ts'
import { attempt, type ClientAuth, clientAuth, type OAuthClient, through } from './token-endpoint.ts'
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
  server: oauth.AuthorizationServer,
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
  server: Pick<oauth.AuthorizationServer, 'issuer'>,
  redirectUri: string,
  vault: TokenVault,
): Promise<void> {
  return vault.delete(['client', server.issuer, redirectUri])
}

/** A configured client. */
export function configured(
  { clientSecret }: OAuthSettings,
  id: string,
  server: oauth.AuthorizationServer,
): OAuthClient {
  if (!clientSecret) return { id, auth: 'none' }
  const auth = clientAuth(server.token_endpoint_auth_methods_supported)
  return { id, secret: clientSecret.reveal(), auth }
}

async function register(
  server: oauth.AuthorizationServer,
  site: Site,
  { vault, http }: Options,
): Promise<OAuthClient> {
  if (server.registration_endpoint === undefined) {
    throw new GatewayError(
      'SERVER_UNAVAILABLE',
      'The authorization server does not support dynamic client registration.',
      {
        suggestion:
          'Register the gateway there, and set oauth.client_id of this server in the configuration.',
      },
    )
  }
  const authMethods = server.token_endpoint_auth_methods_supported
  const isPublic =
    authMethods !== undefined && !authMethods.some((authMethod) => authMethod.startsWith('client_secret_'))
  const wanted = clientMetadata(site, isPublic ? 'none' : clientAuth(authMethods))
  const made = await attempt(async () => {
    const response = await oauth.dynamicClientRegistrationRequest(server, wanted, through(http))
    return oauth.processDynamicClientRegistrationResponse(response)
  })
  const secret = typeof made.client_secret === 'string' ? made.client_secret : undefined
  const client: OAuthClient = {
    id: made.client_id,
    ...(secret !== undefined && { secret }),
    auth:
      readAuth(made.token_endpoint_auth_method) ?? (secret === undefined ? 'none' : clientAuth(authMethods)),
  }
  const ends = Number(made.client_secret_expires_at ?? 0)
  const ttl = ends > 0 ? ends * 1000 - Date.now() : REGISTRATION_TTL_MS
  if (ttl > 0) await vault.write(['client', server.issuer, site.redirectUri], { ...client }, ttl)
  return client
}

/** A stored client. */
export function asClient(value: Readonly<Record<string, unknown>> | undefined): OAuthClient | undefined {
  const auth = readAuth(value?.auth)
  if (typeof value?.id !== 'string' || auth === undefined) return undefined
  return { id: value.id, auth, ...(typeof value.secret === 'string' && { secret: value.secret }) }
}

function readAuth(value: unknown): ClientAuth | undefined {
  const known: readonly ClientAuth[] = ['none', 'client_secret_basic', 'client_secret_post']
  return known.find((item) => item === value)
}

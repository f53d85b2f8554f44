/** Finds the keys of an issuer by its metadata (RFC 8414, OpenID Connect Discovery). */
import type { JSONWebKeySet } from 'jose'
import type { JwtSettings } from '../../core/auth-settings.ts'
import { fetchJson, StatusError } from '../http/fetch-json.ts'

/** Fetches the keys of an issuer, from where the configuration or its metadata says. @throws */
export async function fetchKeys({ issuer, jwks }: Pick<JwtSettings, 'issuer' | 'jwks'>): Promise<unknown> {
  return fetchJson(jwks ?? (await findKeys(issuer)))
}

/** Why the tokens of an issuer cannot be checked just now; nothing where its keys can be had, or none are needed. */
export async function issuerProblem(jwt: JwtSettings | undefined): Promise<string | undefined> {
  if (!jwt || jwt.secret) return undefined
  try {
    const { createLocalJWKSet } = await import('jose')
    createLocalJWKSet((await fetchKeys(jwt)) as JSONWebKeySet)
    return undefined
  } catch (error) {
    const { message, cause } = error instanceof Error ? error : new Error(String(error))
    const why = cause instanceof Error && cause.message !== '' ? `${message}: ${cause.message}` : message
    return `the keys of this issuer cannot be had, so no token can be checked: ${why}`
  }
}

/** Finds where an issuer keeps its keys, through its metadata (RFC 8414, then OpenID Connect Discovery). */
async function findKeys(issuer: string): Promise<string> {
  for (const url of metadataUrls(issuer)) {
    const metadata = await fetchJson(url).catch(absent)
    if (!metadata) continue
    // RFC 8414 §3.3: metadata of another issuer must not be used.
    if (metadata.issuer !== issuer) throw new Error(`${url} is the metadata of another issuer`)
    if (typeof metadata.jwks_uri === 'string') return metadata.jwks_uri
  }
  throw new Error(`${issuer} has no metadata that names its keys`)
}

function metadataUrls(issuer: string): readonly string[] {
  const { origin, pathname } = new URL(issuer)
  const path = pathname.replace(/\/$/, '')
  const inserted = ['oauth-authorization-server', 'openid-configuration'].map(
    (name) => `${origin}/.well-known/${name}${path}`,
  )
  return path === '' ? inserted : [...inserted, `${origin}${path}/.well-known/openid-configuration`]
}

function absent(error: unknown): undefined {
  if (error instanceof StatusError && error.status >= 400 && error.status < 500) return undefined
  throw error
}

import { fetchJson, StatusError } from '../fetch-json.ts'

/** Finds where an issuer keeps its keys, through its metadata (RFC 8414, then OpenID Connect Discovery). */
export async function findKeys(issuer: string): Promise<string> {
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

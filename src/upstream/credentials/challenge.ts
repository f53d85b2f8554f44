/** What a server says in `WWW-Authenticate` (RFC 6750, RFC 9728). */
export interface Challenge {
  readonly metadata?: string
  readonly scopes: readonly string[]
  readonly error?: string
}

/** Reads the bearer challenge of a 401 or 403. */
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
  return scope === undefined ? [] : [...new Set(scope.split(/\s+/).filter((each) => SCOPE.test(each)))]
}

const MAX_HEADER = 8192
const PARAMETER = /([a-z_]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|([^\s,"]+))/gi
/** RFC 6749 §3.3 */
const SCOPE = /^[\x21\x23-\x5b\x5d-\x7e]{1,256}$/

// What a URI may be read as by the server it is sent to. Rules and scopes name one spelling of a resource, and servers
// take many for the same: `file:/x` and `file://localhost/x` (RFC 8089), `%78`, `..`, another case of scheme and host
// (RFC 3986), and what only some do: `git+file:///x`, parameters in segments (`/a/..;/x`), backslashes, a query nobody
// reads. Invariant: the readings of a URI hold that of every plain spelling of the same place.
import { decodings, readUrl, tidy, withoutParameters } from './spellings.ts'

/** scheme, `//authority`, path, `?query`, `#fragment` (RFC 3986 appendix B). */
const PARTS = /^([a-z][a-z\d+.-]*):(\/\/[^/?#]*)?([^?#]*)(\?[^#]*)?(#.*)?$/is

/** Schemes before the one that says where something is. */
const OUTER_SCHEME = /^[a-z][a-z\d.-]*\+(?=[a-z][a-z\d+.-]*:)/i

/** The canonical URIs a text may be read as; none where it is no URI. */
export function uriReadings(text: string): readonly string[] {
  const found = new Set<string>()
  for (const each of decodings(text)) {
    for (const uri of inner(each.replaceAll('\\', '/')))
      for (const reading of readingsOf(uri)) found.add(reading)
  }
  return [...found]
}

/** The URI, and what is left of it without each of its outer schemes. */
function inner(uri: string): string[] {
  const found = [uri]
  for (let rest = uri; OUTER_SCHEME.test(rest);) {
    rest = rest.replace(OUTER_SCHEME, '')
    found.push(rest)
  }
  return found
}

function readingsOf(uri: string): string[] {
  const [, scheme, authority, path = '', query = '', fragment = ''] = PARTS.exec(uri) ?? []
  if (scheme === undefined) return []
  const start =
    scheme.toLowerCase() === 'file' ? 'file://' : `${scheme.toLowerCase()}:${host(uri, authority)}`
  const isRooted = start === 'file://' || authority !== undefined || path.startsWith('/')
  return [path, withoutParameters(path)].flatMap((each) => {
    const whole = `${start}${isRooted ? '/' : ''}${tidy(each).replace(/^\//, '')}`
    return [`${whole}${query}${fragment}`, `${whole}${query}`, whole]
  })
}

/** The authority without a user, in lower case, and as browsers write it where they know the scheme. */
function host(uri: string, authority: string | undefined): string {
  if (authority === undefined) return ''
  const known = readUrl(uri)?.host
  return `//${known ?? authority.slice(2).replace(/^.*@/s, '').toLowerCase()}`
}

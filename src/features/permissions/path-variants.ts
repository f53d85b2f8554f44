/**
 * Every way a path or URI may be read by a server: encodings, dots, backslashes, nested schemes. Rules have to
 * hold for all.
 */

/**
 * The ways a server might read a text that names a file or a URL: as it stands, with percent signs decoded, with
 * `.` and `..` and `//` resolved. The first one is the text itself.
 */
export function pathVariants(text: string): string[] {
  const found = new Set<string>()
  for (const each of decodings(text)) {
    found.add(each)
    found.add(tidy(each))
    const url = readUrl(each)
    if (url) found.add(tidy(url.href))
    if (CLIMBS_ODDLY.test(each)) found.add(tidy(withoutParameters(each.replaceAll('\\', '/'))))
  }
  return [...found]
}

/** A step up that only some see: with a parameter (`..;`), or between backslashes. */
const CLIMBS_ODDLY = /(?:^|[\\/])\.\.?(?:;|\\)|\\\.\.?(?:[\\/;]|$)/

/** A path without the parameters of its segments (RFC 3986 §3.3). */
function withoutParameters(path: string): string {
  return path.includes(';') ? path.replaceAll(/;[^/]*/g, '') : path
}

/**
 * Whether the percent signs of a text can be decoded in one way: each begins two hexadecimal digits, together they are
 * UTF-8 without control characters, and they are not encoded over and over.
 */
export function isWellEncoded(text: string): boolean {
  const all = decodings(text)
  if (all.some((each) => CONTROL.test(each)) || /%(?![\da-f]{2})/i.test(text)) return false
  try {
    decodeURIComponent(text)
  } catch {
    return false
  }
  const last = all.at(-1) ?? text
  return all.length <= ROUNDS || decodedOnce(last) === last
}

// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f]/

/** The text with all percent signs decoded. */
export function decoded(text: string): string {
  return decodings(text).at(-1) ?? text
}

/**
 * Also the ways only a careless server would read it: without quotes and spaces around it, up to a null character,
 * with backslashes as slashes, without `file:` or a user in front, from one of these directories. In the form that
 * `fold` gives a glob.
 */
export function loosePathVariants(text: string, directories: readonly string[]): string[] {
  const found = new Set<string>()
  for (const each of decodings(text)) {
    for (const bare of [each, unquoted(each), each.split('\0', 1)[0] ?? '']) {
      for (const path of pathsOf(bare.replaceAll('\\', '/'), directories)) {
        found.add(fold(path))
        found.add(fold(tidy(path)))
      }
      found.add(fold(bare))
    }
  }
  return [...found]
}

/** Texts that some file systems take for the same are the same folded. */
export function fold(text: string): string {
  return text.normalize('NFKC').toLowerCase()
}

/** Whether a path or glob begins at a root, a drive or a scheme. */
export function isAbsolute(text: string): boolean {
  return /^(?:[\\/]|[a-z][a-z\d+.-]*:)/i.test(text)
}

/** The same path without empty, `.` and `..` segments and without a slash at its end. */
export function tidy(path: string): string {
  const [, root = '', rest = ''] = /^([a-z][a-z\d+.-]*:\/\/[^/?#]*)?(.*)$/is.exec(path) ?? []
  const kept: string[] = []
  for (const segment of rest.split('/')) {
    if (segment === '..') kept.pop()
    else if (segment !== '' && segment !== '.') kept.push(segment)
  }
  const isRooted = rest.startsWith('/') && (kept.length > 0 || root === '')
  return `${root}${isRooted ? '/' : ''}${kept.join('/')}`
}

/** A path seen from a directory. */
export function from(directory: string, path: string): string {
  return isAbsolute(path) ? path : `${directory}/${path}`
}

/** How often a text may have been encoded on top of being encoded. */
const ROUNDS = 4

/** The text, and the text with its percent signs decoded once, twice, and so on. */
function decodings(text: string): string[] {
  const found = [text]
  let last = text
  for (let round = 0; round < ROUNDS && last.includes('%'); round++) {
    const next = decodedOnce(last)
    if (next === last) break
    found.push(next)
    last = next
  }
  return found
}

function decodedOnce(text: string): string {
  return text.replaceAll(/(?:%[\da-f]{2})+/gi, decode)
}

/** What is no UTF-8 stays as it is; some read the rest nevertheless. */
function decode(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    return encoded.replaceAll(/%[0-7][\da-f]/gi, (each) => decodeURIComponent(each))
  }
}

/** A text with a scheme and an authority as browsers read it. */
function readUrl(text: string): URL | undefined {
  if (!/^[a-z][a-z\d+.-]*:\/\//i.test(text)) return undefined
  return URL.parse(text) ?? undefined
}

function unquoted(text: string): string {
  const trimmed = text.trim()
  let start = 0
  let end = trimmed.length
  while (start < end && isQuote(trimmed[start])) start++
  while (end > start && isQuote(trimmed[end - 1])) end--
  return trimmed.slice(start, end).trim()
}

function isQuote(character: string | undefined): boolean {
  return character === '"' || character === "'" || character === '`'
}

function pathsOf(path: string, directories: readonly string[]): string[] {
  const found = [path, path.split('/').map(withoutDots).join('/')]
  const url = readUrl(path)
  if (url) found.push(url.href, `${url.protocol}//${url.host}${url.pathname}${url.search}`)
  const file = /^file:(?:\/\/[^/]*)?(.*)$/is.exec(path)?.[1]
  if (file !== undefined) found.push(file)
  const behind = /^\/proc\/[^/]+\/(?:task\/[^/]+\/)?root(\/.*)$/i.exec(tidy(path))?.[1]
  if (behind !== undefined) found.push(behind)
  if (isAbsolute(path)) return found
  const inside = path.replace(/^~[^/]*\//, '')
  return [...found, inside, ...['', ...directories].map((directory) => `${directory}/${inside}`)]
}

/** Windows does not see dots and spaces at the end of a segment; `.` and `..` are more than that. */
function withoutDots(segment: string): string {
  let end = segment.length
  while (end > 0 && (segment[end - 1] === '.' || segment[end - 1] === ' ')) end--
  return segment === '.' || segment === '..' ? segment : segment.slice(0, end)
}

// What a URI may be read as by the server it is sent to. Rules and scopes name one spelling of a resource, and servers
// take many for the same: `file:/x` and `file://localhost/x` (RFC 8089), `%78`, `..`, another case of scheme and host
// (RFC 3986), and what only some do: `git+file:///x`, parameters in segments (`/a/..;/x`), backslashes, a query no one
// reads. Invariant: the readings of a URI hold that of every plain spelling of the same place.

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

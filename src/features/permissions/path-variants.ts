/**
 * Every way in which a server may read a path or URI: encodings, dots, backslashes, nested schemes. Rules have to hold
 * for all of them.
 */

/**
 * The readings of a text that names a file or URL: as it is, percent-decoded, and with `.`, `..` and `//` resolved. The
 * first one is the text itself.
 */
export function pathVariants(text: string): string[] {
  const found = new Set<string>()
  for (const each of decodings(text)) {
    found.add(each)
    found.add(normalisePath(each))
    const url = readUrl(each)
    if (url) found.add(normalisePath(url.href))
    if (UNUSUAL_PARENT_STEP.test(each))
      found.add(normalisePath(withoutParameters(each.replaceAll('\\', '/'))))
  }
  return [...found]
}

/** A parent step that only some servers recognise: with a parameter (`..;`), or between backslashes. */
const UNUSUAL_PARENT_STEP = /(?:^|[\\/])\.\.?(?:;|\\)|\\\.\.?(?:[\\/;]|$)/

/** A path without the parameters of its segments (RFC 3986 §3.3). */
function withoutParameters(path: string): string {
  return path.includes(';') ? path.replaceAll(/;[^/]*/g, '') : path
}

/**
 * Whether percent-decoding a text is unambiguous: each percent sign starts two hexadecimal digits, the result is UTF-8
 * without control characters, and the encoding is not nested too deeply.
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
  return all.length <= MAX_DECODINGS || decodedOnce(last) === last
}

// eslint-disable-next-line no-control-regex
const CONTROL = /[\u0000-\u001f\u007f]/

/** The text, fully percent-decoded. */
export function fullyDecoded(text: string): string {
  return decodings(text).at(-1) ?? text
}

/**
 * Also the readings of lenient servers: without surrounding quotes and spaces, up to a null character, with backslashes
 * as slashes, without `file:` or a user prefix, relative to one of these directories. Folded like globs (`fold`).
 */
export function loosePathVariants(text: string, directories: readonly string[]): string[] {
  const found = new Set<string>()
  for (const each of decodings(text)) {
    for (const bare of [each, unquoted(each), each.split('\0', 1)[0] ?? '']) {
      for (const path of pathsOf(bare.replaceAll('\\', '/'), directories)) {
        found.add(fold(path))
        found.add(fold(normalisePath(path)))
      }
      found.add(fold(bare))
    }
  }
  return [...found]
}

/** Maps texts that some file systems treat as equal to the same text. */
export function fold(text: string): string {
  return text.normalize('NFKC').toLowerCase()
}

/** Whether a path or glob starts with a root, a drive or a scheme. */
export function isAbsolute(text: string): boolean {
  return /^(?:[\\/]|[a-z][a-z\d+.-]*:)/i.test(text)
}

/** A path without empty, `.` and `..` segments and without a trailing slash. */
export function normalisePath(path: string): string {
  const [, root = '', rest = ''] = /^([a-z][a-z\d+.-]*:\/\/[^/?#]*)?(.*)$/is.exec(path) ?? []
  const kept: string[] = []
  for (const segment of rest.split('/')) {
    if (segment === '..') kept.pop()
    else if (segment !== '' && segment !== '.') kept.push(segment)
  }
  const isRooted = rest.startsWith('/') && (kept.length > 0 || root === '')
  return `${root}${isRooted ? '/' : ''}${kept.join('/')}`
}

/** A path relative to a directory. */
export function resolveFrom(directory: string, path: string): string {
  return isAbsolute(path) ? path : `${directory}/${path}`
}

/** How many levels of nested encoding are decoded. */
const MAX_DECODINGS = 4

/** The text, decoded zero times, once, twice, and so on. */
function decodings(text: string): string[] {
  const found = [text]
  let last = text
  for (let round = 0; round < MAX_DECODINGS && last.includes('%'); round++) {
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

/** Invalid UTF-8 stays as it is; some servers decode the rest nevertheless. */
function decode(encoded: string): string {
  try {
    return decodeURIComponent(encoded)
  } catch {
    return encoded.replaceAll(/%[0-7][\da-f]/gi, (each) => decodeURIComponent(each))
  }
}

/** A text with a scheme and an authority, parsed like browsers do. */
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
  const procRootPath = /^\/proc\/[^/]+\/(?:task\/[^/]+\/)?root(\/.*)$/i.exec(normalisePath(path))?.[1]
  if (procRootPath !== undefined) found.push(procRootPath)
  if (isAbsolute(path)) return found
  const inside = path.replace(/^~[^/]*\//, '')
  return [...found, inside, ...['', ...directories].map((directory) => `${directory}/${inside}`)]
}

/** Windows ignores trailing dots and spaces of a segment, except in `.` and `..`. */
function withoutDots(segment: string): string {
  let end = segment.length
  while (end > 0 && (segment[end - 1] === '.' || segment[end - 1] === ' ')) end--
  return segment === '.' || segment === '..' ? segment : segment.slice(0, end)
}

// The URIs as which a server may read a text. Rules and scopes name one spelling of a resource, and servers accept many:
// `file:/x` and `file://localhost/x` (RFC 8089), `%78`, `..`, another case of scheme and host (RFC 3986), and what only
// some accept: `git+file:///x`, segment parameters (`/a/..;/x`), backslashes, ignored queries. Invariant: the readings of
// a URI include those of every plain spelling of the same resource.

/** scheme, `//authority`, path, `?query`, `#fragment` (RFC 3986 appendix B). */
const PARTS = /^([a-z][a-z\d+.-]*):(\/\/[^/?#]*)?([^?#]*)(\?[^#]*)?(#.*)?$/is

/** An outer scheme in front of the actual one. */
const OUTER_SCHEME = /^[a-z][a-z\d.-]*\+(?=[a-z][a-z\d+.-]*:)/i

/** The canonical URIs as which a text may be read; none if it is not a URI. */
export function uriReadings(text: string): readonly string[] {
  const found = new Set<string>()
  for (const each of decodings(text)) {
    for (const uri of innerUris(each.replaceAll('\\', '/')))
      for (const reading of readingsOf(uri)) found.add(reading)
  }
  return [...found]
}

/** The URI, and its remainder without each of its outer schemes. */
function innerUris(uri: string): string[] {
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
    const base = `${start}${isRooted ? '/' : ''}${normalisePath(each).replace(/^\//, '')}`
    return [`${base}${query}${fragment}`, `${base}${query}`, base]
  })
}

/** The authority without the user, in lower case, and normalised if the scheme is known. */
function host(uri: string, authority: string | undefined): string {
  if (authority === undefined) return ''
  const known = readUrl(uri)?.host
  return `//${known ?? authority.slice(2).replace(/^.*@/s, '').toLowerCase()}`
}

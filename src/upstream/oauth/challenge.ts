/** The challenges of a `WWW-Authenticate` header (RFC 9110 §11.6.1) that ask for a token (RFC 6750, RFC 9449, RFC 9728). */

/** What the challenges for tokens say, together. */
export interface Challenge {
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

/** Regular expressions in linear time (RE2), loaded on demand; and globs. */
import { LRUCache } from 'lru-cache'
import { createRequire } from 'node:module'

/** An untrusted regular expression, matched in time linear to the text. */
export interface Pattern {
  /** Whether the text contains a match; `otherwise` for texts that are too long to be examined. */
  test(text: string, otherwise: boolean): boolean
  /** The text with each match replaced, and the number of matches. There is no length limit. */
  replaceAll(text: string, replacement: string): { readonly text: string; readonly count: number }
}

/** The maximum length of a pattern and of a text in characters, and the number of cached patterns. */
const limits = { pattern: 1000, text: 100_000, kept: 1000 }
const patterns = new LRUCache<string, Pattern | 'unsupported'>({ max: limits.kept })

/**
 * Compiles a pattern of ECMA-262. Undefined if it cannot be matched in linear time, because of lookarounds,
 * back-references or the modifiers `m` and `s`, or if it is too long, or has another Unicode property after too many.
 * @throws SyntaxError if it is not a valid pattern, or one of another dialect
 */
export function compilePattern(source: string, { ignoreCase = false } = {}): Pattern | undefined {
  if (source.length > limits.pattern) {
    if (!isValid(source)) RegExp(source)
    return undefined
  }
  const key = `${ignoreCase ? 'i' : ''}/${source}`
  const known = patterns.get(key) ?? compile(source, ignoreCase)
  patterns.set(key, known)
  return known === 'unsupported' ? undefined : known
}

const require = createRequire(import.meta.url)

function compile(source: string, ignoreCase: boolean): Pattern | 'unsupported' {
  // Loaded for the first pattern, which most configurations do not have.
  const { RE2JS }: typeof import('re2js') = require('re2js')
  try {
    const flags = ignoreCase ? RE2JS.CASE_INSENSITIVE : 0
    const compiled = RE2JS.compile(RE2JS.translateRegExp(toRe2(source, ignoreCase)), flags)
    return {
      test: (text, otherwise) => (text.length > limits.text ? otherwise : compiled.test(text)),
      replaceAll: (text: string, replacement: string) => {
        let count = 0
        const replace = (): string => {
          count += 1
          return replacement
        }
        const replaced = compiled.matcher(text).replaceAll(replace)
        return { text: replaced, count }
      },
    }
  } catch (error) {
    if (error instanceof SyntaxError) throw error
    return 'unsupported'
  }
}

// Patterns of ECMA-262, as JSON Schema has them (with the flag `u`), in the syntax of RE2. Where the two differ, classes are
// written out: `\s` and `.` by their code points, and properties such as `\p{Script=Greek}` by those that V8 finds. Patterns of
// other dialects, such as `\Z` of Python, `\h` of Java or `[[:alpha:]]` of POSIX, are invalid in ECMA-262 or mean something
// else there, so they are not guessed at.

/** The same pattern for RE2; its syntax may still be unsupported there. @throws SyntaxError if it is not one of ECMA-262 */
function toRe2(source: string, isCaseIgnored: boolean): string {
  let inClass = false
  // `(?s:.)`: what `.`, `^` and `$` match there differs.
  if (/\(\?[ims-]*[ms][ims-]*:/.test(source)) throw new RangeError('it has modifiers')
  return tokensOf(asUnicode(source))
    .map((token) => {
      const isMember = inClass
      inClass = isInClass(inClass, token)
      if (isMember) return inClassOf(token, isCaseIgnored)
      if (token === '[]') return NOTHING
      return token === '[^]' ? ANYTHING : outsideOf(token, isCaseIgnored)
    })
    .join('')
}

/** Escapes, quantifiers, the start of a class, and single characters. */
const TOKEN =
  /\\u[dD][89abAB][\da-fA-F]{2}\\u[dD][c-fC-F][\da-fA-F]{2}|\\u\{[\da-fA-F]+\}|\\u[\da-fA-F]{4}|\\x[\da-fA-F]{2}|\\c[A-Za-z]|\\[pP]\{[^}]*\}|\\k<[^>]*>|\\[^]|\{\d+(?:,\d*)?\}|\[\^?\]?|[^]/gu

/** Whether what follows a token is in a class. In one, `[` is a member, and `]` ends it, also in the token `[]`. */
function isInClass(before: boolean, token: string): boolean {
  return before ? token.startsWith('\\') || !token.endsWith(']') : token === '[' || token === '[^'
}

function tokensOf(source: string): readonly string[] {
  return source.match(TOKEN) ?? []
}

/** A pattern with the flag `u`: harmless escapes such as `\-`, which only patterns without it may have, are removed. */
function asUnicode(source: string): string {
  if (isValid(source)) return rejectingSets(source)
  const strict = strictly(source)
  if (strict === undefined || !isValid(strict)) {
    // Its message says what is wrong.
    RegExp(source)
    throw new SyntaxError(`Invalid regular expression: /${source}/: it is not one of ECMA-262`)
  }
  return rejectingSets(strict)
}

function isValid(source: string): boolean {
  try {
    return RegExp(source, 'u') instanceof RegExp
  } catch {
    return false
  }
}

/** Java, Python and `v` of ECMA-262 read `&&` in a class as an intersection, others as two characters. */
function rejectingSets(source: string): string {
  let inClass = false
  const tokens = tokensOf(source)
  for (const [index, token] of tokens.entries()) {
    if (inClass && token === '&' && tokens[index + 1] === '&')
      throw new SyntaxError(`Invalid regular expression: /${source}/: && in a class has no common meaning`)
    inClass = isInClass(inClass, token)
  }
  return source
}

const SYNTAX = new Set('^$\\.*+?()[]{}|/')
const SET_ESCAPE = /^\\(?:[dDsSwW]$|[pP]\{)/

/** The pattern with escapes that the flag `u` permits; undefined if that could change what it means. */
function strictly(source: string): string | undefined {
  const tokens = tokensOf(source)
  let inClass = false
  const strict: string[] = []
  for (const [index, token] of tokens.entries()) {
    const [, escaped] = token.length === 2 && token.startsWith('\\') ? token : []
    // Classes in classes, and `]` as the first member of one, are of other dialects.
    if (token === '[]' || token === '[^]' || (inClass && token.startsWith('['))) return undefined
    if (escaped !== undefined && !/[\da-z]/i.test(escaped)) {
      strict.push(SYNTAX.has(escaped) || (inClass && escaped === '-') ? token : escaped)
    } else if (inClass && token === '-') {
      const isRange = ![tokens[index - 1], tokens[index + 1]].some((each) => SET_ESCAPE.test(each ?? ''))
      strict.push(isRange ? token : '\\-')
    } else if (!inClass && (token === '{' || token === '}' || token === ']')) {
      // `{,3}` is a quantifier elsewhere.
      if (token === '{' && tokens[index + 1] === ',') return undefined
      strict.push(`\\${token}`)
    } else strict.push(token)
    inClass = isInClass(inClass, token)
  }
  return strict.join('')
}

/** White space and line ends (ECMA-262 12.2 and 12.3). */
const SPACE =
  '\\t-\\r \\x{A0}\\x{1680}\\x{2000}-\\x{200A}\\x{2028}\\x{2029}\\x{202F}\\x{205F}\\x{3000}\\x{FEFF}'
const NOT_SPACE =
  '\\x{0}-\\x{8}\\x{E}-\\x{1F}!-\\x{9F}\\x{A1}-\\x{167F}\\x{1681}-\\x{1FFF}\\x{200B}-\\x{2027}\\x{202A}-\\x{202E}\\x{2030}-\\x{205E}\\x{2060}-\\x{2FFF}\\x{3001}-\\x{FEFE}\\x{FF00}-\\x{10FFFF}'
const ANYTHING = '[\\x{0}-\\x{10FFFF}]'
const NOTHING = '[^\\x{0}-\\x{10FFFF}]'

function outsideOf(token: string, isCaseIgnored: boolean): string {
  if (token === '.') return '[^\\n\\r\\x{2028}\\x{2029}]'
  if (token === '\\s' || token === '\\S') return `[${inClassOf(token, isCaseIgnored)}]`
  // RE2 reads it as text.
  if (token.startsWith('\\k<')) throw new RangeError('it has a back-reference')
  const members = propertyMembers(token, isCaseIgnored)
  return members === undefined ? characterOf(token) : `[${members}]`
}

function inClassOf(token: string, isCaseIgnored: boolean): string {
  if (token === '\\s') return SPACE
  if (token === '\\S') return NOT_SPACE
  if (token === '\\b') return '\\x08'
  if (token.startsWith('[')) return `\\${token}`
  return propertyMembers(token, isCaseIgnored) ?? characterOf(token)
}

function characterOf(token: string): string {
  if (token === '\\0') return '\\x00'
  if (token.startsWith('\\c')) return `\\x{${(token.charCodeAt(2) % 32).toString(16)}}`
  if (!token.startsWith('\\u')) return token
  const codes = [...token.matchAll(/\\u\{?([\da-fA-F]+)/g)].map(([, digits]) =>
    Number.parseInt(digits ?? '', 16),
  )
  const code = codes.length === 2 ? String.fromCharCode(...codes).codePointAt(0) : codes[0]
  return `\\x{${(code ?? 0).toString(16)}}`
}

/** General categories that RE2 knows by the same name. */
const KNOWN_CATEGORY = /^(?:L[ulmto]?|M[nce]?|N[dlo]?|P[cdseifo]?|S[mcko]?|Z[slp]?)$/

/** The code points of an escape `\p{…}` or `\P{…}` as members of a class; undefined for other tokens. */
function propertyMembers(token: string, isCaseIgnored: boolean): string | undefined {
  const [, kind, name = ''] = /^\\([pP])\{([^}]*)\}$/.exec(token) ?? []
  if (kind === undefined) return undefined
  // RE2 does not ignore the case of its own.
  if (KNOWN_CATEGORY.test(name) && !isCaseIgnored) return token
  const known = properties.get(token)
  if (known !== undefined) return known
  if (properties.size >= MAX_PROPERTIES) throw new RangeError('it is one of too many Unicode properties')
  const members = rangesOf(new RegExp(`${token}+`, 'gu'))
  properties.set(token, members)
  return members
}

const properties = new Map<string, string>()
/** Finding the code points of one takes some 50 ms. */
const MAX_PROPERTIES = 32

/** The ranges of code points that a pattern for one or more characters matches. Lone surrogates are in no text. */
function rangesOf(pattern: RegExp): string {
  const ranges: string[] = []
  for (const [found] of allCharacters().matchAll(pattern)) {
    const end = found.charCodeAt(found.length - 1)
    const last = found.codePointAt(found.length - (end >= 0xdc00 && end <= 0xdfff ? 2 : 1))
    ranges.push(`\\x{${found.codePointAt(0)?.toString(16)}}-\\x{${last?.toString(16)}}`)
  }
  return ranges.length === 0 ? '\\x{d800}' : ranges.join('')
}

/** Every code point but surrogates, in their order. */
function allCharacters(): string {
  const units = new Uint16Array(0xf800 + 0x20_0000)
  let at = 0
  for (let code = 0; code <= 0xffff; code++) if (code < 0xd800 || code > 0xdfff) units[at++] = code
  for (let high = 0xd800; high <= 0xdbff; high++)
    for (let low = 0xdc00; low <= 0xdfff; low++) {
      units[at++] = high
      units[at++] = low
    }
  return Buffer.from(units.buffer).toString('utf16le')
}

// Globs with `*`: matches, the most specific one, and overlaps.

/** Whether a name matches a glob: `*` stands for any characters, all other characters for themselves. */
export function fits(glob: string, name: string): boolean {
  return starsIn(glob, name) !== undefined
}

/** What each `*` of a glob stands for in a name; undefined if the name does not match. */
export function starsIn(glob: string, name: string): readonly string[] | undefined {
  const [first = '', ...rest] = glob.split('*')
  if (rest.length === 0) return glob === name ? [] : undefined
  const last = rest.pop() ?? ''
  if (!name.startsWith(first) || !name.endsWith(last) || name.length < first.length + last.length)
    return undefined
  const stars: string[] = []
  let at = first.length
  const end = name.length - last.length
  for (const part of rest) {
    const found = name.indexOf(part, at)
    if (found === -1 || found + part.length > end) return undefined
    stars.push(name.slice(at, found))
    at = found + part.length
  }
  return [...stars, name.slice(at, end)]
}

/** The globs that match a name, most specific first, by the number of characters other than `*`. */
export function fitting(globs: readonly string[], name: string): string[] {
  const found = globs.filter((glob) => fits(glob, name))
  return found.toSorted((one, other) => weight(other) - weight(one))
}

function weight(glob: string): number {
  return glob.replaceAll('*', '').length + (glob.includes('*') ? 0 : 0.5)
}

/** Whether some name matches both globs. */
export function overlaps(one: string, other: string): boolean {
  // The positions in `other` that are reachable after the characters of `one` read so far.
  let reached = behindStars(new Set([0]), other)
  for (const letter of one) {
    const next = [...reached].flatMap((at) => stepsOf(letter, at, other))
    reached = behindStars(new Set(next), other)
  }
  return reached.has(other.length)
}

function stepsOf(letter: string, at: number, other: string): number[] {
  if (letter === '*') return Array.from({ length: other.length - at + 1 }, (_, more) => at + more)
  if (other[at] === '*') return [at]
  return other[at] === letter ? [at + 1] : []
}

/** A star may match nothing. */
function behindStars(reached: Set<number>, glob: string): Set<number> {
  for (const at of reached) if (glob[at] === '*') reached.add(at + 1)
  return reached
}

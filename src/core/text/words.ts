/** Splits names and texts into words and stems. */
import type { Client } from '../call.ts'

/** The tokens that a text takes in the context of a model: an estimate, as models count them differently. */
export function estimatedTokens(text: string): number {
  return Math.ceil(text.length / CHARACTERS_PER_TOKEN)
}

const CHARACTERS_PER_TOKEN = 4

/** A number of things: `1 server`, `2 servers`. */
export function countText(count: number, thing: string): string {
  return `${count} ${thing}${count === 1 ? '' : 's'}`
}

/** The words of a name in lower case: `getHTTPStatus` is get, http, status. */
export function wordsOf(name: string): string[] {
  const words = spaced(name)
    .toLowerCase()
    .split(/[\s_./:-]+/)
  return words.filter((word) => word !== '')
}

/** The words of texts that list them, with white space between them. */
export function wordSet(...texts: readonly string[]): ReadonlySet<string> {
  return new Set(texts.join(' ').trim().split(/\s+/))
}

/** A text with spaces inserted into camelCase words. */
export function spaced(text: string): string {
  return text.replaceAll(/([a-z\d])([A-Z])/g, '$1 $2').replaceAll(/([A-Z])([A-Z][a-z])/g, '$1 $2')
}

/** Whether two words are the same noun, in singular or plural. */
export function isSameNoun(one: string, other: string): boolean {
  if (one === other) return true
  const forms = new Set(singulars(one))
  return singulars(other).some((form) => forms.has(form))
}

/** Whether two lists contain the same nouns, each in singular or plural. */
export function areSameNouns(ones: readonly string[], others: readonly string[]): boolean {
  return ones.length === others.length && ones.every((word, at) => isSameNoun(word, others[at] ?? ''))
}

/** Possible singulars of a word, including itself. */
function singulars(word: string): string[] {
  if (word.length < 4 || !word.endsWith('s') || word.endsWith('ss')) return [word]
  const shorter = [word, word.slice(0, -1)]
  if (word.endsWith('ies')) return [...shorter, `${word.slice(0, -3)}y`]
  return /(?:s|x|z|ch|sh)es$/.test(word) ? [...shorter, word.slice(0, -2)] : shorter
}

/**
 * The words of a text in lower case, without stop words. Names in camelCase, snake_case or kebab-case are split into
 * words.
 */
export function wordsIn(text: string): string[] {
  const words =
    spaced(text)
      .toLowerCase()
      .match(/[\p{L}\p{M}\p{N}]+/gu) ?? []
  return words.filter((word) => !stopWords.has(word))
}

/** The words of a query, in which an address or a file name is replaced by its kind. */
export function queryWords(text: string): string[] {
  return wordsIn(text.split(/\s+/).map(kindOf).join(' '))
}

/** The kind of thing a token names, or the token itself; empty for long tokens. */
function kindOf(token: string): string {
  if (token.length > MAX_TOKEN_LENGTH) return ''
  if (address.test(token)) return 'url'
  return fileName.test(token) ? 'file' : token
}

const MAX_TOKEN_LENGTH = 512
const address = /^["'(<]?(?:[a-z][a-z\d+.-]*:\/\/|www\.|[\w-]+\.(?:com|org|net|io|dev|app|edu|gov)(?:\W|$))/i
const fileName = /^["'(`]?[\w~/-][\w~./-]*\.[a-z][a-z\d]{1,4}["')`?!.,;:]*$/i

/** A word without its ending, so that `relations` and `related` are equal. The stem need not be a word. */
export function stem(word: string): string {
  if (word.length < 4 || !/^[a-z]+$/.test(word)) return word
  const singular = withoutPlural(word)
  const noun = singular.replace(/(?<=\w{4})(?:ship|ment|ness)$/, '')
  const [, root = noun] = endings.map((ending) => ending.exec(noun)).find((found) => found) ?? []
  return root.replace(doubled, '$1').replace(/(?<=..)e$/, '')
}

function withoutPlural(word: string): string {
  if (word.length > 4 && word.endsWith('ies')) return `${word.slice(0, -3)}y`
  if (/(?:ss|x|z|ch|sh)es$/.test(word)) return word.slice(0, -2)
  return /[^sui]s$/.test(word) ? word.slice(0, -1) : word
}

/** Endings, each with what precedes them; the first match is removed. */
const endings = [
  /^(\w{4,})at(?:ion|ing|ed|e)$/,
  /^(\w{2,}[st])ion$/,
  /^(\w*[aeiouy]\w+)(?:ing|edly|ed)$/,
  /^(\w{4,})ly$/,
]

/**
 * Two equal consonants, one of which an ending added, as in `logged`; those of `fill` and `press` belong to the word.
 */
const doubled = /([bdfgkmnprt])\1$/

const stopWords = new Set(
  [
    'a an the this that these those there here it its itself',
    'i me my mine we us our ours you your yours he him his she her hers they them their theirs',
    'who whom whose what which when where why how',
    'am is are was were be been being do does did doing done have has had having',
    'can could may might must shall should will would',
    'to of in on at by for from with without into onto as than then if or and but so not no nor',
    'about up out off over under per via just only also too very still yet again',
    'please want wants need needs like let lets try trying help some any something anything everything',
  ]
    .join(' ')
    .split(' '),
)

// The nearest name to a misspelled one.

/** The word most similar to `word`, if it is similar enough to be the intended one. */
export function nearest(word: string, words: readonly string[]): string | undefined {
  const limit = Math.max(1, Math.floor(word.length / 3))
  const written = plain(word)
  let best: string | undefined
  let bestDistance = limit + 1
  for (const candidate of words) {
    const other = plain(candidate)
    // At least this many edits are needed.
    if (Math.abs(written.length - other.length) >= bestDistance) continue
    const distance = edits(written, other)
    if (distance >= bestDistance) continue
    best = candidate
    bestDistance = distance
  }
  return best
}

/** The edit distance of two words, ignoring case, `-` and `_`. */
export function distance(one: string, other: string): number {
  return edits(plain(one), plain(other))
}

function plain(word: string): string {
  return word.toLowerCase().replaceAll(/[-_]/g, '')
}

function edits(from: string, to: string): number {
  let row = Array.from({ length: to.length + 1 }, (_, index) => index)
  let before = row
  for (const [index, letter] of [...from].entries()) {
    const next = [index + 1]
    for (const [column, other] of [...to].entries()) {
      const replaced = (row[column] ?? 0) + (letter === other ? 0 : 1)
      // Two transposed letters count as one edit.
      const isSwap = index > 0 && column > 0 && letter === to[column - 1] && other === from[index - 1]
      const swapped = isSwap ? (before[column - 1] ?? 0) + 1 : Infinity
      next.push(Math.min(replaced, swapped, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1))
    }
    before = row
    row = next
  }
  return row[to.length] ?? Infinity
}

/** The maximum length of the name of a client, in characters. */
const MAX_CLIENT_NAME_LENGTH = 128

/** The name and version of a client by its own account; undefined if it states no name. */
export function clientName({ info = {} }: Pick<Client, 'info'>): string | undefined {
  const { name, version } = info
  if (typeof name !== 'string') return undefined
  const stated = typeof version === 'string' ? `${name} ${version}` : name
  return stated.slice(0, MAX_CLIENT_NAME_LENGTH).toWellFormed()
}

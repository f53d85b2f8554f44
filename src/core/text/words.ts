/** Splits names and texts into words and stems. */

/** The words of a name in lower case: `getHTTPStatus` is get, http, status. */
export function wordsOf(name: string): string[] {
  const words = spaced(name)
    .toLowerCase()
    .split(/[\s_./:-]+/)
  return words.filter((word) => word !== '')
}

/** A text with spaces where camelCase begins another word. */
export function spaced(text: string): string {
  return text.replaceAll(/([a-z\d])([A-Z])/g, '$1 $2').replaceAll(/([A-Z])([A-Z][a-z])/g, '$1 $2')
}

/** Whether two words are one noun, in singular or plural. */
export function isSameNoun(one: string, other: string): boolean {
  if (one === other) return true
  const forms = new Set(singulars(one))
  return singulars(other).some((form) => forms.has(form))
}

/** Whether two lists of words are the same nouns, each in singular or plural. */
export function areSameNouns(ones: readonly string[], others: readonly string[]): boolean {
  return ones.length === others.length && ones.every((word, at) => isSameNoun(word, others[at] ?? ''))
}

/** What a word could be in singular, itself included. */
function singulars(word: string): string[] {
  if (word.length < 4 || !word.endsWith('s') || word.endsWith('ss')) return [word]
  const shorter = [word, word.slice(0, -1)]
  if (word.endsWith('ies')) return [...shorter, `${word.slice(0, -3)}y`]
  return /(?:s|x|z|ch|sh)es$/.test(word) ? [...shorter, word.slice(0, -2)] : shorter
}

/**
 * The words of a text in lower case, without those that every text has. Names fall into their words, whether in
 * camelCase, snake_case or kebab-case.
 */
export function wordsIn(text: string): string[] {
  const words =
    spaced(text)
      .toLowerCase()
      .match(/[\p{L}\p{M}\p{N}]+/gu) ?? []
  return words.filter((word) => !stopWords.has(word))
}

/** The same for a query, where an address or a file name counts as its kind. */
export function queryWords(text: string): string[] {
  return wordsIn(text.split(/\s+/).map(kindOf).join(' '))
}

/** A token as the kind of thing it names, or as it is; empty for long ones. */
function kindOf(token: string): string {
  if (token.length > MAX_TOKEN_LENGTH) return ''
  if (address.test(token)) return 'url'
  return fileName.test(token) ? 'file' : token
}

const MAX_TOKEN_LENGTH = 512
const address = /^["'(<]?(?:[a-z][a-z\d+.-]*:\/\/|www\.|[\w-]+\.(?:com|org|net|io|dev|app|edu|gov)(?:\W|$))/i
const fileName = /^["'(`]?[\w~/-][\w~./-]*\.[a-z][a-z\d]{1,4}["')`?!.,;:]*$/i

/** A word without its ending, so that `relations` and `related` are one: not a word any more, only the same for both. */
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

/** Endings with what stays before them; the first one that fits is taken. */
const endings = [
  /^(\w{4,})at(?:ion|ing|ed|e)$/,
  /^(\w{2,}[st])ion$/,
  /^(\w*[aeiouy]\w+)(?:ing|edly|ed)$/,
  /^(\w{4,})ly$/,
]

/** Two equal consonants that an ending doubled, as in `logged`; those of `fill` and `press` are its own. */
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

// The nearest name to a mistyped one.

/** The word most like `word`, when one is like it enough to be what was meant. */
export function nearest(word: string, words: readonly string[]): string | undefined {
  const limit = Math.max(1, Math.floor(word.length / 3))
  const written = plain(word)
  let best: string | undefined
  let bestDistance = limit + 1
  for (const candidate of words) {
    const other = plain(candidate)
    // It takes at least as many edits.
    if (Math.abs(written.length - other.length) >= bestDistance) continue
    const distance = edits(written, other)
    if (distance >= bestDistance) continue
    best = candidate
    bestDistance = distance
  }
  return best
}

/** How many letters of one word have to change for it to be the other, whatever the case and without `-` and `_`. */
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
      // Two letters that changed places are one slip.
      const isSwap = index > 0 && column > 0 && letter === to[column - 1] && other === from[index - 1]
      const swapped = isSwap ? (before[column - 1] ?? 0) + 1 : Infinity
      next.push(Math.min(replaced, swapped, (row[column + 1] ?? 0) + 1, (next[column] ?? 0) + 1))
    }
    before = row
    row = next
  }
  return row[to.length] ?? Infinity
}

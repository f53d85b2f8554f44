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

import type { Descriptor } from '../core/entry.ts'
import { stem } from '../core/stem.ts'
import { actionOf } from '../core/synonyms.ts'
import { verbClass } from '../core/judgement/lexicon.ts'
import { wordsOf } from '../core/words.ts'
import { objectOf } from './category.ts'

/** What a tool changes, as far as the words of its own in its name say: nothing where it only reads. */
export function effectsOf(
  { classification, upstream, definition }: Descriptor,
  words: readonly string[],
): string[] {
  if (classification.op === 'read') return []
  const [verb = '', ...rest] = words
  if (rest.length === 0 || !isVerb(verb, definition.description)) return [`may change data of ${upstream}`]
  return [`${conjugated(verb)} ${object(rest)} in ${upstream}`]
}

/** A name may as well begin with a noun: `file_upload`. */
function isVerb(word: string, description: unknown): boolean {
  if (!/^[a-z]{2,}$/.test(word)) return false
  const root = stem(word)
  const kind = verbClass(word)
  const [first = ''] = typeof description === 'string' ? wordsOf(description.slice(0, 100)) : []
  // What stands for administration is often a noun: `role`, `billing`.
  return (kind !== undefined && kind !== 'admin') || actionOf(root) !== undefined || stem(first) === root
}

function conjugated(verb: string): string {
  if (/[^aeiou]y$/.test(verb)) return `${verb.slice(0, -1)}ies`
  return /(?:s|x|z|ch|sh|o)$/.test(verb) ? `${verb}es` : `${verb}s`
}

const articles: ReadonlySet<string> = new Set([
  'a',
  'an',
  'the',
  'all',
  'any',
  'multiple',
  'to',
  'from',
  'in',
])

function object(words: readonly string[]): string {
  const [first = ''] = words
  const noun = objectOf(words).at(-1) ?? ''
  const isBare =
    articles.has(first) || /[^s]s$/.test(noun) || /(?:[a-z]{3}ing|data|content|access|children)$/.test(noun)
  const article = isBare ? '' : /^[aeiou]/.test(first) ? 'an ' : 'a '
  return article + words.join(' ')
}

import type { Entry } from '../core/entry.ts'
import { wordsOf } from '../core/words.ts'
import { objectOf } from './category.ts'

/** What a tool changes, as far as its name says: nothing where it only reads. */
export function effectsOf({ name, nature, upstream }: Entry): string[] {
  if (nature.op === 'read') return []
  const [verb = '', ...rest] = wordsOf(name)
  if (rest.length === 0 || !/^[a-z]{2,}$/.test(verb)) return [`may change data of ${upstream}`]
  return [`${conjugated(verb)} ${object(rest)} in ${upstream}`]
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
    articles.has(first) || /[^s]s$/.test(noun) || /(?:[a-z]{3}ing|data|content|access)$/.test(noun)
  const article = isBare ? '' : /^[aeiou]/.test(first) ? 'an ' : 'a '
  return article + words.join(' ')
}

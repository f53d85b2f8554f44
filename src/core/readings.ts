/**
 * Names of tools read as a verb and the nouns it is about, in every way that a name can be read.
 */
import { nounOf } from './selectors.ts'

/** A name read as a verb and nouns. */
export interface NameReading {
  readonly verb: string
  readonly nouns: readonly string[]
  /** The noun the verb does something to; absent where none is left. */
  readonly thing: string | undefined
}

/** Each way to read a name as a verb and nouns. */
export function readingOf(words: readonly string[]): NameReading[] {
  const all = meaning(words)
  return all.map((verb, at) => ({ verb, nouns: all.toSpliced(at, 1), thing: thingOf(words, verb) }))
}

/** The noun before what is only told of where it is: behind the verb, else before it. */
function thingOf(words: readonly string[], verb: string): string | undefined {
  const at = words.indexOf(verb)
  const rest = words.slice(at + 1)
  const end = rest.findIndex((word) => whereabouts.has(word))
  const behind = end === -1 ? rest : rest.slice(0, end)
  return nounOf(behind.filter((word) => !little.has(word))) ?? nounOf(words.slice(0, Math.max(at, 0)))
}

const whereabouts = new Set('to from in into on onto of for at with by'.split(' '))

/** Nouns without the words that only say how a thing is read, and what it is found by. */
export function plainNouns(nouns: readonly string[]): readonly string[] {
  const by = nouns.indexOf('by')
  const about = by > 0 ? nouns.slice(0, by) : nouns
  const left = about.filter((word) => !manners.has(word))
  return left.length === 0 ? about : left
}

/** Words that say how something is read, not what. */
const manners = new Set('text content contents detail details full raw'.split(' '))

const little = new Set('a an the to from in into on onto of for at with out'.split(' '))

function meaning(words: readonly string[]): readonly string[] {
  const found = words.filter((word) => !little.has(word))
  return found.length === 0 ? words : found
}

/** Interpretations of tool names as a verb and its nouns. */
import { wordSet, areSameNouns } from '../text/words.ts'
import { nounOf } from './selectors.ts'
import { shapeOf, type ToolShape } from './tool-shape.ts'

/** A name interpreted as a verb and nouns. */
export interface VerbReading {
  readonly verb: string
  readonly nouns: readonly string[]
  /** The direct object of the verb, if any. */
  readonly thing: string | undefined
}

/** All interpretations of a name. */
export function readingOf(words: readonly string[]): VerbReading[] {
  const all = contentWords(words)
  return all.map((verb, at) => ({ verb, nouns: all.toSpliced(at, 1), thing: thingOf(words, verb) }))
}

/** The object, without prepositional phrases: the noun after the verb, or else before it. */
function thingOf(words: readonly string[], verb: string): string | undefined {
  const at = words.indexOf(verb)
  const rest = words.slice(at + 1)
  const end = rest.findIndex((word) => prepositions.has(word))
  const behind = end === -1 ? rest : rest.slice(0, end)
  return nounOf(behind.filter((word) => !fillers.has(word))) ?? nounOf(words.slice(0, Math.max(at, 0)))
}

const prepositions = wordSet('to from in into on onto of for at with by')

/** Nouns without words for the form of what is read and for how it is found. */
export function plainNouns(nouns: readonly string[]): readonly string[] {
  const by = nouns.indexOf('by')
  const about = by > 0 ? nouns.slice(0, by) : nouns
  const remaining = about.filter((word) => !formWords.has(word))
  return remaining.length === 0 ? about : remaining
}

/** Words for the form of what is read, not its kind. */
const formWords = wordSet('text content contents detail details full raw')

const fillers = wordSet('a an the to from in into on onto of for at with out')

function contentWords(words: readonly string[]): readonly string[] {
  const found = words.filter((word) => !fillers.has(word))
  return found.length === 0 ? words : found
}

// An index of a server's tools by the verbs their names can begin with, so that candidates for an undo are found
// without reading every name again for each tool: a server may list thousands.

type Definition = Readonly<Record<string, unknown>>

interface IndexedReading extends VerbReading {
  readonly tool: ToolShape
  /** Where it is in the list. */
  readonly place: number
  readonly plain: readonly string[]
}

/** The tools of one list. */
export class ToolNameIndex {
  readonly #readings: ReadonlyMap<string, readonly IndexedReading[]>

  constructor(all: readonly Definition[]) {
    const readings = all.flatMap((definition, place) => {
      const tool = shapeOf(definition)
      return readingOf(tool.words).map((each) => ({ ...each, tool, place, plain: plainNouns(each.nouns) }))
    })
    this.#readings = Map.groupBy(readings, ({ verb }) => verb)
  }

  /** The tools whose names can be read as one of the verbs with the nouns, in the order of the list. */
  withNouns(verbs: readonly string[], nouns: readonly string[]): readonly ToolShape[] {
    return this.#find(verbs, (reading) => areSameNouns(reading.nouns, nouns))
  }

  /** The same, ignoring words for the form of what is read. */
  withPlainNouns(verbs: readonly string[], nouns: readonly string[]): readonly ToolShape[] {
    return this.#find(verbs, ({ plain }) => areSameNouns(plain, nouns))
  }

  #find(verbs: readonly string[], matches: (reading: IndexedReading) => boolean): readonly ToolShape[] {
    const found = verbs.flatMap((verb) => this.#readings.get(verb)?.filter(matches) ?? [])
    const ordered = found.toSorted((one, other) => one.place - other.place)
    return [...new Set(ordered.map(({ tool }) => tool))]
  }
}

const known = new WeakMap<readonly Definition[], ToolNameIndex>()

/** The index of a list, cached by list. */
export function indexOf(all: readonly Definition[]): ToolNameIndex {
  const found = known.get(all) ?? new ToolNameIndex(all)
  known.set(all, found)
  return found
}

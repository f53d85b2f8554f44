/**
 * The tools of a server by the verbs their names can be read with, so that those that could undo one of them are
 * found without reading every name again for each: a server may list thousands.
 */
import { plainNouns, readingOf } from './readings.ts'
import { shapeOf, type ToolShape } from './tool-shape.ts'
import { areSameNouns } from './words.ts'

type Definition = Readonly<Record<string, unknown>>

interface Reading {
  readonly tool: ToolShape
  readonly nouns: readonly string[]
  readonly plain: readonly string[]
}

/** The tools of one list. */
export class ToolNameIndex {
  readonly #readings = new Map<string, Reading[]>()
  readonly #places = new Map<ToolShape, number>()

  constructor(all: readonly Definition[]) {
    for (const [place, definition] of all.entries()) {
      const tool = shapeOf(definition)
      this.#places.set(tool, place)
      for (const { verb, nouns } of readingOf(tool.words)) {
        const known = this.#readings.get(verb) ?? []
        known.push({ tool, nouns, plain: plainNouns(nouns) })
        this.#readings.set(verb, known)
      }
    }
  }

  /** The tools whose names can be read as one of these verbs with these nouns, in the order of the list. */
  said(verbs: readonly string[], nouns: readonly string[]): readonly ToolShape[] {
    return this.#find(verbs, (reading) => areSameNouns(reading.nouns, nouns))
  }

  /** The same, without the words that only say how a thing is read. */
  saidPlainly(verbs: readonly string[], nouns: readonly string[]): readonly ToolShape[] {
    return this.#find(verbs, ({ plain }) => areSameNouns(plain, nouns))
  }

  #find(verbs: readonly string[], isMeant: (reading: Reading) => boolean): readonly ToolShape[] {
    const found = new Set<ToolShape>()
    for (const verb of verbs) {
      for (const reading of this.#readings.get(verb) ?? []) if (isMeant(reading)) found.add(reading.tool)
    }
    return [...found].toSorted((one, other) => this.#placeOf(one) - this.#placeOf(other))
  }

  #placeOf(tool: ToolShape): number {
    return this.#places.get(tool) ?? 0
  }
}

const known = new WeakMap<readonly Definition[], ToolNameIndex>()

/** The index of a list; the same for the same list. */
export function indexOf(all: readonly Definition[]): ToolNameIndex {
  const found = known.get(all) ?? new ToolNameIndex(all)
  known.set(all, found)
  return found
}

/** Ranks texts by a query (BM25 with synonyms), for suggestions. */
import type { Descriptor, ServerRecord } from '../descriptor.ts'
import { isObject } from '../json/json.ts'
import { actionOf, synonymsOf } from './synonyms.ts'
import { queryWords, stem, wordsIn } from './words.ts'

/** What is ranked: the words of a tool, or of anything that is named and described. */
export interface Described {
  readonly name: string
  readonly title?: string
  readonly description?: string
  /** The names of its parameters. */
  readonly parameters?: readonly string[]
}

/** How well one of what was described fits. */
export interface Ranked<Of extends Described = Described> {
  readonly of: Of
  /** To be compared with that of others for the same query. */
  readonly score: number
  /** How much of the query it says, from 0 to 1. */
  readonly match: number
}

/** Finds what fits words best. */
export interface Ranking<Of extends Described = Described> {
  /** Everything that has any word of the query, best first; equally good ones with the shorter name first. */
  rank(query: string): Ranked<Of>[]
}

/** The weight of each part of what is described, and how much it counts against a part that it is long. */
const fields = [
  { weight: 3, length: 0.5 },
  { weight: 1.5, length: 0.5 },
  { weight: 1.5, length: 0.6 },
  { weight: 0.6, length: 0.75 },
  { weight: 0.5, length: 0.75 },
] as const

/** BM25: how soon standing in one more part adds nothing. */
const SATURATION = 1.2
/** How much a synonym counts beside the word itself, and how much more a word in the very same form. */
const SYNONYM = 0.8
const SAME_FORM = 0.1
/** What is left for one that is named for another kind of action than is asked for. */
const CONTRARY = 0.8
/** How much what is done counts, beside what it is done to, for how much of a query is said. */
const VERB = 0.4
/** How much of a text and how many words of a query are looked at: both are written by others. */
const MAX_TEXT_LENGTH = 4000
const MAX_QUERY_WORDS = 64

/** Looks for words where they count most: in names, then titles and first sentences, then the rest (BM25F). */
export function createRanking<Of extends Described>(documents: readonly Of[]): Ranking<Of> {
  const parts = documents.map((each) => partsOf(each).map(wordsIn))
  const byStem = indexOf(parts.map((texts) => texts.map((words) => words.map(stem))))
  const byForm = indexOf(parts)
  const actions = parts.map(([name = []]) => new Set(name.flatMap((word) => actionOf(stem(word)) ?? [])))

  const worth = (...stems: readonly string[]): number => {
    const having = stems.flatMap((each) => [...(byStem.get(each)?.keys() ?? [])])
    const count = new Set(having).size
    return Math.log(1 + (documents.length - count + 0.5) / (count + 0.5))
  }

  /** What a word of the query adds to each document: by itself, or by the best of its synonyms. */
  const addTo = (sums: Map<number, Sum>, form: string, importance: number): void => {
    const word = stem(form)
    const synonyms = synonymsOf(word)
    const best = new Map<number, Sum>()
    note(best, byStem.get(word), { share: 1, rarity: worth(word) })
    const rarity = worth(word, ...synonyms)
    for (const other of synonyms) note(best, byStem.get(other), { share: SYNONYM, rarity })
    const same = byForm.get(form)
    for (const [at, { score, coverage }] of best) {
      const sum = sums.get(at) ?? { score: 0, coverage: 0 }
      sum.score += same?.has(at) === true ? score * (1 + SAME_FORM) : score
      sum.coverage += coverage * importance
      sums.set(at, sum)
    }
  }

  return {
    rank: (query) => {
      const forms = [...new Set(queryWords(query.slice(0, MAX_TEXT_LENGTH)))].slice(0, MAX_QUERY_WORDS)
      const kinds = forms.map((form) => actionOf(stem(form)))
      const wanted = kinds.find((action) => action !== undefined)
      const importance = kinds.map((action) => (action === undefined ? 1 : VERB))
      const totalImportance = importance.reduce((sum, each) => sum + each, 0)
      const sums = new Map<number, Sum>()
      forms.forEach((form, at) => addTo(sums, form, importance[at] ?? 1))
      const found = [...sums].flatMap(([at, { score, coverage }]) => {
        const [of, own] = [documents[at], actions[at]]
        const isContrary = wanted !== undefined && own !== undefined && own.size > 0 && !own.has(wanted)
        const factor = isContrary ? CONTRARY : 1
        return of
          ? [{ of, score: score * factor, match: Math.min(1, (coverage / totalImportance) * factor) }]
          : []
      })
      return found.toSorted(byScore)
    },
  }
}

/** What was found of a query in a document: how much that counts, and how much of the query it is. */
interface Sum {
  score: number
  coverage: number
}

/** The name, the title, the first sentence, what follows it, and the names of parameters. */
function partsOf({ name, title = '', description = '', parameters = [] }: Described): string[] {
  const text = description.slice(0, MAX_TEXT_LENGTH)
  const end = /[.!?](?=\s)|\n/.exec(text)?.index ?? text.length
  const parts = [name, title, text.slice(0, end), text.slice(end), parameters.join(' ')]
  return parts.map((part) => part.slice(0, MAX_TEXT_LENGTH))
}

/** Which documents have a word, by their place, and how much it counts there. */
type Index = ReadonlyMap<string, ReadonlyMap<number, number>>

function indexOf(documents: readonly (readonly (readonly string[])[])[]): Index {
  const averages = fields.map((_, field) => {
    const total = documents.reduce((sum, texts) => sum + (texts[field]?.length ?? 0), 0)
    return Math.max(1, total / Math.max(1, documents.length))
  })
  const index = new Map<string, Map<number, number>>()
  documents.forEach((texts, at) => {
    for (const [word, weight] of weightsOf(texts, averages)) {
      const known = index.get(word) ?? new Map<number, number>()
      known.set(at, weight)
      index.set(word, known)
    }
  })
  return index
}

/** How much each word counts for one document, over all its parts. */
function weightsOf(texts: readonly (readonly string[])[], averages: readonly number[]): Map<string, number> {
  const weights = new Map<string, number>()
  fields.forEach(({ weight, length }, field) => {
    const words = texts[field] ?? []
    const norm = 1 - length + (length * words.length) / (averages[field] ?? 1)
    // Descriptions are written by whoever wants to be found: saying a word again adds nothing.
    for (const word of new Set(words)) weights.set(word, (weights.get(word) ?? 0) + weight / norm)
  })
  return weights
}

/** Notes what a word adds to each document that has it, where that is more than is noted. */
function note(
  best: Map<number, Sum>,
  having: ReadonlyMap<number, number> | undefined,
  { share, rarity }: { readonly share: number; readonly rarity: number },
): void {
  for (const [at, weight] of having ?? []) {
    const coverage = share * Math.min(1, (weight * (SATURATION + 1)) / (weight + SATURATION))
    const score = (share * rarity * weight * (SATURATION + 1)) / (weight + SATURATION)
    const known = best.get(at)
    if (!known || score > known.score) best.set(at, { score, coverage })
  }
}

/** Scores that differ by no more than rounding are equal. */
function byScore(one: Ranked, other: Ranked): number {
  const difference = Math.round(other.score * 1e6) - Math.round(one.score * 1e6)
  if (difference !== 0) return difference
  const [name, second] = [one.of.name, other.of.name]
  return name.length - second.length || (name < second ? -1 : name > second ? 1 : 0)
}

/** A tool as it is ranked. */
export interface DescribedTool extends Described {
  readonly entry: Descriptor
}

/** A tool with the words that say what it does; `name` where clients call it by another name than its server. */
export function describedTool(entry: Descriptor, name: string = entry.name): DescribedTool {
  const { title, annotations, description, inputSchema } = entry.definition
  const { properties } = isObject(inputSchema) ? inputSchema : {}
  const displayTitle = [title, isObject(annotations) ? annotations.title : undefined].find(isText)
  return {
    name,
    entry,
    ...(displayTitle !== undefined && { title: displayTitle }),
    ...(isText(description) && { description }),
    ...(isObject(properties) && { parameters: Object.keys(properties).slice(0, MAX_PARAMETERS) }),
  }
}

/** Rankings of what servers have, each made again only when what its servers list changed. */
export function rankingsOf<Of extends Described>(
  describe: (record: ServerRecord) => readonly Of[],
): (records: readonly ServerRecord[]) => Ranking<Of> {
  const known = new Map<string, { readonly version: string; readonly ranking: Ranking<Of> }>()
  return (records) => {
    const key = records.map(({ name }) => name).join()
    const version = records.map(({ contentVersion }) => contentVersion).join()
    const found = known.get(key)
    if (found?.version === version) return found.ranking
    const ranking = createRanking(records.flatMap((record) => describe(record)))
    // One for each server, and one for all of them: there are never more.
    known.set(key, { version, ranking })
    return ranking
  }
}

/** How many parameters of a tool are looked at. */
const MAX_PARAMETERS = 100

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

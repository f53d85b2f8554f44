/** Ranks texts by a query (BM25 with synonyms), for suggestions. */
import type { Descriptor, ServerRecord } from '../descriptor.ts'
import { asObject, isObject } from '../json/json.ts'
import { actionOf, synonymsOf } from './synonyms.ts'
import { queryWords, stem, wordsIn } from './words.ts'

/** The searchable texts of a tool or another named and described item. */
export interface Described {
  readonly name: string
  readonly title?: string
  readonly description?: string
  /** The names of its parameters. */
  readonly parameters?: readonly string[]
}

/** A search result. */
export interface Ranked<Of extends Described = Described> {
  readonly of: Of
  /** Comparable with other scores of the same query. */
  readonly score: number
  /** The fraction of the query it covers, from 0 to 1. */
  readonly match: number
}

/** A search index. */
export interface Ranking<Of extends Described = Described> {
  /** All items that match any word of the query, best first; among equals, the shorter name first. */
  rank(query: string): Ranked<Of>[]
}

/** The weight of each field, and how strongly its length counts against it. */
const fields = [
  { weight: 3, length: 0.5 },
  { weight: 1.5, length: 0.5 },
  { weight: 1.5, length: 0.6 },
  { weight: 0.6, length: 0.75 },
  { weight: 0.5, length: 0.75 },
] as const

/** BM25: how soon further occurrences stop adding to the score. */
const SATURATION = 1.2
/** The weight of a synonym relative to the word itself, and the bonus for a word in exactly the same form. */
const SYNONYM = 0.8
const SAME_FORM = 0.1
/** The factor for an item whose name stands for another kind of action than the query. */
const CONTRARY = 0.8
/** The weight of an action word relative to its object, for the covered fraction of a query. */
const VERB = 0.4
/** The maximum number of characters of a text and of words of a query that are examined: both are untrusted. */
const MAX_TEXT_LENGTH = 4000
const MAX_QUERY_WORDS = 64

/** Indexes the words of documents, weighted by field: names most, then titles and first sentences, then the rest (BM25F). */
export function createRanking<Of extends Described>(documents: readonly Of[]): Ranking<Of> {
  const parts = documents.map((document) => partsOf(document).map(wordsIn))
  const byStem = indexOf(parts.map((texts) => texts.map((words) => words.map(stem))))
  const byForm = indexOf(parts)
  const actions = parts.map(([name = []]) => new Set(name.flatMap((word) => actionOf(stem(word)) ?? [])))

  const worth = (...stems: readonly string[]): number => {
    const having = stems.flatMap((item) => [...(byStem.get(item)?.keys() ?? [])])
    const count = new Set(having).size
    return Math.log(1 + (documents.length - count + 0.5) / (count + 0.5))
  }

  /** Adds the contribution of a query word to each document: of the word itself or its best synonym. */
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
      const totalImportance = importance.reduce((sum, item) => sum + item, 0)
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

/** The score of a document, and the fraction of the query it covers. */
interface Sum {
  score: number
  coverage: number
}

/** The name, the title, the first sentence, the rest of the description, and the parameter names. */
function partsOf({ name, title = '', description = '', parameters = [] }: Described): string[] {
  const text = description.slice(0, MAX_TEXT_LENGTH)
  const end = /[.!?](?=\s)|\n/.exec(text)?.index ?? text.length
  const parts = [name, title, text.slice(0, end), text.slice(end), parameters.join(' ')]
  return parts.map((part) => part.slice(0, MAX_TEXT_LENGTH))
}

/** The documents that contain a word, by position, with its weight there. */
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

/** The weight of each word for one document, over all fields. */
function weightsOf(texts: readonly (readonly string[])[], averages: readonly number[]): Map<string, number> {
  const weights = new Map<string, number>()
  fields.forEach(({ weight, length }, field) => {
    const words = texts[field] ?? []
    const norm = 1 - length + (length * words.length) / (averages[field] ?? 1)
    // Descriptions are written by whoever wants to be found: repeating a word adds nothing.
    for (const word of new Set(words)) weights.set(word, (weights.get(word) ?? 0) + weight / norm)
  })
  return weights
}

/** Records the contribution of a word to each document that contains it, if it is higher than the recorded one. */
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

/** Scores that differ only by rounding are equal. */
function byScore(one: Ranked, other: Ranked): number {
  const difference = Math.round(other.score * 1e6) - Math.round(one.score * 1e6)
  if (difference !== 0) return difference
  const [name, second] = [one.of.name, other.of.name]
  return name.length - second.length || (name < second ? -1 : name > second ? 1 : 0)
}

/** A tool in a search index. */
export interface DescribedTool extends Described {
  readonly entry: Descriptor
}

/** A tool with its descriptive texts; `name` if clients use another name than the server. */
export function describedTool(entry: Descriptor, name: string = entry.name): DescribedTool {
  const { title, annotations, description, inputSchema } = entry.definition
  const { properties } = asObject(inputSchema)
  const displayTitle = [title, isObject(annotations) ? annotations.title : undefined].find(isText)
  return {
    name,
    entry,
    ...(displayTitle !== undefined && { title: displayTitle }),
    ...(isText(description) && { description }),
    ...(isObject(properties) && { parameters: Object.keys(properties).slice(0, MAX_PARAMETERS) }),
  }
}

/** Rankings over servers, rebuilt only when their lists change. */
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
    // One for each server, and one for all of them: the map cannot grow further.
    known.set(key, { version, ranking })
    return ranking
  }
}

/** The maximum number of indexed parameters of a tool. */
const MAX_PARAMETERS = 100

function isText(value: unknown): value is string {
  return typeof value === 'string'
}

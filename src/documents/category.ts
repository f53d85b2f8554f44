import type { ToolDetails } from '../core/record.ts'
import { stem } from '../core/stem.ts'
import { actionOf } from '../core/synonyms.ts'
import { isSameNoun, wordsOf } from '../core/words.ts'

type Named = Pick<ToolDetails, 'entry'>

/** What each tool is about: the noun of its name that most tools share, in plural; else the name of the server. */
export function categoriesOf<Tool extends Named>(
  tools: readonly Tool[],
  server: string,
): ReadonlyMap<Tool, string> {
  const words = ownWordsOf(tools, server)
  const nouns = words.map(nounsOf)
  const count = new Map<string, number>()
  const forms = new Map<string, string>()
  const formOf = (word: string): string => {
    const known = forms.get(word) ?? [...count.keys()].find((form) => isSameNoun(form, word))
    if (known !== undefined) forms.set(word, known)
    return known ?? word
  }
  for (const word of nouns.slice(0, MAX_TOOLS).flat()) {
    const form = formOf(word)
    count.set(form, (count.get(form) ?? 0) + 1)
  }
  return new Map(
    tools.map((tool, at) => {
      const own = leading(words[at] ?? [], count, formOf).concat(nouns[at] ?? [])
      const best = own.toSorted((one, other) => countOf(other) - countOf(one))[0]
      return [tool, best === undefined ? server : plural(formOf(best))]
    }),
  )

  function countOf(word: string): number {
    return count.get(formOf(word)) ?? 0
  }
}

/** The words of the name of each tool, without those of the server and without what all names begin with. */
export function ownWordsOf(tools: readonly Named[], server: string): readonly (readonly string[])[] {
  return withoutShared(tools.map((tool) => ownWords(tool.entry.name, server)))
}

/** Tools beyond these do not take part in finding out which nouns are common. */
const MAX_TOOLS = 500

const emptyNouns: ReadonlySet<string> = new Set(
  'a an the of in on to for from with without by as at and or all any one single multiple many new my own self me back forward unsafe allowed list info details detail status sizes tool tools'.split(
    ' ',
  ),
)

/** The nouns of a name, without the verb it begins with; the last one is what it is about. */
function nounsOf(words: readonly string[]): string[] {
  return objectOf(words.slice(1))
    .filter((word) => !emptyNouns.has(word) && !/^\d+$/.test(word))
    .toReversed()
}

const prepositions: ReadonlySet<string> = new Set(['with', 'as', 'by', 'from', 'to', 'in', 'for'])

/** What an action is done to, of the words after its verb: those before the first preposition. */
export function objectOf(words: readonly string[]): readonly string[] {
  const stop = words.findIndex((word) => prepositions.has(word))
  return stop > 0 ? words.slice(0, stop) : words
}

/** A name may begin with its noun: `directory_tree`, where another tool is called `list_directory`. */
function leading(
  [first = '']: readonly string[],
  count: ReadonlyMap<string, number>,
  formOf: (word: string) => string,
): string[] {
  return count.has(formOf(first)) ? [first] : []
}

/** The words of a name, without those of the server in front. */
function ownWords(name: string, server: string): string[] {
  const words = wordsOf(name)
  const prefix = wordsOf(server)
  const isPrefixed = words.length > prefix.length && prefix.every((word, at) => words[at] === word)
  return isPrefixed ? words.slice(prefix.length) : words
}

/** From how many tools on what all names begin with says nothing of any of them: `browser_close`, `API-get-user`. */
const MIN_TOOLS_FOR_PREFIX = 3

function withoutShared(names: readonly (readonly string[])[]): readonly (readonly string[])[] {
  const [[first] = []] = names
  const isShared =
    names.length >= MIN_TOOLS_FOR_PREFIX && names.every((words) => words.length > 1 && words[0] === first)
  // Tools may all do the same with different things: `get_forecast`, `get_alerts`.
  return isShared && actionOf(stem(first ?? '')) === undefined ? names.map((words) => words.slice(1)) : names
}

const uncountable: ReadonlySet<string> = new Set(
  'info data metadata content text weather history config configuration access help research logging news media status'.split(
    ' ',
  ),
)

function plural(noun: string): string {
  if (uncountable.has(noun) || /[^s]s$/.test(noun)) return noun
  if (/[^aeiou]y$/.test(noun)) return `${noun.slice(0, -1)}ies`
  return /(?:s|x|z|ch|sh)$/.test(noun) ? `${noun}es` : `${noun}s`
}

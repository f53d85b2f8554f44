/** The purpose of a server as text: configured, else derived from its tools. */
import type { ServerRecord, ToolDetails } from '../../core/descriptor.ts'
import { actionOf } from '../../core/text/synonyms.ts'
import { isSameNoun, wordsOf, stem } from '../../core/text/words.ts'
import type { ServerDescription, ToolDescription } from './description.ts'
import { clipped, firstListed, firstSentence, listed, oneLine, sentence } from './text.ts'

/** The maximum length of the description of a skill (Agent Skills). */
const MAX_DESCRIPTION_LENGTH = 1024
/** The maximum length of the purpose in it, in characters. */
const MAX_PURPOSE_LENGTH = 400
const MAX_TRIGGERS = 5
/** How many servers, and how many topics, a purpose names. */
const MAX_NAMED = 12
const MAX_TOPICS = 4

/** The purpose of a server in one sentence: configured, else from the server, else the topics of its tools. */
export function purposeOf(
  { about, instructions, info, name }: ServerRecord,
  tools: readonly ToolDescription[],
) {
  const own = oneLine(about.about)
  if (own !== '') return sentence(clipped(own, MAX_PURPOSE_LENGTH))
  const text = firstSentence(instructions, MAX_PURPOSE_LENGTH)
  const isUseful = text.length > 10 && !/\b(?:these instructions|this document|audience)\b/i.test(text)
  const summary =
    (isUseful && text) || firstSentence(info.description, MAX_PURPOSE_LENGTH) || oneLine(info.title)
  if (summary !== '') return sentence(clipped(summary, MAX_PURPOSE_LENGTH))
  const topics = [...new Set(tools.map(({ category }) => category))].filter((each) => each !== name)
  const most = topics
    .toSorted((one, other) => countOf(tools, other) - countOf(tools, one))
    .slice(0, MAX_TOPICS)
  if (topics.length === 0) return `Tools for ${name}.`
  // The name of the server may be one of the topics.
  const isTopic = tools.some(
    ({ category, definition }) => category === name && isAbout(definition.name, name),
  )
  return isTopic ? `Tools for ${listed([name, ...most])}.` : `Tools for ${name}: ${listed(most)}.`
}

/** Whether a tool has a noun after the verb in its name. */
function isAbout(tool: unknown, noun: string): boolean {
  return wordsOf(String(tool))
    .slice(1)
    .some((word) => isSameNoun(word, noun))
}

/** The purpose of all servers together. */
export function purposeOfAll(parts: readonly ServerDescription[], areApart = false): string {
  const names = firstListed(
    parts.map(({ name }) => name),
    MAX_NAMED,
  )
  const many = parts.length === 1 ? 'one server' : `${parts.length} servers`
  if (areApart) return `Separate MCP endpoints for ${many}: ${names}.`
  return `One MCP endpoint for ${many}: ${names}.`
}

/** The purpose and when to use it; always contains a phrase about when. */
export function describe(purpose: string, useWhen: readonly string[], written = ''): string {
  const short = clipped(purpose, MAX_PURPOSE_LENGTH)
  if (/\buse (?:this |it )?when\b/i.test(written) && /\buse (?:this |it )?when\b/i.test(short)) return short
  const capacity = MAX_DESCRIPTION_LENGTH - short.length - 40
  const phrases: string[] = []
  for (const each of useWhen) {
    const phrase = clipped(requestPhrase(each), 200)
    if (phrases.join(', ').length + phrase.length + 6 <= capacity) phrases.push(phrase)
  }
  const when = phrases.length > 0 ? `the user asks to ${listed(phrases, 'or')}` : 'the user asks for it'
  return `${short} Use when ${when}.`
}

/** The tools whose titles have the least in common, in their original order. */
function distinctive(tools: readonly ToolDescription[]): ToolDescription[] {
  const usable = tools.filter(({ isDeprecated }) => !isDeprecated).slice(0, 300)
  const left = usable.map((tool) => ({ tool, words: new Set(wordsOf(tool.title).flatMap(noun)) }))
  const count = new Map<string, number>()
  for (const { words } of left) for (const word of words) count.set(word, (count.get(word) ?? 0) + 1)
  const covered = new Set<string>()
  const found = new Set<ToolDescription>()
  while (found.size < MAX_TRIGGERS && left.length > 0) {
    const scores = left.map(
      ({ tool, words }) => gain(words) + (covered.has(`op ${tool.classification.op}`) ? 0 : 1),
    )
    const [best] = left.splice(scores.indexOf(Math.max(...scores)), 1)
    if (!best) break
    covered.add(`op ${best.tool.classification.op}`)
    for (const word of best.words) covered.add(word)
    found.add(best.tool)
  }
  return usable.filter((tool) => found.has(tool))

  /** How much new information a title adds, per word. */
  function gain(words: ReadonlySet<string>): number {
    const added = [...words].filter((word) => !covered.has(word)).map((word) => count.get(word) ?? 0)
    return added.reduce((sum, each) => sum + each, 0) / Math.max(words.size, 1)
  }
}

/** A title as a request of a user: `Read Text File` becomes `read text file`. */
export function triggersOf(tools: readonly ToolDescription[]): string[] {
  return unique(distinctive(tools).map(({ title }) => titlePhrase(title)))
}

/** The access level of tools. */
export function accessOf(tools: readonly ToolDescription[]): ServerDescription['accessLevel'] {
  if (tools.every(({ classification }) => classification.op === 'read')) return 'read'
  const isOpen = tools.some(
    ({ classification, facts }) => classification.risk === 'destructive' && !facts.confirmation,
  )
  return isOpen ? 'full' : 'interact'
}

/** A tool as a request of a user: the first sentence if it is imperative, else the title. */
export function asksOf(tools: readonly ToolDescription[]): string[] {
  const phrases = distinctive(tools).map(({ summary, title, name }) => {
    const [verb = ''] = wordsOf(summary)
    const text = summary.replace(/[.!]$/, '')
    const isOrder = summary !== title && (verb === wordsOf(name)[0] || orders.has(verb))
    return isOrder && text.length <= PHRASE && !text.endsWith('…') ? lower(text) : titlePhrase(title)
  })
  return unique(phrases)
}

function titlePhrase(title: string): string {
  const bare = title.replace(/\s+tool$/i, '').replaceAll(/\s*\([^)]*\)/g, '')
  const words = /\s/.test(bare) ? bare.split(' ') : wordsOf(bare)
  return clipped(words.map(lower).join(' '), PHRASE)
}

function unique(phrases: readonly string[]): string[] {
  return [...new Set(phrases)].filter((each) => each !== '')
}

/** The maximum length of a phrase, in characters. */
const PHRASE = 90

/** Verbs that make the first sentence of a description imperative. */
const orders: ReadonlySet<string> = new Set(
  'add analyze change check convert count create delete download edit execute fetch find generate get list look make manage modify move open publish query read remove rename replace retrieve return run search send set show start stop store summarize take translate update upload write'.split(
    ' ',
  ),
)

/** With a lower-case first letter, unless it is an abbreviation. */
function lower(text: string): string {
  return /^[A-Z](?:[a-z]|$|\s)/.test(text) ? text.charAt(0).toLowerCase() + text.slice(1) : text
}

const empty: ReadonlySet<string> = new Set([
  'a',
  'an',
  'the',
  'of',
  'in',
  'on',
  'to',
  'for',
  'with',
  'as',
  'by',
  'tool',
])

/** The singular of a word; filler words are dropped. */
function noun(word: string): string[] {
  if (empty.has(word)) return []
  if (word.length < 4 || word.endsWith('ss')) return [word]
  return [word.replace(/ies$/, 'y').replace(/s$/, '')]
}

/** A `use_when` text without a leading phrase that the sentence already has. */
function requestPhrase(text: string): string {
  return text
    .replace(/^(?:use )?when (?:the )?users? asks? (?:you )?(?:to|for|about) /i, '')
    .replace(/[.;,]$/, '')
}

function countOf(tools: readonly ToolDescription[], category: string): number {
  return tools.filter((tool) => tool.category === category).length
}

type Named = Pick<ToolDetails, 'entry'>

/** The topic of each tool: the noun of its name that most tools share, in plural, else the name of the server. */
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

/** The words of the name of each tool, without those of the server and without a common prefix. */
export function ownWordsOf(tools: readonly Named[], server: string): readonly (readonly string[])[] {
  return withoutShared(tools.map((tool) => ownWords(tool.entry.name, server)))
}

/** How many tools are considered for common nouns. */
const MAX_TOOLS = 500

const emptyNouns: ReadonlySet<string> = new Set(
  'a an the of in on to for from with without by as at and or all any one single multiple many new my own self me back forward unsafe allowed list info details detail status sizes tool tools'.split(
    ' ',
  ),
)

/** The nouns of a name after the verb; the last one is its topic. */
function nounsOf(words: readonly string[]): string[] {
  return objectOf(words.slice(1))
    .filter((word) => !emptyNouns.has(word) && !/^\d+$/.test(word))
    .toReversed()
}

const prepositions: ReadonlySet<string> = new Set(['with', 'as', 'by', 'from', 'to', 'in', 'for'])

/** The object of an action: the words after the verb, up to the first preposition. */
export function objectOf(words: readonly string[]): readonly string[] {
  const stop = words.findIndex((word) => prepositions.has(word))
  return stop > 0 ? words.slice(0, stop) : words
}

/** A name may begin with its noun: `directory_tree`, next to `list_directory`. */
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

/** The number of tools from which a common prefix is ignored: `browser_close`, `API-get-user`. */
const MIN_TOOLS_FOR_PREFIX = 3

function withoutShared(names: readonly (readonly string[])[]): readonly (readonly string[])[] {
  const [[first] = []] = names
  const isShared =
    names.length >= MIN_TOOLS_FOR_PREFIX && names.every((words) => words.length > 1 && words[0] === first)
  // A common verb is not a prefix: `get_forecast`, `get_alerts`.
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

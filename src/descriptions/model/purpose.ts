/** What a server is for, in words: from its owner, else from what its tools have in common. */
import type { ServerRecord, ToolDetails } from '../../core/descriptor.ts'
import { actionOf } from '../../core/text/synonyms.ts'
import { isSameNoun, wordsOf, stem } from '../../core/text/words.ts'
import type { ServerDescription, ToolDescription } from './description.ts'
import { clipped, firstListed, firstSentence, listed, oneLine, sentence } from './text.ts'

/** The longest description a skill may have (Agent Skills). */
const MAX_DESCRIPTION_LENGTH = 1024
/** How long what it is for may be in it, in characters. */
const MAX_PURPOSE_LENGTH = 400
const MAX_TRIGGERS = 5
/** How many servers, and how many things tools are about, a purpose names. */
const MAX_NAMED = 12
const MAX_TOPICS = 4

/** What a server is for, in a sentence: its owner's words, its own, else what its tools are about. */
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
  // What a server is named after may be one of the things it is about.
  const isTopic = tools.some(
    ({ category, definition }) => category === name && isAbout(definition.name, name),
  )
  return isTopic ? `Tools for ${listed([name, ...most])}.` : `Tools for ${name}: ${listed(most)}.`
}

/** Whether a tool has a noun in its name, behind the verb. */
function isAbout(tool: unknown, noun: string): boolean {
  return wordsOf(String(tool))
    .slice(1)
    .some((word) => isSameNoun(word, noun))
}

/** What all servers together are for. */
export function purposeOfAll(parts: readonly ServerDescription[], areApart = false): string {
  const names = firstListed(
    parts.map(({ name }) => name),
    MAX_NAMED,
  )
  const many = parts.length === 1 ? 'one server' : `${parts.length} servers`
  if (areApart) return `Each with an MCP endpoint of its own, ${many}: ${names}.`
  return `One MCP endpoint for ${many}: ${names}.`
}

/** What it is for and when to use it; a phrase that says when is always in it. */
export function describe(purpose: string, useWhen: readonly string[], written = ''): string {
  const short = clipped(purpose, MAX_PURPOSE_LENGTH)
  if (/\buse (?:this |it )?when\b/i.test(written) && /\buse (?:this |it )?when\b/i.test(short)) return short
  const room = MAX_DESCRIPTION_LENGTH - short.length - 40
  const phrases: string[] = []
  for (const each of useWhen) {
    const phrase = clipped(requestPhrase(each), 200)
    if (phrases.join(', ').length + phrase.length + 6 <= room) phrases.push(phrase)
  }
  const when = phrases.length > 0 ? `the user asks to ${listed(phrases, 'or')}` : 'the user asks for it'
  return `${short} Use when ${when}.`
}

/** The tools whose titles have least in common with each other, in their own order. */
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

  /** How much of what the tools are about a title adds, for each of its words. */
  function gain(words: ReadonlySet<string>): number {
    const added = [...words].filter((word) => !covered.has(word)).map((word) => count.get(word) ?? 0)
    return added.reduce((sum, each) => sum + each, 0) / Math.max(words.size, 1)
  }
}

/** What users may ask for, as titles: what is written as `Read Text File` is read text file. */
export function triggersOf(tools: readonly ToolDescription[]): string[] {
  return unique(distinctive(tools).map(({ title }) => titlePhrase(title)))
}

/** How far tools reach. */
export function accessOf(tools: readonly ToolDescription[]): ServerDescription['accessLevel'] {
  if (tools.every(({ classification }) => classification.op === 'read')) return 'read'
  const isOpen = tools.some(
    ({ classification, facts }) => classification.risk === 'destructive' && !facts.confirmation,
  )
  return isOpen ? 'full' : 'interact'
}

/** What users may ask for, as what the tools do: the first sentence where that is an order, else the title. */
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

/** How long a phrase may be, in characters. */
const PHRASE = 90

/** Words with which a description gives an order, whatever its tool is called. */
const orders: ReadonlySet<string> = new Set(
  'add analyze change check convert count create delete download edit execute fetch find generate get list look make manage modify move open publish query read remove rename replace retrieve return run search send set show start stop store summarize take translate update upload write'.split(
    ' ',
  ),
)

/** With a small letter in front, unless it is an abbreviation. */
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

/** A word in singular; words that say nothing are left out. */
function noun(word: string): string[] {
  if (empty.has(word)) return []
  if (word.length < 4 || word.endsWith('ss')) return [word]
  return [word.replace(/ies$/, 'y').replace(/s$/, '')]
}

/** What is written for use_when may begin as the sentence does. */
function requestPhrase(text: string): string {
  return text
    .replace(/^(?:use )?when (?:the )?users? asks? (?:you )?(?:to|for|about) /i, '')
    .replace(/[.;,]$/, '')
}

function countOf(tools: readonly ToolDescription[], category: string): number {
  return tools.filter((tool) => tool.category === category).length
}

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

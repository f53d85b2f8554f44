import type { ServerRecord } from '../core/record.ts'
import { isSameNoun, wordsOf } from '../core/words.ts'
import type { ServerDescription, ToolDescription } from './portrait.ts'
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
  const told = firstSentence(instructions, MAX_PURPOSE_LENGTH)
  const isTelling = told.length > 10 && !/\b(?:these instructions|this document|audience)\b/i.test(told)
  const said =
    (isTelling && told) || firstSentence(info.description, MAX_PURPOSE_LENGTH) || oneLine(info.title)
  if (said !== '') return sentence(clipped(said, MAX_PURPOSE_LENGTH))
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
  const kept: string[] = []
  for (const each of useWhen) {
    const phrase = clipped(asked(each), 200)
    if (kept.join(', ').length + phrase.length + 6 <= room) kept.push(phrase)
  }
  const when = kept.length > 0 ? `the user asks to ${listed(kept, 'or')}` : 'the user asks for it'
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
    const told = summary.replace(/[.!]$/, '')
    const isOrder = summary !== title && (verb === wordsOf(name)[0] || orders.has(verb))
    return isOrder && told.length <= PHRASE && !told.endsWith('…') ? lower(told) : titlePhrase(title)
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
function asked(text: string): string {
  return text
    .replace(/^(?:use )?when (?:the )?users? asks? (?:you )?(?:to|for|about) /i, '')
    .replace(/[.;,]$/, '')
}

function countOf(tools: readonly ToolDescription[], category: string): number {
  return tools.filter((tool) => tool.category === category).length
}

/**
 * Evidence from the verbs in names of tools. A name is read as a verb with its object: after a reading verb, words name
 * what is read, and a word that can be a noun is one before a verb.
 */
import { wordSet, wordsOf } from '../text/words.ts'
import type { Effect, Evidence } from './evidence.ts'
import {
  baseVerb,
  inContext,
  isGoverning,
  isNoun,
  verbClass,
  type VerbClass,
  withPhrases,
} from './lexicon.ts'
import { objectEvidence } from './objects.ts'
import { type Surroundings, withoutPrefix } from './surroundings.ts'

/** A name as verbs and what they govern. */
export interface NameReading {
  /** Without the name of the server and what many names begin with. */
  readonly words: readonly string[]
  readonly verbs: readonly string[]
  /** All words but those of the server. */
  readonly all: readonly string[]
  /** The first word is a verb that reads, although it could be the noun before the verb: "list_send". */
  readonly otherwise?: string
}

/** Reads the name of a tool. */
export function readName(name: string, server: string, around?: Surroundings): NameReading {
  const own = withoutServer(wordsOf(name), wordsOf(server))
  const words = withPhrases(around ? withoutPrefix(own, around) : own)
  const verbs = verbsOfName(words).map((verb) => inContext(verb, words))
  const [first = ''] = words
  const isOther = words === own || words[0] === own[0]
  const canRead = isOther && verbClass(first) === 'read' && verbs[0] !== first
  return { words, verbs, all: own, ...(canRead && { otherwise: first }) }
}

/** The evidence of a tool's name. */
export function evidenceOfName({ words, verbs, all }: NameReading): readonly Evidence[] {
  return [
    ...verbs.map((verb): Evidence => ({ ...ofVerb(verb, 'its name says'), isName: true })),
    ...objectEvidence(
      verbs,
      [...all, ...words].filter((word) => !verbs.includes(word) || isNoun(word)),
    ),
    ...(isWholeFile(words, verbs)
      ? [
          {
            effect: 'destructive' as const,
            isSoft: true as const,
            text: 'the previous contents of the file may be lost',
          },
        ]
      : []),
    ...(/\bto (?:file|disk|path)\b/.test(words.join(' '))
      ? [
          {
            effect: 'write' as const,
            text: 'its name says that it writes a file',
            verb: 'write',
            isName: true as const,
          },
        ]
      : []),
  ]
}

/** The evidence of a tool's name, without the name of its server. */
export function nameEvidence(name: string, server: string): readonly Evidence[] {
  return evidenceOfName(readName(name, server))
}

/** "create or update file", "write file": the previous contents may be lost. */
function isWholeFile(words: readonly string[], found: readonly string[]): boolean {
  if (!words.includes('file')) return false
  if (found.includes('update')) return found.includes('create')
  return found.some((verb) => verb === 'write' || verb === 'put')
}

/** The evidence of a title. */
export function titleEvidence(title: string): readonly Evidence[] {
  const words = withPhrases(wordsOf(title))
  return baseVerb(words[0] ?? '') === undefined
    ? []
    : verbsOfName(words).map((verb) => ofVerb(verb, 'its title says'))
}

/** The verb a tool's name begins with, after the name of its server; undefined if it is not a known verb. */
export function leadingVerb(name: string, server: string): string | undefined {
  const [first = ''] = withPhrases(withoutServer(wordsOf(name), wordsOf(server)))
  return baseVerb(first)
}

const effects: Readonly<Record<VerbClass, Effect>> = {
  read: 'read',
  session: 'write',
  write: 'write',
  soft: 'destructive',
  destructive: 'destructive',
  outward: 'destructive',
  admin: 'destructive',
  execute: 'execute',
}

/** The evidence of a verb. */
export function ofVerb(verb: string, origin: string): Evidence {
  const kind = verbClass(verb) ?? 'write'
  return {
    effect: effects[kind],
    text: `${origin} "${verb}"${kind === 'outward' ? ', which cannot be undone' : ''}`,
    ...(kind === 'soft' && { isSoft: true }),
    verb,
  }
}

function withoutServer(words: readonly string[], server: readonly string[]): readonly string[] {
  const isPrefixed = words.length > server.length && server.every((word, index) => words[index] === word)
  return isPrefixed ? words.slice(server.length) : words
}

const conjunctions = new Set(['and', 'or', 'then'])
/** First words of names that ask something: "is_prime", "has_access". */
const questions = wordSet(
  'is are has have can does was were should whether which what who how when where why',
)
/** Last words of names of what is read: "build_log", "deploy_status". */
const readable = wordSet(`
    status statuses state states history info information details detail log logs notes list lists stats statistics
    summary summaries count counts report reports results result metadata metrics overview balance balances
    documentation docs help options types schema version versions costs estimate quota limits usage queries events
    name names ids url urls
`)

/**
 * The verbs of a name. After a reading verb, words that name what is read do not count, until `and` or `or`. If a name
 * begins with a noun, its first verb counts.
 */
function verbsOfName(words: readonly string[]): string[] {
  if (questions.has(words[0] ?? '') && words.length > 1) return ['check']
  if (isThing(words)) return ['show']
  const found: string[] = []
  let isObject = false
  words.forEach((word, at) => {
    if (conjunctions.has(word)) isObject = false
    const verb = baseVerb(word)
    // "recent_trades", "list_members": the plural of a noun.
    if (verb !== undefined && word !== verb && isNoun(verb)) return
    if (verb === undefined || (word !== verb && found.length > 0 && !conjunctions.has(words[at - 1] ?? '')))
      return
    // After any verb, a word that can be a noun is its object: "create_release", "get_build_log".
    if (isObject || (found.length > 0 && isNoun(verb) && !conjunctions.has(words[at - 1] ?? ''))) return
    // At the start of a name of several words, a word that can be a noun and governs nothing is a noun: "build_status",
    // "order_list", "config_get_value".
    if (found.length === 0 && isNoun(verb) && isHeadOfVerb(words, at)) return
    if (found.length === 0 && isNoun(verb) && at < words.length - 1 && collecting.has(words.at(-1) ?? ''))
      return
    found.push(verb)
    if (isGoverning(verb)) isObject = true
  })
  return found
}

/** "deploy_status", "order_history": what begins like a verb and ends with what can be read, without another verb. */
function isThing(words: readonly string[]): boolean {
  const [first = '', ...rest] = words
  const last = rest.at(-1)
  if (last === undefined || !readable.has(last) || !isNoun(first) || never.has(first)) return false
  return rest.slice(0, -1).every((word) => baseVerb(word) === undefined)
}

/** Last words of names in the style of "admin_list". */
const collecting = wordSet('list search count lookup')

/** Words that are verbs before what can be read: "update_status". */
const never = wordSet(`
answer archive call cancel change clear clone comment copy drop empty erase export flush force forward hide import
   invite kick link load lock mark merge mute pause pin post purge push replace reply report request reset respond
   restore run send set share start stop switch tag tweet update upgrade vote wipe zap log sign move
`)

/** Whether a word that can be a noun precedes the verb of a name: "branch_delete", "order_get_items". */
function isHeadOfVerb(words: readonly string[], at: number): boolean {
  const rest = words.slice(at + 1)
  const [next] = rest
  if (next !== undefined && plainVerbs.has(next)) return true
  const verb = rest.find((word) => verbClass(word) !== undefined && !isNoun(word))
  return verb !== undefined && rest.at(-1) === verb
}

/** Verbs that are never nouns, adjectives or participles. */
const plainVerbs = wordSet(
  'get add create delete remove fetch retrieve insert modify edit describe enable disable',
)

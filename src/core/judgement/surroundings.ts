/**
 * What the whole list of a server says about each of its tools: hints that a library fills in, and a prefix that many
 * names share.
 */
import { isObject } from '../json/json.ts'
import { wordsOf } from '../text/words.ts'
import { baseVerb, isNoun, verbClass } from './lexicon.ts'

type Definition = Readonly<Record<string, unknown>>

/** What a list says about each of its tools. */
export interface Surroundings {
  /** All tools have exactly the hints that MCP assumes where there are none, so nobody chose them. */
  readonly isFilled: boolean
  /** All tools have all four hints, so those with the defaults of MCP may be filled in. */
  readonly isComplete: boolean
  /** Beginnings of names, as words joined by spaces, that say what many tools are about and not what they do. */
  readonly prefixes: readonly string[]
}

/** What is known without a list: nothing. */
export const noSurroundings: Surroundings = { isFilled: false, isComplete: false, prefixes: [] }
const known = new WeakMap<readonly Definition[], Surroundings>()

/** What a list says; a list is read once. */
export function surroundingsOf(list: readonly Definition[]): Surroundings {
  if (list.length === 0) return noSurroundings
  const found = known.get(list) ?? read(list)
  known.set(list, found)
  return found
}

/** Whether two lists say the same. */
export function areSameSurroundings(one: Surroundings, other: Surroundings): boolean {
  if (one === other) return true
  return (
    one.isFilled === other.isFilled &&
    one.isComplete === other.isComplete &&
    one.prefixes.join() === other.prefixes.join()
  )
}

/** Whether the hints are all four, and what MCP assumes where there are none. */
export function hasDefaults({ annotations }: Definition): boolean {
  if (!isObject(annotations)) return false
  return Object.entries(defaults).every(([hint, value]) => annotations[hint] === value)
}

const defaults = { readOnlyHint: false, destructiveHint: true, idempotentHint: false, openWorldHint: true }

function hasAll({ annotations }: Definition): boolean {
  if (!isObject(annotations)) return false
  return Object.keys(defaults).every((hint) => typeof annotations[hint] === 'boolean')
}

function read(list: readonly Definition[]): Surroundings {
  return {
    isFilled: list.every(hasDefaults),
    isComplete: list.every(hasAll) && list.some(hasDefaults),
    prefixes: prefixesOf(list.map(({ name }) => wordsOf(String(name)))),
  }
}

/** How many different words have to follow a prefix, and which part of them has to go on with a verb. */
const MIN_SHARING = 3
const MIN_PART = 0.6
const MAX_PREFIX_WORDS = 3

/** Prefixes of several names after which most names have a verb. A verb that leads most names is no prefix. */
function prefixesOf(names: readonly (readonly string[])[]): readonly string[] {
  const rests = new Map<string, string[]>()
  for (const words of names) {
    for (let length = 1; length <= MAX_PREFIX_WORDS && length < words.length; length++) {
      const prefix = words.slice(0, length).join(' ')
      const rest = rests.get(prefix) ?? []
      rest.push(words[length] ?? '')
      rests.set(prefix, rest)
    }
  }
  return [...rests].flatMap(([prefix, following]) => {
    if (new Set(following).size < MIN_SHARING) return []
    const [first = '', ...more] = prefix.split(' ')
    // "list payroll employee": what is listed.
    if (more.length > 0 && verbClass(first) === 'read') return []
    const last = prefix.split(' ').at(-1) ?? ''
    const isVerb = baseVerb(last) !== undefined && !isNoun(last)
    const acting = following.filter((word) => verbClass(word) !== undefined && (!isVerb || !isNoun(word)))
    return !isVerb && acting.length / following.length >= MIN_PART ? [prefix] : []
  })
}

/** The words of a name without the longest of the prefixes, unless nothing else would be left. */
export function withoutPrefix(words: readonly string[], { prefixes }: Surroundings): readonly string[] {
  const text = words.join(' ')
  const longest = prefixes
    .filter((prefix) => text.startsWith(`${prefix} `))
    .toSorted((one, other) => other.length - one.length)[0]
  return longest === undefined ? words : words.slice(longest.split(' ').length)
}

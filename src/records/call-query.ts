/**
 * The query language of the log of calls, for pages and commands: words, and conditions such as `tool:write_file`,
 * `status:denied`, `since:1h` and `duration>500ms`. All of them must hold.
 *
 * A query looks at the text of entries, so that of a million entries only those that match are parsed.
 */
import { milliseconds, timeIn } from '../core/time/units.ts'
import { type CallEnd, callEnds } from '../core/logged-call.ts'
import { fits } from '../core/text/pattern.ts'
import { isObject, readJson } from '../core/json/json.ts'

/** A query that was read. */
export interface CallQuery {
  /** The earliest end of a call, in milliseconds since 1970; undefined if it has none. */
  readonly since?: number
  /** Whether the text of several entries may have one that matches: false is certain. */
  mayHave(text: string): boolean
  /** Whether an entry matches, by its text. */
  matches(text: string): boolean
}

/** What is wrong with a query, and where to begin again. */
export interface QueryProblem {
  readonly problem: string
}

/** The conditions by name, and the member that each is about. */
const members: Readonly<Record<string, string>> = {
  tool: 'name',
  server: 'server',
  user: 'who',
  client: 'client',
  status: 'end',
  code: 'code',
  method: 'method',
  kind: 'op',
  id: 'id',
  trace: 'trace',
  action: 'action',
}

/** One condition: a literal that must be in the text, and the rest of the decision. */
interface Condition {
  readonly literal?: string
  readonly pattern?: RegExp
  matches?(text: string): boolean
}

/** The longest query, in characters. */
const MAX_QUERY_LENGTH = 500

/** Every call. */
export const everyCall: CallQuery = { mayHave: () => true, matches: () => true }

/** Reads a query; `now` is in milliseconds since 1970. What is wrong with it is said in a sentence. */
export function readQuery(text: string, now: number): CallQuery | QueryProblem {
  const conditions: Condition[] = []
  let since: number | undefined
  let until: number | undefined
  for (const word of wordsOf(text.slice(0, MAX_QUERY_LENGTH))) {
    const [, name = '', operator = '', given = ''] = /^([a-z]+)([:<>])(.+)$/is.exec(word) ?? []
    const value = unquoted(given)
    const key = name.toLowerCase()
    if (key === 'since' || key === 'until') {
      const at = timeIn(value, now)
      if (at === undefined)
        return { problem: `${key}: takes a duration such as 1h or 7d, or a time such as 2026-11-21T10:00Z.` }
      if (key === 'since') since = at
      else until = at
    } else if (key === 'duration') {
      const limit = durationIn(value)
      if (limit === undefined || operator === ':') return { problem: 'Write duration>500ms or duration<2s.' }
      conditions.push({ matches: (entry) => isLonger(entry, limit, operator === '>') })
    } else if (name !== '' && operator === ':' && Object.hasOwn(members, key)) {
      const condition = conditionOf(key, value)
      if ('problem' in condition) return condition
      conditions.push(condition)
    } else conditions.push(wordCondition(unquoted(word)))
  }
  return queryOf(conditions, since, until)
}

function queryOf(conditions: readonly Condition[], since?: number, until?: number): CallQuery {
  const hasAll = (text: string): boolean =>
    conditions.every(({ literal, pattern }) => {
      return (literal === undefined || text.includes(literal)) && (pattern?.test(text) ?? true)
    })
  return {
    ...(since !== undefined && { since }),
    mayHave: hasAll,
    matches: (text) => {
      if (since !== undefined || until !== undefined) {
        const at = numberAt(text, '{"at":')
        // What is no number does not match.
        if (!(at >= (since ?? 0) && at <= (until ?? Number.POSITIVE_INFINITY))) return false
      }
      return hasAll(text) && conditions.every((each) => each.matches?.(text) ?? true)
    },
  }
}

/** The condition of a name and a value; `*` stands for any text. */
function conditionOf(key: string, value: string): Condition | QueryProblem {
  const member = members[key] ?? key
  if (key === 'status') return statusCondition(value)
  if (!value.includes('*'))
    return exact(`"${member}":${JSON.stringify(value)}`, member, (found) => found === value)
  const longest = value.split('*').toSorted((one, other) => other.length - one.length)[0] ?? ''
  return exact(inner(longest), member, (found) => typeof found === 'string' && fits(value, found))
}

/** The words for ends of calls, beside those of the log itself. */
const statuses: ReadonlyMap<string, CallEnd> = new Map([
  ['error', 'failed'],
  ['refused', 'denied'],
  ['waiting', 'asked'],
])

function statusCondition(value: string): Condition | QueryProblem {
  const end = statuses.get(value) ?? callEnds.find((each) => each === value)
  if (end === undefined)
    return { problem: `status: is one of ${[...callEnds, ...statuses.keys()].join(', ')}.` }
  // The first members are of the gateway: no text of others is before them.
  return { literal: `,"end":"${end}"`, matches: (text) => text.indexOf(`,"end":"${end}"`) < HEAD_LENGTH }
}

/** The first members (`at`, `ms`, `end`) are within these characters. */
const HEAD_LENGTH = 64

/** A literal says which entries may match; texts of others can have the same, so the member decides. */
function exact(literal: string, member: string, isIt: (found: unknown) => boolean): Condition {
  return {
    literal,
    matches: (text) => {
      const value = readJson(text)
      return isObject(value) && isIt(value[member])
    },
  }
}

/** A word is searched in all texts of an entry, in upper or lower case, and not in the names of members. */
function wordCondition(word: string): Condition {
  const escaped = inner(word).replaceAll(/[\\^$.*+?()[\]{}|/]/g, String.raw`\$&`)
  return { pattern: new RegExp(`${escaped}(?!\\w*":)`, 'i') }
}

/** A text as it is inside of a JSON string. */
function inner(text: string): string {
  return JSON.stringify(text).slice(1, -1)
}

function isLonger(text: string, limit: number, isMore: boolean): boolean {
  const ms = numberAt(text, ',"ms":')
  return isMore ? ms > limit : ms < limit
}

/** The number after a name, among the first members of an entry. */
function numberAt(text: string, name: string): number {
  const at = text.indexOf(name)
  return at === -1 || at > HEAD_LENGTH
    ? Number.NaN
    : Number.parseFloat(text.slice(at + name.length, at + name.length + 20))
}

/** Words are separated by spaces; quotes keep them together, also after a colon. */
function wordsOf(text: string): string[] {
  return text.match(/(?:"(?:[^"\\]|\\.)*"?|[^\s"])+/g) ?? []
}

function unquoted(text: string): string {
  return /^".*"$/s.test(text) ? text.slice(1, -1).replaceAll(/\\(.)/gs, '$1') : text
}

/** A duration; a bare number is milliseconds. */
function durationIn(text: string): number | undefined {
  if (/^\d{1,9}$/.test(text)) return Number(text)
  try {
    return milliseconds(text)
  } catch {
    return undefined
  }
}

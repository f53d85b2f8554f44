/**
 * Operations on JSON text: finds, edits and removes members without parsing values that are not needed. Duplicate keys
 * and deep nesting are left to the callers.
 */

import { percentDecoded } from '../text/escape.ts'
import { ExactNumber } from './exact-number.ts'
import { parseJson } from './read.ts'

/** A member of a JSON object: its key, and the offsets of the member and its value in the object's text. */
export interface Member {
  readonly key: string
  readonly start: number
  readonly valueStart: number
  readonly end: number
}

const QUOTE = 34
const BACKSLASH = 92
const COMMA = 44
const COLON = 58
const OPEN_OBJECT = 123
const CLOSE_OBJECT = 125
const OPEN_ARRAY = 91
const CLOSE_ARRAY = 93

/** Finds the top-level members of a JSON object without parsing values. The text must be a valid JSON object. */
export function members(text: string): Member[] {
  const found: Member[] = []
  let at = skipSpace(text, text.indexOf('{') + 1)
  while (text.charCodeAt(at) === QUOTE) {
    const start = at
    const keyEnd = skipString(text, at)
    const key = unquoted(text.slice(start, keyEnd))
    const valueStart = valueAfter(text, keyEnd)
    const end = skipValue(text, valueStart)
    found.push({ key, start, valueStart, end })
    at = skipSpace(text, end)
    if (text.charCodeAt(at) !== COMMA) break
    at = skipSpace(text, at + 1)
  }
  return found
}

/** The texts of the elements of a JSON array. The text must be a valid JSON array. */
export function elements(text: string): string[] {
  const found: string[] = []
  let at = skipSpace(text, text.indexOf('[') + 1)
  while (at < text.length && text.charCodeAt(at) !== CLOSE_ARRAY) {
    const end = skipValue(text, at)
    found.push(text.slice(at, end))
    at = skipSpace(text, end)
    if (text.charCodeAt(at) === COMMA) at = skipSpace(text, at + 1)
  }
  return found
}

/**
 * Replaces, adds or (with `undefined`) removes top-level members of a JSON object. Edits are JSON texts; every other
 * value keeps its exact text, so large integers and `1.0` survive. `before` are its members, if they are known.
 */
export function editMembers(
  text: string,
  edits: ReadonlyMap<string, string | undefined>,
  before: readonly Member[] = members(text),
): string {
  const parts: string[] = []
  const done = new Set<string>()
  for (const member of before) {
    if (!edits.has(member.key)) {
      parts.push(text.slice(member.start, member.end))
      continue
    }
    const edit = edits.get(member.key)
    if (edit !== undefined && !done.has(member.key)) parts.push(`${JSON.stringify(member.key)}:${edit}`)
    done.add(member.key)
  }
  for (const [key, edit] of edits) {
    if (edit !== undefined && !done.has(key)) parts.push(`${JSON.stringify(key)}:${edit}`)
  }
  return `{${parts.join(',')}}`
}

/** Appends members, given as text, to a JSON object that has none of their keys. */
export function addMembers(text: string, added: string): string {
  const end = text.endsWith('}') ? text.length - 1 : text.lastIndexOf('}')
  const isEmpty = skipSpace(text, text.indexOf('{') + 1) === end
  return `${text.slice(0, end)}${isEmpty ? '' : ','}${added}}`
}

/**
 * Whether the containers of a JSON text are nested deeper than `maxDepth`. Texts too short for that are not scanned.
 */
export function isDeeperThan(text: string, maxDepth: number): boolean {
  if (text.length < 2 * maxDepth) return false
  let depth = 0
  let at = 0
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) at = skipString(text, at)
    else {
      if (code === OPEN_OBJECT || code === OPEN_ARRAY) depth++
      else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) depth--
      if (depth > maxDepth) return true
      at++
    }
  }
  return false
}

/** What `cutMembers` does with a member: remove it, skip its value, or descend into its value. */
export type MemberAction = 'cut' | 'skip' | 'enter'

/**
 * Removes members of a JSON text at any depth, in one pass; everything else keeps its exact text. Invalid JSON remains
 * invalid.
 */
export function cutMembers(text: string, actionFor: (key: string) => MemberAction): string {
  let kept = ''
  let from = 0
  let at = 0
  let comma = 0
  let isKeyNext = false
  /** The enclosing containers: an array, an object, or an object that keeps at least one member. */
  const containers: ('array' | 'object' | 'kept')[] = []
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      const start = at
      at = skipString(text, at)
      if (!isKeyNext) continue
      isKeyNext = false
      const action = actionFor(unquoted(text.slice(start, at)))
      if (action !== 'cut') containers[containers.length - 1] = 'kept'
      if (action === 'enter') continue
      at = skipSpace(text, skipValue(text, valueAfter(text, at)))
      if (action === 'skip') continue
      // Remove the preceding comma too; if no member precedes, the following one.
      const isAfter = containers.at(-1) === 'kept'
      kept += text.slice(from, isAfter ? comma : start)
      isKeyNext = !isAfter && text.charCodeAt(at) === COMMA
      if (isKeyNext) at++
      from = at
      continue
    }
    if (code === OPEN_OBJECT || code === OPEN_ARRAY) {
      isKeyNext = code === OPEN_OBJECT
      containers.push(isKeyNext ? 'object' : 'array')
    } else if (code === CLOSE_OBJECT || code === CLOSE_ARRAY) {
      isKeyNext = false
      containers.pop()
    } else if (code === COMMA) {
      isKeyNext = containers.at(-1) !== 'array'
      comma = at
    }
    at++
  }
  return from === 0 ? text : kept + text.slice(from)
}

/** Whether a value is a JSON object: neither null nor an array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof ExactNumber)
  )
}

/** The members of a JSON object; of any other value, none. */
export function asObject(value: unknown): Record<string, unknown> {
  return isObject(value) ? value : {}
}

/** The elements of a list; of any other value, none. */
export function asList(value: unknown): readonly unknown[] {
  return Array.isArray(value) ? value : []
}

/**
 * The value of a JSON text; undefined if it is not JSON. Most tool output is prose or JSON in many lines, and checking
 * first costs a hundredth of an exception with its stack.
 */
export function readJson(text: string): unknown {
  const start = skipSpace(text, 0)
  if (!STARTS.test(text.slice(start, start + 2))) return undefined
  if (skipSpace(text, skipValue(text, start)) < text.length) return undefined
  try {
    return parseJson(text)
  } catch {
    return undefined
  }
}

/** The beginnings of a JSON text. */
const STARTS = /^(?:["{[\d]|-\d|tr|fa|nu)/

/**
 * The same JSON text for equal values, independent of key order. Numbers are doubles, as in RFC 8785: values that differ
 * beyond their digits have the same text. Hashes of it are stored.
 */
export function canonical(value: unknown): string {
  return written(value, ({ text }) => JSON.stringify(Number(text)))
}

/** The same text for equal values, independent of key order and of how numbers are written, with all their digits. */
export function exactly(value: unknown): string {
  return written(value, ({ canonical: digits }) => digits)
}

function written(value: unknown, ofNumber: (number: ExactNumber) => string): string {
  if (value instanceof ExactNumber) return ofNumber(value)
  if (Array.isArray(value)) return `[${value.map((item) => written(item, ofNumber)).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value) ?? 'null'
  const keys = Object.keys(value)
    .filter((key) => value[key] !== undefined)
    .toSorted()
  return `{${keys.map((key) => `${JSON.stringify(key)}:${written(value[key], ofNumber)}`).join(',')}}`
}

/** Whether two values are equal, independent of key order; values nested too deeply to compare are not equal. */
export function isSame(one: unknown, other: unknown): boolean {
  try {
    return exactly(one) === exactly(other)
  } catch (error) {
    if (error instanceof RangeError) return false
    throw error
  }
}

/** The key that a quoted text stands for. */
function unquoted(quoted: string): string {
  if (!quoted.includes('\\')) return quoted.slice(1, -1)
  try {
    return String(parseJson(quoted))
  } catch {
    return quoted
  }
}

/** The offset of a member's value, given the end of its key. */
function valueAfter(text: string, keyEnd: number): number {
  const at = skipSpace(text, keyEnd)
  return skipSpace(text, text.charCodeAt(at) === COLON ? at + 1 : at)
}

function skipSpace(text: string, from: number): number {
  let at = from
  for (;;) {
    const code = text.charCodeAt(at)
    if (code !== 32 && code !== 10 && code !== 13 && code !== 9) return at
    at++
  }
}

function skipString(text: string, from: number): number {
  let end = text.indexOf('"', from + 1)
  while (end !== -1 && isEscaped(text, end)) end = text.indexOf('"', end + 1)
  return end === -1 ? text.length : end + 1
}

function isEscaped(text: string, quote: number): boolean {
  let slashes = 0
  while (text.charCodeAt(quote - 1 - slashes) === BACKSLASH) slashes++
  return slashes % 2 === 1
}

function skipValue(text: string, from: number): number {
  const first = text.charCodeAt(from)
  if (first === QUOTE) return skipString(text, from)
  if (first === OPEN_OBJECT || first === OPEN_ARRAY) return skipNested(text, from)
  let at = from
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === COMMA || code === CLOSE_OBJECT || code === CLOSE_ARRAY || code <= 32) return at
    at++
  }
  return at
}

function skipNested(text: string, from: number): number {
  let depth = 0
  let at = from
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === QUOTE) {
      at = skipString(text, at)
      continue
    }
    if (code === OPEN_OBJECT || code === OPEN_ARRAY) depth++
    else if ((code === CLOSE_OBJECT || code === CLOSE_ARRAY) && --depth === 0) return at + 1
    at++
  }
  return at
}

// JSON pointers (RFC 6901), also as fragments of references in schemas.

/** A key as a segment of a JSON pointer. */
export function pointerSegment(key: string): string {
  return key.replaceAll('~', '~0').replaceAll('/', '~1')
}

/** The unescaped segments of a JSON pointer. */
export function pointerSegments(pointer: string): string[] {
  if (pointer === '') return []
  return pointer
    .slice(1)
    .split('/')
    .map((segment) => segment.replaceAll('~1', '/').replaceAll('~0', '~'))
}

/** The value at a reference such as `#/$defs/item` within its root; undefined if there is none. */
export function referredTo(reference: string, root: unknown): unknown {
  if (!reference.startsWith('#')) return undefined
  let at = root
  for (const segment of pointerSegments(percentDecoded(reference.slice(1)))) {
    if (isObject(at)) at = Object.hasOwn(at, segment) ? at[segment] : undefined
    else at = Array.isArray(at) ? at[Number(segment)] : undefined
  }
  return at
}

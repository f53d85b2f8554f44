/** A member of a JSON object: its key, and where it and its value stand in the object's text. */
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

/** Finds the top-level members of a JSON object without building values. The text must be valid JSON, an object. */
export function members(text: string): Member[] {
  const found: Member[] = []
  let at = skipSpace(text, text.indexOf('{') + 1)
  while (text.charCodeAt(at) === QUOTE) {
    const start = at
    const keyEnd = skipString(text, at)
    const quoted = text.slice(start, keyEnd)
    const key: string = quoted.includes('\\') ? JSON.parse(quoted) : quoted.slice(1, -1)
    at = skipSpace(text, keyEnd)
    if (text.charCodeAt(at) === COLON) at++
    const valueStart = skipSpace(text, at)
    const end = skipValue(text, valueStart)
    found.push({ key, start, valueStart, end })
    at = skipSpace(text, end)
    if (text.charCodeAt(at) !== COMMA) break
    at = skipSpace(text, at + 1)
  }
  return found
}

/** The texts of the elements of a JSON array. The text must be valid JSON, an array. */
export function elements(text: string): string[] {
  const found: string[] = []
  let at = skipSpace(text, text.indexOf('[') + 1)
  while (at < text.length && text.charCodeAt(at) !== 93) {
    const end = skipValue(text, at)
    found.push(text.slice(at, end))
    at = skipSpace(text, end)
    if (text.charCodeAt(at) === COMMA) at = skipSpace(text, at + 1)
  }
  return found
}

/**
 * Replaces, adds or (with `undefined`) removes top-level members of a JSON object. Edits are JSON texts; every
 * other value keeps the very characters it came in, so large integers and `1.0` survive.
 */
export function editMembers(text: string, edits: ReadonlyMap<string, string | undefined>): string {
  const parts: string[] = []
  const done = new Set<string>()
  for (const member of members(text)) {
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

/** Adds the text of members to a JSON object that has none of their keys. */
export function addMembers(text: string, added: string): string {
  const end = text.endsWith('}') ? text.length - 1 : text.lastIndexOf('}')
  const isEmpty = skipSpace(text, text.indexOf('{') + 1) === end
  return `${text.slice(0, end)}${isEmpty ? '' : ','}${added}}`
}

/** Whether a value is a JSON object: not null, not an array. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * What a text says as JSON; nothing where it is none. Most of what tools say is prose, or JSON in many lines, and to
 * look first costs a hundredth of an exception with its stack.
 */
export function readJson(text: string): unknown {
  const start = skipSpace(text, 0)
  if (!STARTS.test(text.slice(start, start + 2))) return undefined
  if (skipSpace(text, skipValue(text, start)) < text.length) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** What JSON can start with. */
const STARTS = /^(?:["{[\d]|-\d|tr|fa|nu)/

/** The same JSON text for equal values, whatever the order of their keys. */
export function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value) ?? 'null'
  const keys = Object.keys(value)
    .filter((key) => value[key] !== undefined)
    .toSorted()
  return `{${keys.map((key) => `${JSON.stringify(key)}:${canonical(value[key])}`).join(',')}}`
}

/** Whether two values are equal, whatever the order of their keys; what is nested too deeply to be looked through is not. */
export function isSame(one: unknown, other: unknown): boolean {
  try {
    return canonical(one) === canonical(other)
  } catch (error) {
    if (error instanceof RangeError) return false
    throw error
  }
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
  if (first === 123 || first === 91) return skipNested(text, from)
  let at = from
  while (at < text.length) {
    const code = text.charCodeAt(at)
    if (code === COMMA || code === 125 || code === 93 || code <= 32) return at
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
    if (code === 123 || code === 91) depth++
    else if ((code === 125 || code === 93) && --depth === 0) return at + 1
    at++
  }
  return at
}

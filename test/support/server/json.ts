/** A JSON object from the wire or for it. */
export type Json = Readonly<Record<string, unknown>>

/** A JSON-RPC id as it may stand on the wire. */
export type Id = string | number

/** Whether a value is a JSON object. */
export function isObject(value: unknown): value is Json {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether a value may be the id of a request. */
export function isId(value: unknown): value is Id {
  return typeof value === 'string' || Number.isInteger(value)
}

/** The member of an object as an object; empty when it is anything else. */
export function objectAt(value: unknown, key: string): Json {
  const member = isObject(value) ? value[key] : undefined
  return isObject(member) ? member : {}
}

/** The names of an object's members that begin with a prefix. */
export function keysWith(value: unknown, prefix: string): string[] {
  return isObject(value) ? Object.keys(value).filter((key) => key.startsWith(prefix)) : []
}

/** Reads JSON text; undefined when it is none. */
export function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** What `JSON.parse` says of the text of a value, and `JSON.rawJSON` (ECMAScript 2026). */
type Parse = (
  text: string,
  revive: (key: string, value: unknown, of: { source?: string }) => unknown,
) => unknown
const { parse: parseWith, rawJSON } = JSON as unknown as { parse: Parse; rawJSON(text: string): object }

/** A number that is written with these digits. */
export function numberOf(digits: string): object {
  return rawJSON(digits)
}

/** Reads JSON text; numbers that a double may not hold are what `replace` makes of their digits. @throws SyntaxError */
export function parseExact(text: string, replace: (digits: string) => unknown = String): unknown {
  return parseWith(text, (_key, value, { source }) => {
    if (typeof value !== 'number' || source === undefined) return value
    // Some long integers are written as their double is, such as 700158175176110100.
    return String(value) === source && Math.abs(value) <= Number.MAX_SAFE_INTEGER ? value : replace(source)
  })
}

/** JSON text that is sent as it stands, so that big integers and spacing survive. */
export class RawJson {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
}

/** Writes a value as JSON, with the {@link RawJson} inside it as it stands. */
export function encode(value: unknown): string {
  if (value instanceof RawJson) return value.text
  if (Array.isArray(value)) return `[${value.map(encode).join(',')}]`
  if (!isObject(value)) return JSON.stringify(value)
  const members = Object.entries(value).filter(([, member]) => member !== undefined)
  return `{${members.map(([key, member]) => `${JSON.stringify(key)}:${encode(member)}`).join(',')}}`
}

/** The exact text of the value at a path of member names inside JSON text. */
export function textAt(text: string, path: readonly string[]): string | undefined {
  let at = skipSpace(text, 0)
  for (const name of path) {
    const found = memberAt(text, at, name)
    if (found === undefined) return undefined
    at = found
  }
  return text.slice(at, endOfValue(text, at))
}

function memberAt(text: string, open: number, name: string): number | undefined {
  if (text[open] !== '{') return undefined
  let at = skipSpace(text, open + 1)
  while (text[at] === '"') {
    const end = endOfString(text, at)
    const value = skipSpace(text, skipSpace(text, end) + 1)
    if (JSON.parse(text.slice(at, end)) === name) return value
    at = skipSpace(text, endOfValue(text, value))
    if (text[at] === ',') at = skipSpace(text, at + 1)
  }
  return undefined
}

function endOfValue(text: string, start: number): number {
  const first = text[start]
  if (first === '"') return endOfString(text, start)
  if (first !== '{' && first !== '[') return start + (/^[^\s,\]}]*/.exec(text.slice(start))?.[0].length ?? 0)
  let depth = 0
  let at = start
  while (at < text.length) {
    const character = text[at]
    if (character === '"') {
      at = endOfString(text, at)
      continue
    }
    if (character === '{' || character === '[') depth++
    if (character === '}' || character === ']') depth--
    at++
    if (depth === 0) return at
  }
  return at
}

function endOfString(text: string, start: number): number {
  let at = start + 1
  while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1
  return at + 1
}

function skipSpace(text: string, from: number): number {
  let at = from
  while (/\s/.test(text[at] ?? '')) at++
  return at
}

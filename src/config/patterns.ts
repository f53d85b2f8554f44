/**
 * Regular expressions of a configuration: they are matched against text of servers, so only those are accepted whose matching
 * time is bounded. A mistake names its cause and the character where it is; the engine itself says no position.
 */
import { compilePattern } from '../core/text/pattern.ts'

/** What is wrong with a regular expression, for the message of its setting; undefined if nothing is. */
export function patternMistake(source: string): string | undefined {
  try {
    return compilePattern(source) ? undefined : unbounded(source)
  } catch (error) {
    const cause = causeOf(error)
    return `must be a regular expression: ${cause}, at character ${placeOf(source, cause)}`
  }
}

/** `Invalid regular expression: /(/: Unterminated group` as `unterminated group`. */
function causeOf(error: unknown): string {
  const text = error instanceof Error ? (error.message.split(/\/\w*: /).at(-1) ?? '') : ''
  return text.charAt(0).toLowerCase() + text.slice(1)
}

/** Where a mistake is, counted from 1: at what is not closed, else at the end of the shortest beginning that has it. */
function placeOf(source: string, cause: string): number {
  const opened = cause.startsWith('unterminated') ? unclosed(source) : undefined
  if (opened !== undefined) return opened + 1
  for (let length = 1; length < source.length; length++) {
    try {
      RegExp(source.slice(0, length))
    } catch (error) {
      if (causeOf(error) === cause) return length
    }
  }
  return source.length
}

/** The index of the first bracket that is not closed. */
function unclosed(source: string): number | undefined {
  const groups: number[] = []
  let setAt: number | undefined
  for (let at = 0; at < source.length; at++) {
    const character = source[at]
    if (character === '\\') at++
    else if (setAt !== undefined) setAt = character === ']' ? undefined : setAt
    else if (character === '[') setAt = at
    else if (character === '(') groups.push(at)
    else if (character === ')') groups.pop()
  }
  return setAt ?? groups[0]
}

const MAX_LENGTH = 1000

function unbounded(source: string): string {
  if (source.length > MAX_LENGTH)
    return `cannot be matched in bounded time: it has ${source.length} characters, of at most ${MAX_LENGTH}`
  const [found = '', at] = unsupported(source)
  const what =
    found === '' ? 'it has syntax that RE2 does not know' : `it has ${found}, at character ${at + 1}`
  return `cannot be matched in bounded time: ${what}`
}

/** The first part that only engines with backtracking can match, and its index. */
function unsupported(source: string): readonly [string | undefined, number] {
  const kinds = [
    [/^\(\?[=!]/, 'a lookahead'],
    [/^\(\?<[=!]/, 'a lookbehind'],
    [/^\\(?:[1-9]|k<)/, 'a backreference'],
  ] as const
  for (let at = 0; at < source.length; at++) {
    const kind = kinds.find(([shape]) => shape.test(source.slice(at, at + 4)))?.[1]
    if (kind !== undefined) return [kind, at]
    if (source[at] === '\\') at++
  }
  return [undefined, 0]
}

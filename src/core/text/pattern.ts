/** Regular expressions in linear time (RE2), loaded on demand; and globs. */
import { LRUCache } from 'lru-cache'
import { createRequire } from 'node:module'
import { toRe2 } from './ecma-pattern.ts'

/** An untrusted regular expression, matched in time linear to the text. */
export interface Pattern {
  /** Whether the text contains a match; `otherwise` for texts that are too long to be examined. */
  test(text: string, otherwise: boolean): boolean
  /** The text with each match replaced, and the number of matches. There is no length limit. */
  replaceAll(text: string, replacement: string): { readonly text: string; readonly count: number }
}

/** The maximum length of a pattern and of a text in characters, and the number of cached patterns. */
const limits = { pattern: 1000, text: 100_000, kept: 1000 }
const patterns = new LRUCache<string, Pattern | 'unsupported'>({ max: limits.kept })

/**
 * Compiles a pattern of ECMA-262. Undefined if it cannot be matched in linear time, because of lookarounds or
 * back-references, or if it is too long.
 * @throws SyntaxError if it is not a valid pattern, or one of another dialect
 */
export function compilePattern(source: string, { ignoreCase = false } = {}): Pattern | undefined {
  if (source.length > limits.pattern) {
    RegExp(source)
    return undefined
  }
  const key = `${ignoreCase ? 'i' : ''}/${source}`
  const known = patterns.get(key) ?? compile(source, ignoreCase)
  patterns.set(key, known)
  return known === 'unsupported' ? undefined : known
}

const require = createRequire(import.meta.url)

function compile(source: string, ignoreCase: boolean): Pattern | 'unsupported' {
  // Loaded for the first pattern, which most configurations do not have.
  const { RE2JS }: typeof import('re2js') = require('re2js')
  try {
    const flags = ignoreCase ? RE2JS.CASE_INSENSITIVE : 0
    const compiled = RE2JS.compile(RE2JS.translateRegExp(toRe2(source, ignoreCase)), flags)
    return {
      test: (text, otherwise) => (text.length > limits.text ? otherwise : compiled.test(text)),
      replaceAll: (text: string, replacement: string) => {
        let count = 0
        const replace = (): string => {
          count += 1
          return replacement
        }
        const replaced = compiled.matcher(text).replaceAll(replace)
        return { text: replaced, count }
      },
    }
  } catch (error) {
    if (error instanceof SyntaxError) throw error
    return 'unsupported'
  }
}

// Globs with `*`: matches, the most specific one, and overlaps.

/** Whether a name matches a glob: `*` stands for any characters, all other characters for themselves. */
export function fits(glob: string, name: string): boolean {
  const [first = '', ...rest] = glob.split('*')
  if (rest.length === 0) return glob === name
  const last = rest.pop() ?? ''
  if (!name.startsWith(first) || !name.endsWith(last) || name.length < first.length + last.length)
    return false
  let at = first.length
  const end = name.length - last.length
  for (const part of rest) {
    const found = name.indexOf(part, at)
    if (found === -1 || found + part.length > end) return false
    at = found + part.length
  }
  return true
}

/** The globs that match a name, most specific first, by the number of characters other than `*`. */
export function fitting(globs: readonly string[], name: string): string[] {
  const found = globs.filter((glob) => fits(glob, name))
  return found.toSorted((one, other) => weight(other) - weight(one))
}

function weight(glob: string): number {
  return glob.replaceAll('*', '').length + (glob.includes('*') ? 0 : 0.5)
}

/** Whether some name matches both globs. */
export function overlaps(one: string, other: string): boolean {
  // The positions in `other` that are reachable after the characters of `one` read so far.
  let reached = behindStars(new Set([0]), other)
  for (const letter of one) {
    const next = [...reached].flatMap((at) => stepsOf(letter, at, other))
    reached = behindStars(new Set(next), other)
  }
  return reached.has(other.length)
}

function stepsOf(letter: string, at: number, other: string): number[] {
  if (letter === '*') return Array.from({ length: other.length - at + 1 }, (_, more) => at + more)
  if (other[at] === '*') return [at]
  return other[at] === letter ? [at + 1] : []
}

/** A star may match nothing. */
function behindStars(reached: Set<number>, glob: string): Set<number> {
  for (const at of reached) if (glob[at] === '*') reached.add(at + 1)
  return reached
}

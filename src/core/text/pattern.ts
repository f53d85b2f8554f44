/** Regular expressions in linear time (RE2), loaded on demand. */
import { createRequire } from 'node:module'
import { LRUCache } from 'lru-cache'

/** A foreign regular expression, matched in time linear to the text. */
export interface Pattern {
  /** Whether the text contains a match. A text that is too long to look at counts as `otherwise`. */
  test(text: string, otherwise: boolean): boolean
  /** The text, however long, with each match replaced, and how many there were. */
  replaceAll(text: string, replacement: string): { readonly text: string; readonly count: number }
}

/** How long a pattern and a text may be, in characters. */
const most = { pattern: 1000, text: 100_000, kept: 1000 }
const patterns = new LRUCache<string, Pattern | 'unsupported'>({ max: most.kept })

/**
 * Compiles a pattern. Nothing where it cannot be matched in linear time: it looks around or back, or is too long.
 * @throws SyntaxError where it is no pattern at all
 */
export function compilePattern(source: string, { ignoreCase = false } = {}): Pattern | undefined {
  const key = `${ignoreCase ? 'i' : ''}/${source}`
  const known = patterns.get(key) ?? compile(source, ignoreCase)
  patterns.set(key, known)
  return known === 'unsupported' ? undefined : known
}

const require = createRequire(import.meta.url)

function compile(source: string, ignoreCase: boolean): Pattern | 'unsupported' {
  // Loaded for the first pattern, which most configurations never have.
  const { RE2JS }: typeof import('re2js') = require('re2js')
  checkSyntax(source)
  if (source.length > most.pattern) return 'unsupported'
  try {
    const flags = ignoreCase ? RE2JS.CASE_INSENSITIVE : 0
    const compiled = RE2JS.compile(RE2JS.translateRegExp(source), flags)
    return {
      test: (text, otherwise) => (text.length > most.text ? otherwise : compiled.test(text)),
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
  } catch {
    return 'unsupported'
  }
}

// Servers write patterns such as `a\-b`, which are errors in Unicode mode only.
function checkSyntax(source: string): void {
  try {
    RegExp(source, 'u')
  } catch {
    RegExp(source)
  }
}

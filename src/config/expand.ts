/** Expands references and shorthand forms of a configuration. */
import { isObject } from '../core/json/json.ts'
import { splitCommand } from './command-line.ts'
import type { Finding } from './problem.ts'
import { interpolate, type References } from './secrets.ts'
import { urlMistake } from './url-mistake.ts'

/** A file's values with references replaced and short forms written out. */
export interface Expanded {
  readonly value: unknown
  readonly problems: readonly Finding[]
  /** The paths, joined by newlines, of values that came out of references. */
  readonly interpolated: ReadonlySet<string>
  /** The paths of values that are not needed, whose references are not resolved. */
  readonly unresolved: readonly (readonly string[])[]
}

/**
 * Replaces references in every string, makes `name: command line` and `name: URL` objects, splits commands,
 * and drops keys without a value. `source` gives a scalar as it is written.
 */
export function expand(
  value: unknown,
  { isNeeded = () => true, ...references }: References & { isNeeded?: (path: readonly string[]) => boolean },
  source: (path: readonly string[]) => string | undefined,
): Expanded {
  const problems: Finding[] = []
  const interpolated = new Set<string>()
  const unresolved: (readonly string[])[] = []

  const filled = (text: string, path: readonly string[]): string => {
    const { text: result, problems: found } = interpolate(text, references)
    if (found.length > 0 && !isNeeded(path)) {
      unresolved.push(path)
      return text
    }
    problems.push(...found.map((message) => ({ path, message })))
    if (result !== text) interpolated.add(path.join('\n'))
    return result
  }
  const words = (text: string, path: readonly string[]): readonly string[] => {
    const split = splitCommand(text)
    if ('words' in split) return split.words.map((word) => filled(word, path))
    problems.push({ path, message: split.problem })
    return ['unreadable']
  }
  const upstream = (text: string, path: readonly string[]): unknown => {
    if (isUrl(text)) return { url: filled(text, path) }
    const mistake = urlMistake(text)
    if (mistake !== undefined) {
      problems.push({ path, message: mistake })
      return { url: 'http://unreadable' }
    }
    const command = words(text, path)
    return command.length === 1 && isUrl(command[0] ?? '') ? { url: command[0] } : { command }
  }
  const visit = (item: unknown, path: readonly string[]): unknown => {
    if (Array.isArray(item)) return item.map((entry, index) => visit(entry, [...path, String(index)]))
    if (isObject(item)) {
      const entries = Object.entries(item).map(([key, entry]) => [key, visit(entry, [...path, key])] as const)
      return Object.fromEntries(entries.filter(([, entry]) => entry !== null || isUpstreams(path)))
    }
    const verbatim = isVerbatim(path) && item !== null ? source(path) : undefined
    if (verbatim !== undefined) return filled(verbatim, path)
    if (typeof item !== 'string') return item
    if (path.length === 2 && isUpstreams(path)) return item === '' ? item : upstream(item, path)
    if (path.length === 3 && isUpstreams(path) && path[2] === 'command') return words(item, path)
    return filled(item, path)
  }
  return { value: visit(value, []), problems, interpolated, unresolved }
}

function isUrl(text: string): boolean {
  return /^https?:\/\//i.test(text.trim())
}

function isUpstreams(path: readonly string[]): boolean {
  return path[0] === 'upstreams'
}

// The text of `1.10` counts in an environment variable or header, not its value.
function isVerbatim(path: readonly string[]): boolean {
  return path.length === 4 && isUpstreams(path) && (path[2] === 'env' || path[2] === 'headers')
}

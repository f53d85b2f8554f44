/** Expands the references and the short forms in the values of a configuration. */
import { numberOf } from '../core/json/exact-number.ts'
import { isObject } from '../core/json/json.ts'
import type { JsonSchema } from '../core/schema/schema.ts'
import { splitCommand } from '../core/text/command-line.ts'
import { urlMistake } from './names.ts'
import type { Finding } from './problem.ts'
import { resolved, schemaOf } from './schema-lookup.ts'
import { type PlacedReference, interpolate, type ReferenceSources } from './secrets.ts'

/** A file's values with references and short forms expanded. */
interface Expanded {
  readonly value: unknown
  readonly problems: readonly Finding[]
  /** The paths, joined by newlines, of values from references. */
  readonly interpolated: ReadonlySet<string>
  /** The paths of unneeded values, whose references are not resolved. */
  readonly unresolved: readonly (readonly string[])[]
  /** What the references stand for. */
  readonly references: readonly PlacedReference[]
}

/**
 * Expands references in every string, converts `name: command line` and `name: URL` to objects, splits commands, and
 * drops keys without a value. `source` returns the source text of a scalar.
 */
export function expand(
  value: unknown,
  {
    isNeeded = () => true,
    ...references
  }: ReferenceSources & { isNeeded?: (path: readonly string[]) => boolean },
  source: (path: readonly string[]) => string | undefined,
): Expanded {
  const problems: Finding[] = []
  const interpolated = new Set<string>()
  const unresolved: (readonly string[])[] = []
  const found: PlacedReference[] = []

  const filled = (text: string, path: readonly string[]): string => {
    const { text: result, problems: messages, referenced } = interpolate(text, references)
    found.push(...referenced.map((each) => ({ ...each, path })))
    if (messages.length > 0 && !isNeeded(path)) {
      unresolved.push(path)
      return text
    }
    problems.push(...messages.map((message) => ({ path, message })))
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
  return { value: visit(value, []), problems, interpolated, unresolved, references: found }
}

function isUrl(text: string): boolean {
  return /^https?:\/\//i.test(text.trim())
}

function isUpstreams(path: readonly string[]): boolean {
  return path[0] === 'upstreams'
}

// In an environment variable, a header or a rule for an argument, the source text of `1.10` is used, not its value.
function isVerbatim(path: readonly string[]): boolean {
  const [, , section = ''] = path
  if (path.length === 4)
    return path[0] === 'observe'
      ? section === 'headers'
      : isUpstreams(path) && /^(?:env|headers)$/.test(section)
  return path.length === 5 && isUpstreams(path) && /^(?:allow|deny)$/.test(section)
}

/** Converts text from a reference, as in `port: ${PORT}`, to a number where the schema requires one. */
export function readNumbers(value: unknown, schema: JsonSchema, interpolated: ReadonlySet<string>): unknown {
  const visit = (item: unknown, rules: JsonSchema | undefined, path: readonly string[]): unknown => {
    if (rules === undefined) return item
    const own = resolved(rules, schema)
    if (isObject(item)) {
      const entries = Object.entries(item)
      return Object.fromEntries(
        entries.map(([key, entry]) => [key, visit(entry, schemaOf(own, key), [...path, key])]),
      )
    }
    if (typeof item !== 'string' || !interpolated.has(path.join('\n'))) return item
    const types = [own.type].flat()
    const isNumber = types.includes('integer') || types.includes('number')
    // If strings are allowed too, the format decides: a size without a unit is a number.
    const isText =
      types.includes('string') && new RegExp(typeof own.pattern === 'string' ? own.pattern : '').test(item)
    return isNumber && !isText && /^-?\d+(\.\d+)?$/.test(item) ? numberOf(item) : item
  }
  return visit(value, schema, [])
}

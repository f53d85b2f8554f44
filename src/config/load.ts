/**
 * Loads settings from the text of a configuration: parse, expand, validate, check. Reports all problems at once, each
 * with its position.
 */
import { dirname, resolve } from 'node:path'
import {
  isAlias,
  isMap,
  isNode,
  isScalar,
  isSeq,
  LineCounter,
  parseDocument,
  type Document,
  type Node,
  type Pair,
  type YAMLError,
} from 'yaml'
import { isObject } from '../core/json/json.ts'
import { validator, type JsonSchema } from '../core/schema/schema.ts'
import type { FeatureSchema, Settings } from '../core/settings.ts'
import { featureSchemas } from '../features/settings.ts'
import { checkTogether } from './checks.ts'
import { splitCommand } from './command-line.ts'
import { idleOptions } from './configured-names.ts'
import { explain } from './explain.ts'
import { urlMistake } from './names.ts'
import { ConfigError, pathText, type ConfigProblem, type Finding, type Position } from './problem.ts'
import { narrowed, resolved, schemaOf } from './schema-lookup.ts'
import { fileSchema } from './schema.ts'
import {
  type Environment,
  hasReference,
  looksLikeToken,
  namesSecret,
  interpolate,
  type References,
} from './secrets.ts'
import { settle, withListen, type ListenOverride } from './settings.ts'

/** The inputs for loading, other than the text. */
interface LoadOptions {
  /** The file of the text, as shown in problems; relative paths are relative to its folder. */
  readonly file: string
  /** The features whose settings are allowed. Default: all. */
  readonly features?: readonly FeatureSchema[]
  readonly env: Environment
  /** The listen address on the command line, which takes precedence over the file. */
  readonly listen?: ListenOverride
  /** Load only what the store and the audit log need: other references may be unresolved, and server settings are unusable. */
  readonly isForStore?: boolean
}

/** Settings, and warnings that do not prevent the start. */
interface Loaded {
  readonly settings: Settings
  readonly warnings: readonly ConfigProblem[]
}

/** Loads the text of a configuration file. @throws ConfigError with all problems */
export function loadSettings(
  text: string,
  { file, features = featureSchemas, env, listen, isForStore = false }: LoadOptions,
): Loaded {
  const document = readDocument(text)
  const located = (findings: readonly Finding[]) => locate(findings, document, file)
  if (document.isBroken) throw new ConfigError(located(document.problems))

  const directory = dirname(resolve(file))
  const schema = fileSchema(features)
  const isNeeded = (path: readonly string[]): boolean => !isForStore || isStoreOrAudit(path)
  const expanded = expand(document.value ?? {}, { env, directory, isNeeded }, document.source)
  const value = withListen(readNumbers(expanded.value, schema, expanded.interpolated), listen)
  const misfits = explain(validator(narrowed(schema, value), { trusted: true })(value), schema, value)
  const checked = checkTogether(value, directory)

  const unreadable = [...document.problems, ...expanded.problems]
  const found = withoutEchoes(withoutEchoes(unreadable, misfits), checked.problems)
  const problems = found.filter(({ path }) => !expanded.unresolved.some((each) => isAbout(path, each)))
  if (problems.length > 0 || !isObject(value)) throw new ConfigError(located(problems))
  return {
    settings: settle(value, { schema, features, file: resolve(file), directory, env }),
    warnings: located([
      ...document.warnings,
      ...literalSecrets(document.value),
      ...checked.warnings,
      ...idleOptions(value, schema),
    ]),
  }
}

/** Locates findings from later checks in the text of the file. */
export function locateFindings(findings: readonly Finding[], text: string, file: string): ConfigProblem[] {
  return locate(findings, readDocument(text), file)
}

/** Whether a key configures the store or the audit log. */
function isStoreOrAudit([section, part]: readonly string[]): boolean {
  return section === 'store' || (section === 'observe' && part === 'audit')
}

/** Whether a finding is about a value or one of its members. */
function isAbout(path: readonly string[], value: readonly string[]): boolean {
  return value.every((segment, index) => path[index] === segment)
}

// A problem from an earlier step explains problems of later steps at the same key.
function withoutEchoes(known: readonly Finding[], later: readonly Finding[]): Finding[] {
  const paths = new Set(known.map(({ path }) => pathText(path)))
  return [...known, ...later.filter(({ path }) => !paths.has(pathText(path)))]
}

function locate(findings: readonly Finding[], document: ConfigDocument, file: string): ConfigProblem[] {
  const located = findings.map((finding) => {
    return { file, ...document.place(finding), path: pathText(finding.path), message: finding.message }
  })
  return located.toSorted((one, other) => one.line - other.line || one.column - other.column)
}

/** Warns about secrets in the file itself; `value` is the file before references are expanded. */
function literalSecrets(value: unknown, path: readonly string[] = []): Finding[] {
  if (Array.isArray(value))
    return value.flatMap((item, index) => literalSecrets(item, [...path, String(index)]))
  if (isObject(value))
    return Object.entries(value).flatMap(([key, item]) => literalSecrets(item, [...path, key]))
  if (typeof value !== 'string' || !isSecret(value, path)) return []
  const message =
    'this looks like a secret: store it in the environment or a file, and write ${NAME} or ${file:/path} here'
  return [{ path, message }]
}

function isSecret(text: string, path: readonly string[]): boolean {
  if (looksLikeToken(text)) return true
  if (path.length === 1 && path[0] === 'store')
    return /^rediss?:\/\/[^/@]*:[^/@]+@/.test(text) && !hasReference(text)
  if (text === '' || hasReference(text)) return false
  if (path[0] === 'auth') return /^(client_)?secret$/.test(path.at(-1) ?? '')
  if (isHookSecret(path)) return true
  if (path[0] !== 'upstreams') return false
  const [key = '', name = ''] = path.slice(2)
  if (key === 'token' || (key === 'oauth' && name === 'client_secret')) return true
  return path.length === 4 && (key === 'env' || key === 'headers') && namesSecret(name)
}

/** Whether a value is the secret of a webhook, or one of several. */
function isHookSecret(path: readonly string[]): boolean {
  const own = path[0] === 'upstreams' ? path.slice(2) : path
  return own[0] === 'events' && own[2] === 'hook' && own[3] === 'secret'
}

/** Converts text from a reference, as in `port: ${PORT}`, to a number where the schema requires one. */
function readNumbers(value: unknown, schema: JsonSchema, interpolated: ReadonlySet<string>): unknown {
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
    return isNumber && !isText && /^-?\d+(\.\d+)?$/.test(item) ? Number(item) : item
  }
  return visit(value, schema, [])
}

// The YAML document with the position of every value, and syntax errors as messages.

/** A YAML text as plain values with their positions. */
interface ConfigDocument {
  readonly value: unknown
  readonly problems: readonly Finding[]
  readonly warnings: readonly Finding[]
  /** Whether syntax errors make the values meaningless. */
  readonly isBroken: boolean
  /** The position of a finding: its key or value, else the nearest parent key. */
  place(finding: Finding): Position
  /** The source text of a scalar, so that `1.10` does not become `1.1`. */
  source(path: readonly string[]): string | undefined
}

/** Parses a YAML text and collects all problems. */
function readDocument(text: string): ConfigDocument {
  const lines = new LineCounter()
  const document = parseDocument(text, { prettyErrors: false, lineCounter: lines })
  const placeOf = (offset: number): Position => {
    const { line, col } = lines.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1) }
  }
  const problems = syntaxFindings(document.errors, text, placeOf)
  const found = readValues(document, placeOf)
  return {
    value: found.value,
    problems: [...problems, ...found.problems],
    warnings: syntaxFindings(document.warnings, text, placeOf),
    isBroken: document.errors.some(({ code }) => code !== 'DUPLICATE_KEY'),
    place: (finding) => finding.place ?? placeOf(offsetOf(document, finding)),
    source: (path) => sourceOf(document, path),
  }
}

const most = { nodes: 50_000, depth: 64 }

function readValues(
  document: Document,
  placeOf: (offset: number) => Position,
): { readonly value: unknown; readonly problems: readonly Finding[] } {
  const problems: Finding[] = []
  let nodes = 0

  const complain = (node: unknown, path: readonly string[], message: string): void => {
    problems.push({ path, message, ...(isNode(node) && { place: placeOf(node.range?.[0] ?? 0) }) })
  }
  const read = (node: unknown, path: readonly string[]): unknown => {
    nodes += 1
    if (nodes > most.nodes || path.length > most.depth) return undefined
    if (isAlias(node)) {
      const target = node.resolve(document)
      if (!target) complain(node, path, `the anchor &${node.source} is not defined above`)
      return target && read(target, path)
    }
    if (isSeq(node)) return node.items.map((item, index) => read(item, [...path, String(index)]))
    if (isMap(node)) return Object.fromEntries(node.items.map((pair) => entry(pair, path)))
    return isScalar(node) ? node.value : null
  }
  const entry = (pair: Pair, path: readonly string[]): readonly [string, unknown] => {
    const key = keyText(pair)
    if (key === undefined) complain(pair.key, path, 'a key must be a plain scalar')
    return [key ?? '', read(pair.value, [...path, key ?? ''])]
  }
  const value = read(document.contents, [])
  // Anchors can expand a small text to a huge value.
  if (nodes > most.nodes) complain(document.contents, [], `expands to more than ${most.nodes} values`)
  return { value, problems }
}

function keyText(pair: Pair): string | undefined {
  if (!isScalar(pair.key)) return undefined
  return pair.key.source ?? String(pair.key.value)
}

interface Spot {
  readonly key: Node | undefined
  readonly value: unknown
  readonly isExact: boolean
}

function spotAt(document: Document, path: readonly string[]): Spot {
  let spot: Spot = { key: undefined, value: document.contents, isExact: true }
  for (const segment of path) {
    const inner = isAlias(spot.value) ? spot.value.resolve(document) : spot.value
    const pair = isMap(inner) ? inner.items.find((item) => keyText(item) === segment) : undefined
    const item = isSeq(inner) ? inner.items[Number(segment)] : undefined
    if (pair === undefined && item === undefined) return { ...spot, isExact: false }
    const key = pair ? pair.key : item
    spot = { key: isNode(key) ? key : undefined, value: pair ? pair.value : item, isExact: true }
  }
  return spot
}

function offsetOf(document: Document, { path, at }: Finding): number {
  const { key, value, isExact } = spotAt(document, path)
  const points = isExact && at !== 'key' && isScalar(value) && value.value !== null ? value : key
  return points?.range?.[0] ?? document.contents?.range?.[0] ?? 0
}

function sourceOf(document: Document, path: readonly string[]): string | undefined {
  const { value, isExact } = spotAt(document, path)
  const node = isAlias(value) ? value.resolve(document) : value
  if (!isExact || !isScalar(node)) return undefined
  return typeof node.value === 'string' ? node.value : (node.source ?? String(node.value))
}

/** The errors of the YAML parser as findings: the first of each line, because the others follow from it. */
function syntaxFindings(
  errors: readonly YAMLError[],
  text: string,
  placeOf: (offset: number) => Position,
): Finding[] {
  const lines = new Map<string, Finding>()
  for (const error of errors) {
    const deeper = deeperLine(error, text)
    const place = placeOf(deeper ?? error.pos[0])
    const line = text.split('\n')[place.line - 1] ?? ''
    const isRepeat = error.code === 'DUPLICATE_KEY'
    const key = isRepeat ? `${place.line}:${place.column}` : String(place.line)
    if (!lines.has(key))
      lines.set(key, {
        path: [],
        place,
        message: deeper === undefined ? meaning(error, line, text) : NESTING_PATTERN,
      })
  }
  return [...lines.values()]
}

const NESTING_PATTERN =
  'this is indented further than the line above, which already has a value: align the two, or remove that value'

/**
 * The position of a key below a value and further to the right, which a parser reads as a continuation of the value:
 * it reports the line above, which is correct.
 */
function deeperLine({ code, pos: [start] }: YAMLError, text: string): number | undefined {
  if (code !== 'BLOCK_AS_IMPLICIT_KEY' && code !== 'MULTILINE_IMPLICIT_KEY') return undefined
  const line = text.slice(text.lastIndexOf('\n', start - 1) + 1, start)
  const [, rest = '', gap = '', indent = ''] =
    /^([^\n]*)(\n(?:[ ]*(?:#[^\n]*)?\n)*)([ ]*)[^\s#]/.exec(text.slice(start)) ?? []
  const own = /^ */.exec(line)?.[0].length ?? 0
  // A second `: ` on the same line is another mistake.
  if (gap === '' || indent.length <= own || /:\s/.test(rest)) return undefined
  return start + rest.length + gap.length + indent.length
}

// Messages of the parser may quote the file, which may contain a secret, so they are not used.
function meaning(error: YAMLError, line: string, text: string): string {
  if (error.code === 'DUPLICATE_KEY') return `the key ${keyAt(text, error.pos[0])} is duplicated: keep one`
  if (/[{[,].*\$\{/.test(line)) return 'a ${…} inside { } or [ ] must be quoted: "${NAME}"'
  return meanings[error.code] ?? 'this is not valid YAML'
}

function keyAt(text: string, offset: number): string {
  return JSON.stringify(/^[\w-]+/.exec(text.slice(offset))?.[0] ?? 'here')
}

const meanings: Partial<Record<YAMLError['code'], string>> = {
  ALIAS_PROPS: 'an alias cannot have an anchor or tag',
  BAD_ALIAS: 'this alias is not valid',
  BAD_DQ_ESCAPE: 'this backslash escape is not valid in double quotes: use single quotes, or write \\\\',
  BAD_INDENT: 'the indentation does not match the lines above',
  BAD_SCALAR_START: 'a value cannot start with this character: put it in quotes',
  BLOCK_AS_IMPLICIT_KEY: 'there is a second `: ` on this line: put the value in quotes',
  BLOCK_IN_FLOW: 'a block value is not allowed inside { } or [ ]',
  MISSING_CHAR: 'something is missing here: a closing quote or bracket, or the colon after a key',
  MULTILINE_IMPLICIT_KEY: 'a key must be on one line: a colon may be missing',
  MULTIPLE_ANCHORS: 'a value can have only one anchor',
  MULTIPLE_DOCS: 'the file must contain one document: remove this `---` and everything after it',
  MULTIPLE_TAGS: 'a value can have only one tag',
  TAB_AS_INDENT: 'a tab cannot be used for indentation: use spaces',
  TAG_RESOLVE_FAILED: 'this tag is unknown and has no effect: remove it, or quote a value that starts with !',
  UNEXPECTED_TOKEN: 'unexpected text: a quote, bracket or colon may be missing or misplaced',
}

// Expands references and shorthand forms of a configuration.

/** A file's values with references and short forms expanded. */
interface Expanded {
  readonly value: unknown
  readonly problems: readonly Finding[]
  /** The paths, joined by newlines, of values from references. */
  readonly interpolated: ReadonlySet<string>
  /** The paths of unneeded values, whose references are not resolved. */
  readonly unresolved: readonly (readonly string[])[]
}

/**
 * Expands references in every string, converts `name: command line` and `name: URL` to objects, splits commands, and
 * drops keys without a value. `source` returns the source text of a scalar.
 */
function expand(
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

// In an environment variable or header, the source text of `1.10` is used, not its value.
function isVerbatim(path: readonly string[]): boolean {
  return path.length === 4 && isUpstreams(path) && (path[2] === 'env' || path[2] === 'headers')
}

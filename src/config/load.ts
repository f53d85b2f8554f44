/**
 * From the text of a configuration to settings: parse, expand, validate, check; all problems at once, each
 * with its place.
 */
import { dirname, resolve } from 'node:path'
import { isObject } from '../core/json/json.ts'
import { validator, type JsonSchema } from '../core/schema/schema.ts'
import type { Settings } from '../core/settings.ts'
import { features as known } from '../features/index.ts'
import { checkTogether } from './checks.ts'
import { idleOptions } from './configured-names.ts'
import { readDocument, type ConfigDocument } from './document.ts'
import { expand } from './expand.ts'
import { explain } from './explain.ts'
import { ConfigError, pathText, type ConfigProblem, type Finding } from './problem.ts'
import { narrowed, resolved, schemaOf } from './schema-lookup.ts'
import { fileSchema, type FeatureSchema } from './schema.ts'
import { type Environment, hasReference } from './secrets.ts'
import { settle, withListen, type ListenOverride } from './settings.ts'
import { looksLikeToken, namesSecret } from './tokens.ts'

/** What loading needs besides the text. */
interface LoadOptions {
  /** The file the text is from, as it is shown in problems; relative paths in it are relative to its folder. */
  readonly file: string
  /** The features whose settings may stand in the file; all there are, unless named. */
  readonly features?: readonly FeatureSchema[]
  readonly env: Environment
  /** An address given on the command line, which wins over that of the file. */
  readonly listen?: ListenOverride
  /** Only what is kept is looked at: references elsewhere may stand for nothing, and the settings of servers are of no use. */
  readonly isForStore?: boolean
}

/** Settings, and what deserves a word without stopping the start. */
interface Loaded {
  readonly settings: Settings
  readonly warnings: readonly ConfigProblem[]
}

/** Reads the text of a configuration file. @throws ConfigError with every problem found */
export function loadSettings(
  text: string,
  { file, features = known, env, listen, isForStore = false }: LoadOptions,
): Loaded {
  const document = readDocument(text)
  const located = (findings: readonly Finding[]) => locate(findings, document, file)
  if (document.isBroken) throw new ConfigError(located(document.problems))

  const directory = dirname(resolve(file))
  const schema = fileSchema(features)
  const isNeeded = (path: readonly string[]): boolean => !isForStore || isKept(path)
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

/** What was found wrong later on, as problems at their places in the text of the file. */
export function locateFindings(findings: readonly Finding[], text: string, file: string): ConfigProblem[] {
  return locate(findings, readDocument(text), file)
}

/** Whether a key says where something is kept, or how it is recorded. */
function isKept([section, part]: readonly string[]): boolean {
  return section === 'store' || (section === 'observe' && part === 'audit')
}

/** Whether a finding is about a value, or something in it. */
function isAbout(path: readonly string[], value: readonly string[]): boolean {
  return value.every((segment, index) => path[index] === segment)
}

// What is already known to be wrong with a key explains what a later step finds there.
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

/** Warns of secrets that stand in the file itself; `value` is the file before references are replaced. */
function literalSecrets(value: unknown, path: readonly string[] = []): Finding[] {
  if (Array.isArray(value))
    return value.flatMap((item, index) => literalSecrets(item, [...path, String(index)]))
  if (isObject(value))
    return Object.entries(value).flatMap(([key, item]) => literalSecrets(item, [...path, key]))
  if (typeof value !== 'string' || !isSecret(value, path)) return []
  const message =
    'this looks like a secret: put it in the environment or a file, and write ${NAME} or ${file:/path} here'
  return [{ path, message }]
}

function isSecret(text: string, path: readonly string[]): boolean {
  if (looksLikeToken(text)) return true
  if (path.length === 1 && path[0] === 'store')
    return /^rediss?:\/\/[^/@]*:[^/@]+@/.test(text) && !hasReference(text)
  if (text === '' || hasReference(text)) return false
  if (path[0] === 'auth') return /^(client_)?secret$/.test(path.at(-1) ?? '')
  if (path[0] !== 'upstreams') return false
  const [key = '', name = ''] = path.slice(2)
  if (key === 'token' || (key === 'oauth' && name === 'client_secret')) return true
  return path.length === 4 && (key === 'env' || key === 'headers') && namesSecret(name)
}

/** Turns text that came out of a reference, as in `port: ${PORT}`, into a number where the schema wants one. */
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
    // Where text is taken too, its form tells: a size without a unit is a number.
    const isText =
      types.includes('string') && new RegExp(typeof own.pattern === 'string' ? own.pattern : '').test(item)
    return isNumber && !isText && /^-?\d+(\.\d+)?$/.test(item) ? Number(item) : item
  }
  return visit(value, schema, [])
}

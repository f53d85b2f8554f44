import { dirname, resolve } from 'node:path'
import { isObject } from '../core/json.ts'
import { validator } from '../core/schema.ts'
import type { Settings } from '../core/settings.ts'
import { features as known } from '../features/index.ts'
import { checkTogether } from './checks.ts'
import { idleOptions } from './configured-names.ts'
import { readDocument } from './document.ts'
import type { ConfigDocument } from './document.ts'
import { expand } from './expand.ts'
import { explain } from './explain.ts'
import { literalSecrets } from './literals.ts'
import { narrowed } from './narrow.ts'
import { readNumbers } from './numbers.ts'
import { ConfigError, pathText } from './problem.ts'
import type { ConfigProblem, Finding } from './problem.ts'
import { fileSchema } from './schema.ts'
import type { FeatureSchema } from './schema.ts'
import type { Environment } from './secrets.ts'
import { settle, withListen } from './settings.ts'
import type { ListenOverride } from './settings.ts'

/** What loading needs besides the text. */
export interface LoadOptions {
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
export interface Loaded {
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

/**
 * Loads settings from the text of a configuration: parse, expand, validate, check. Reports all problems at once, each
 * with its position.
 */
import { dirname, resolve } from 'node:path'
import { isObject } from '../core/json/json.ts'
import type { FeatureSchema, Settings } from '../core/settings.ts'
import { featureSchemas } from '../features/settings.ts'
import { checkTogether } from './checks.ts'
import { idleOptions } from './configured-names.ts'
import { locate, readDocument } from './document.ts'
import { expand, readNumbers } from './expand.ts'
import { misfitsOf } from './explain.ts'
import { clientFileHint } from './import/hint.ts'
import { ConfigError, type ConfigProblem, type Finding, withoutEchoes } from './problem.ts'
import { fileSchema } from './schema.ts'
import { holdsPassword, looksLikeToken, namesSecret } from './configured-secrets.ts'
import { type Environment, hasReference } from './secrets.ts'
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
  const hint = clientFileHint(document.isBroken ? undefined : document.value, text)
  if (hint) throw new ConfigError(located([hint]))
  if (document.isBroken) throw new ConfigError(located(document.problems))

  const directory = dirname(resolve(file))
  const schema = fileSchema(features)
  const isNeeded = (path: readonly string[]): boolean => !isForStore || isStoreOrAudit(path)
  const expanded = expand(document.value ?? {}, { env, directory, isNeeded }, document.source)
  const value = withListen(readNumbers(expanded.value, schema, expanded.interpolated), listen)
  const misfits = misfitsOf(value, schema)
  const checked = checkTogether(value, directory)

  const unreadable = [...document.problems, ...expanded.problems]
  const found = withoutEchoes(withoutEchoes(unreadable, misfits), checked.problems)
  const problems = found.filter(({ path }) => !expanded.unresolved.some((each) => isAbout(path, each)))
  if (problems.length > 0 || !isObject(value)) throw new ConfigError(located(problems))
  return {
    settings: settle(value, {
      schema,
      features,
      file: resolve(file),
      directory,
      env,
      references: expanded.references,
    }),
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
  if (key === 'proxy') return holdsPassword(text)
  if (key === 'token' || (key === 'oauth' && /^(?:client_secret|private_key)$/.test(path.at(-1) ?? '')))
    return true
  return path.length === 4 && (key === 'env' || key === 'headers') && namesSecret(name)
}

/** Whether a value is the secret of a webhook, or one of several. */
function isHookSecret(path: readonly string[]): boolean {
  const own = path[0] === 'upstreams' ? path.slice(2) : path
  return own[0] === 'events' && own[2] === 'hook' && own[3] === 'secret'
}

/**
 * Loads single sections of a configuration, for commands that work on the store or need the address of the gateway: without
 * the sections of servers and features, which they do not need, and which are costly to load.
 *
 * Invariant: other sections may be invalid, and their references unresolved. The text must be YAML, and a key that may be
 * a misspelled name of a needed section is a problem.
 */
import type { Fields } from '../core/payload.ts'
import { dirname, resolve } from 'node:path'
import { isObject } from '../core/json/json.ts'
import type { JsonSchema } from '../core/schema/schema.ts'
import type { ListenSettings, ObserveSettings, Settings, StoreSettings } from '../core/settings.ts'
import type { Secret } from '../core/text/secret.ts'
import { nearest } from '../core/text/words.ts'
import { complete, withSwitches } from './schema-lookup.ts'
import { configuredSecrets, type Environment } from './secrets.ts'
import { locate, readDocument } from './document.ts'
import { expand, readNumbers } from './expand.ts'
import { misfitsOf } from './explain.ts'
import { ConfigError, type Finding, withoutEchoes } from './problem.ts'
import { listenSchema } from './sections/listen.ts'
import { observeSchema, observeSettings, type ObserveValues } from './sections/observe.ts'
import { profileSchema, versionSchema } from './sections/profile.ts'
import { checkStore, storeSchema, storeSettings } from './sections/store.ts'
import { workersSchema } from './sections/workers.ts'

/** The settings of commands that work on the store of gateways. */
export interface StoredSettings {
  readonly store: StoreSettings
  readonly observe: Pick<ObserveSettings, 'audit'>
  /** Whether a script may approve calls (`features.confirm.approve_by_command`). */
  readonly mayScriptsApprove: boolean
  /** The names of the servers. */
  readonly servers: readonly string[]
  /** What the whole configuration gives as a secret, as far as references can be resolved. */
  readonly secrets: readonly Secret[]
}

export interface TextSource {
  /** The file of the text; relative paths are relative to its folder. */
  readonly file: string
  readonly env: Environment
}

interface StoredValues {
  readonly profile: Settings['profile']
  readonly store?: Secret
  readonly observe: ObserveValues
}

/** Loads the settings of the store and of the audit log. @throws ConfigError with all problems of these */
export function loadStored(text: string, { file: given, env }: TextSource): StoredSettings {
  const file = resolve(given)
  const directory = dirname(file)
  const sections = {
    version: versionSchema,
    profile: profileSchema,
    store: storeSchema,
    observe: observeSchema,
  }
  const read = readSections(text, sections, {
    file: given,
    env,
    directory,
    select: (value) => withPartOfObserve(value, 'audit'),
    check: ({ store }) => checkStore(store, directory).problems,
  })
  // The values are validated by the schemas, which have these types and defaults.
  const { profile, store, observe } = read.values as StoredValues
  const servers = isObject(read.upstreams) ? Object.keys(read.upstreams) : []
  return {
    secrets: read.secrets,
    store: storeSettings(store, { file, directory, upstreams: read.upstreams, env }),
    observe: observeSettings(observe, { profile, file, directory, env }),
    mayScriptsApprove: isScriptAllowed(read.features),
    servers,
  }
}

/** Reads the one setting of a feature that a command needs, without the schemas of all features. */
function isScriptAllowed(features: unknown): boolean {
  const confirm = isObject(features) ? features.confirm : undefined
  return isObject(confirm) && confirm.approve_by_command === 'script'
}

/** Loads the address on which the gateway listens. @throws ConfigError with all problems of it */
export function loadAddress(text: string, { file, env }: TextSource): Pick<ListenSettings, 'host' | 'port'> {
  const sections = { version: versionSchema, listen: listenSchema }
  const { values } = readSections(text, sections, { file, env, directory: dirname(resolve(file)) })
  const { listen } = values as { readonly listen: ListenSettings }
  return { host: listen.host, port: listen.port }
}

/** What is needed of a configuration before a gateway is loaded: how many processes serve, and what their supervisor logs. */
type Supervision = Pick<Settings, 'workers'> & Pick<ObserveSettings, 'logLevel'>

/** Loads how many processes serve, and the least level of the log. @throws ConfigError with all problems of these */
export function loadSupervision(text: string, { file, env }: TextSource): Supervision {
  const sections = { version: versionSchema, workers: workersSchema, observe: observeSchema }
  const { values } = readSections(text, sections, {
    file,
    env,
    directory: dirname(resolve(file)),
    select: (value) => withPartOfObserve(value, 'log'),
  })
  const { workers, observe } = values as Pick<Settings, 'workers'> & Pick<StoredValues, 'observe'>
  return { workers, ...(observe.log.level !== undefined && { logLevel: observe.log.level }) }
}

/** Sections with one part of `observe` alone. */
function withPartOfObserve(sections: Fields, part: 'audit' | 'log'): Fields {
  if (!isObject(sections.observe)) return sections
  const { [part]: found } = sections.observe
  return { ...sections, observe: found === undefined ? {} : { [part]: found } }
}

interface SectionsSource extends TextSource {
  readonly directory: string
  /** The needed part of the sections. */
  select?(sections: Fields): Fields
  /** Finds what a schema cannot express. */
  check?(values: Fields): readonly Finding[]
}

interface ReadSections {
  readonly values: unknown
  readonly upstreams: unknown
  readonly features: unknown
  readonly secrets: readonly Secret[]
}

/** Reads sections of a text by their schemas. @throws ConfigError */
export function readSections(
  text: string,
  sections: Readonly<Record<string, JsonSchema>>,
  { file, env, directory, select = (value) => value, check = () => [] }: SectionsSource,
): ReadSections {
  const document = readDocument(text)
  const refuse = (findings: readonly Finding[]): void => {
    if (findings.length > 0) throw new ConfigError(locate(findings, document, file))
  }
  refuse(document.problems)
  const schema = withSwitches({
    type: 'object',
    errorMessage: 'must be a mapping with `upstreams:`',
    properties: sections,
    additionalProperties: false,
  })
  const whole = document.value ?? {}
  const needed = isObject(whole) ? select(like(Object.keys(sections), whole)) : whole
  const expanded = expand(needed, { env, directory }, document.source)
  const value = readNumbers(expanded.value, schema, expanded.interpolated)
  const misfits = misfitsOf(value, schema)
  const found = withoutEchoes(expanded.problems, misfits)
  refuse(withoutEchoes(found, isObject(value) ? check(value) : []))
  const all = expand(whole, { env, directory, isNeeded: () => false }, document.source)
  return {
    values: complete(value, schema),
    upstreams: isObject(whole) ? whole.upstreams : undefined,
    features: isObject(whole) ? whole.features : undefined,
    secrets: configuredSecrets(all.value, all.references),
  }
}

/** The members with one of the names, or with a name that may be meant to be one. */
function like(names: readonly string[], values: Fields): Fields {
  return Object.fromEntries(
    Object.entries(values).filter(([key]) => names.includes(key) || nearest(key, names) !== undefined),
  )
}

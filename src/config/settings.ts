/** Converts validated values to settings, with the defaults of the profile, and those of features with their overrides. */
import type { Fields } from '../core/payload.ts'
import { resolve } from 'node:path'
import { asObject, isObject } from '../core/json/json.ts'
import type { FromSchema } from '../core/schema/from-schema.ts'
import type { JsonSchema } from '../core/schema/schema.ts'
import type { listenSchema } from './sections/listen.ts'
import type {
  CommandReach,
  FeatureSchema,
  ListenSettings,
  SchemaDialect,
  Settings,
  UpstreamSettings,
  UrlReach,
  FeatureSettings,
} from '../core/settings.ts'
import { parseProxy } from '../core/proxy.ts'
import { Secret } from '../core/text/secret.ts'
import { MAX_TIMER_MS } from '../core/time/waiting.ts'
import { configuredNames } from './configured-names.ts'
import { configuredSecrets, namedSecrets, type PlacedReference, type Environment } from './secrets.ts'
import { aboutSettings, recommendSettings } from './sections/about.ts'
import { authSettings } from './sections/auth.ts'
import { complete, withSwitches } from './schema-lookup.ts'
import { declaredEvents, type EventValues } from './sections/events.ts'
import {
  type CompatTarget,
  featureDefaults,
  modelDefaults,
  profiles,
  type FeatureDefaults,
} from './sections/profile.ts'
import { listSettings, profileSettings, type ListValues, type ProfileValues } from './sections/profiles.ts'
import { observeSettings, type ObserveValues, exportSettings } from './sections/observe.ts'
import { type fleetSchema, fleetSettings } from './sections/fleet.ts'
import { storeSettings } from './sections/store.ts'
import { renamesOf, toolSettings } from './sections/tool.ts'
import type { ArgumentValues, SchemasValue, UpstreamValues } from './sections/upstream.ts'
import { oauthSettings, isPersonal } from './sections/upstream-oauth.ts'

/** The origin of settings: the known features, and the file, if there is one. */
interface Origin {
  readonly schema: JsonSchema
  readonly features: readonly FeatureSchema[]
  readonly file?: string
  /** The base of relative paths. */
  readonly directory: string
  readonly env: Environment
  /** The names of all servers. */
  readonly servers?: readonly string[]
  /** What the references in the file stand for. */
  readonly references?: readonly PlacedReference[]
}

/** A shorter deadline would leave out servers that work. */
const MIN_AGGREGATE_TIMEOUT_MS = 100

/** Converts the validated values of a file to settings, with all defaults. */
export function settle(values: Readonly<Record<string, unknown>>, origin: Origin): Settings {
  // The values are validated by the schema, which has these types and defaults.
  const file = complete(values, inline(origin.schema)) as FileValues
  const servers = Object.keys(file.upstreams)
  const isForModels = file.for_models === true
  const lists = listSettings(file.lists, isForModels)
  // A default of its schema would not tell whether it is written.
  const written = values.schemas === undefined ? undefined : file.schemas
  const schemas = written ?? (isForModels ? modelDefaults.schemas : undefined)
  return {
    ...(origin.file !== undefined && { file: origin.file }),
    profile: file.profile,
    listen: listenSettings(file),
    workers: file.workers,
    auth: authSettings(values.auth),
    store: storeSettings(file.store, { ...origin, upstreams: file.upstreams }),
    fleet: fleetSettings(file.fleet),
    observe: {
      ...observeSettings(file.observe, {
        ...origin,
        profile: file.profile,
        isBare: values.features === 'none',
      }),
      ...exportSettings(file.observe, origin.env),
    },
    metaTools: file.meta_tools === false ? 'off' : file.meta_tools,
    hasMethods: file.methods,
    upstreams: Object.entries(file.upstreams).map(([name, upstream]) =>
      upstreamSettings(
        name,
        { ...upstream, prefix: upstream.prefix ?? file.prefix, schemas: upstream.schemas ?? schemas },
        { ...origin, servers },
      ),
    ),
    profiles: profileSettings(file.profiles, servers, isForModels),
    ...(lists && { lists }),
    events: declaredEvents(file.events, file.upstreams),
    features: featureSettings(origin.features, {
      file: values,
      defaults: (feature, server) => {
        const own = server === undefined ? undefined : file.upstreams[server]?.compat
        return featureDefaults(feature, { profile: file.profile, compat: own ?? file.compat ?? 'off' })
      },
    }),
    names: configuredNames(values, origin.schema),
    secrets: configuredSecrets(values, origin.references ?? []),
  }
}

/** What the command line says, which takes precedence over the file. */
export interface Overrides {
  readonly listen?: { readonly host?: string; readonly port?: number } | undefined
  readonly workers?: Settings['workers'] | undefined
}

/** The values of a file with those of the command line. */
export function overridden(value: unknown, { listen = {}, workers }: Overrides): unknown {
  if (!isObject(value)) return value
  const isListening = Object.keys(listen).length > 0
  return {
    ...value,
    ...(isListening && { listen: { ...(isObject(value.listen) && value.listen), ...listen } }),
    ...(workers !== undefined && { workers }),
  }
}

interface FileValues {
  readonly profile: Settings['profile']
  readonly compat?: CompatTarget
  readonly for_models?: boolean
  readonly profiles: Readonly<Record<string, ProfileValues>>
  readonly lists: ListValues
  readonly listen: FromSchema<typeof listenSchema>
  readonly workers: Settings['workers']
  readonly prefix: UpstreamSettings['prefix']
  readonly schemas: SchemasValue
  readonly store?: Secret
  readonly fleet: FromSchema<typeof fleetSchema>
  readonly observe: ObserveValues
  readonly limits: { readonly body: number }
  readonly meta_tools: Settings['metaTools'] | false
  readonly methods: boolean
  readonly events: EventValues
  readonly upstreams: Readonly<Record<string, UpstreamValues>>
}

// The settings of features are completed separately, because those of an upstream are based on the common ones.
function inline({ $defs: _definitions, ...schema }: JsonSchema): JsonSchema {
  return schema
}

function listenSettings({ listen, limits, profile }: FileValues): ListenSettings {
  const { host, port, public_url: publicUrl, origins, legacy_sse: legacySse, aggregate } = listen
  const { aggregate_timeout: aggregateTimeout } = listen
  return {
    host,
    port,
    ...(publicUrl !== undefined && { publicUrl }),
    origins: [origins].flat(),
    legacySse,
    operatorMcp: listen.operator_mcp,
    aggregate,
    aggregateTimeout: Math.min(Math.max(aggregateTimeout, MIN_AGGREGATE_TIMEOUT_MS), MAX_TIMER_MS),
    body: limits.body,
    isStrict: profiles[profile].isStrict,
  }
}

function dialectOf(schemas: SchemasValue): SchemaDialect | 'off' {
  if (schemas === 'keep') return 'off'
  return schemas === 'repair' ? 'auto' : schemas.for
}

function upstreamSettings(
  name: string,
  upstream: UpstreamValues & Pick<FileValues, 'prefix'>,
  origin: Origin,
): UpstreamSettings {
  const { url, transport, revision, isolation, roots, start_timeout: startTimeout } = upstream
  const { reconnect, idle } = upstream
  return {
    name,
    prefix: upstream.prefix,
    reach: url === undefined ? commandReach(upstream, origin) : urlReach(url, upstream, origin),
    transport,
    revision,
    isolation,
    ...(upstream.placement === 'one' && url === undefined && { isPlacedOnce: true }),
    trust: upstream.trust ?? (url === undefined || upstream.gateway_key !== undefined),
    ...(upstream.schemas !== undefined && { repairsSchemas: dialectOf(upstream.schemas) }),
    ...(upstream.sandbox === true && { isSandbox: true }),
    ...(upstream.gateway_key !== undefined && { gatewayKey: upstream.gateway_key }),
    roots,
    startTimeout: Math.min(startTimeout, MAX_TIMER_MS),
    reconnect: Math.min(reconnect, MAX_TIMER_MS),
    idle,
    renames: renamesOf(upstream.tools),
    // Outside of its server, a renamed tool has only its new name.
    tools: Object.fromEntries(
      Object.entries(upstream.tools).map(([name, values]) => [values.rename ?? name, toolSettings(values)]),
    ),
    ...(upstream.resources && { resources: upstream.resources }),
    scopes: mapped(upstream.scopes, (names) => [names].flat()),
    allow: mapped(upstream.allow, argumentRule),
    deny: mapped(upstream.deny, argumentRule),
    about: aboutSettings(upstream),
    intent: upstream.intent,
    recommend: recommendSettings(upstream.recommend),
    errors: upstream.errors.map(({ retry_after: retryAfter, ...rule }) => ({
      ...rule,
      ...(retryAfter !== undefined && { retryAfter }),
    })),
  }
}

/** A tool without argument globs matches with any arguments. */
function argumentRule(rule: ArgumentValues): Readonly<Record<string, string>> | true {
  return typeof rule === 'boolean' ? true : rule
}

function mapped<In, Out>(
  values: Readonly<Record<string, In>>,
  map: (value: In) => Out,
): Readonly<Record<string, Out>> {
  return Object.fromEntries(Object.entries(values).map(([key, value]) => [key, map(value)]))
}

function commandReach(
  { command = [], args = [], env = {}, cwd }: UpstreamValues,
  origin: Origin,
): CommandReach {
  const [program = '', ...first] = command
  return {
    kind: 'command',
    command: program,
    args: [...first, ...args],
    env: namedSecrets(env, origin.servers),
    cwd: resolve(origin.directory, cwd ?? '.'),
  }
}

/** Its URL was checked; a proxy of the environment is no setting. */
function proxySetting(proxy: 'env' | 'off' | Secret): Pick<UrlReach, 'proxy'> {
  const found = proxy instanceof Secret ? parseProxy(proxy.reveal()) : proxy
  return found === undefined || found === 'env' ? {} : { proxy: found }
}

function urlReach(
  url: string,
  { headers = {}, token, oauth, proxy }: UpstreamValues,
  { servers }: Origin,
): UrlReach {
  const named = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value] as const)
  const bearer = token && { authorization: new Secret(`Bearer ${token.reveal()}`) }
  return {
    kind: 'url',
    url,
    headers: { ...namedSecrets(Object.fromEntries(named), servers), ...bearer },
    ...proxySetting(proxy),
    ...(oauth && { oauth: oauthSettings(oauth, url) }),
  }
}

/** The values of a file, and the defaults of a feature for a server, or for all. */
interface Source {
  readonly file: Fields
  defaults(feature: string, server?: string): FeatureDefaults
}

/** The settings of every feature that is on for at least one server, from the expanded values of a file. */
function featureSettings(
  features: readonly FeatureSchema[],
  source: Source,
): Readonly<Record<string, FeatureSettings>> {
  const entries = features.map((feature) => [feature.name, settingsOf(feature, source)] as const)
  return Object.fromEntries(
    entries.filter((entry): entry is [string, FeatureSettings] => entry[1] !== undefined),
  )
}

function settingsOf(feature: FeatureSchema, { file, defaults }: Source): FeatureSettings | undefined {
  const schema = withSwitches(feature.schema)
  const common = written(feature, file)
  const settledFor = (own: unknown, { isOn, values = {} }: FeatureDefaults): unknown => {
    const shared = common ?? (isOn ? 'on' : schema.default)
    if (own === undefined) return settled(shared, values, schema)
    return settled(own, isObject(shared) ? merged(values, shared) : values, schema)
  }
  const overrides = Object.entries(asObject(file.upstreams)).flatMap(([name, upstream]) => {
    if (!isObject(upstream)) return []
    const isLeft =
      (feature.isLeftToGateway === true && upstream.gateway_key !== undefined) ||
      (feature.isLeftToPersonal === true && common === undefined && isPersonal(upstream))
    const own = written(feature, upstream) ?? (isLeft ? 'off' : undefined)
    const isSame = own === undefined && upstream.compat === undefined
    return isSame ? [] : [[name, settledFor(own, defaults(feature.name, name))] as const]
  })
  const settings = {
    common: settledFor(undefined, defaults(feature.name)),
    upstreams: Object.fromEntries(overrides),
  }
  const isOn = [settings.common, ...Object.values(settings.upstreams)].some((value) => value !== false)
  return isOn ? settings : undefined
}

function written({ name, place, schema, choice }: FeatureSchema, values: Fields): unknown {
  if (place === 'limits') return isObject(values.limits) ? only(values.limits, schema.properties) : undefined
  if (choice !== undefined) return chosen(values[name], choice)
  if (place === 'top') return values[name]
  if (values.features === 'none') return 'off'
  return isObject(values.features) ? values.features[name] : undefined
}

/** The settings that a word in their place means. */
function chosen(word: unknown, choice: string): unknown {
  return word === undefined || word === 'off' || word === false ? word : { [choice]: word }
}

/** The values of some properties, or undefined if none has a value. */
function only(values: Fields, properties: unknown): Fields | undefined {
  const known = asObject(properties)
  const own = Object.entries(values).filter(([key]) => Object.hasOwn(known, key))
  return own.length > 0 ? Object.fromEntries(own) : undefined
}

function settled(value: unknown, below: unknown, schema: JsonSchema): unknown {
  if (value === 'off' || value === false) return false
  return complete(merged(asObject(below), asObject(value)), schema)
}

function merged(below: Fields, above: Fields): Fields {
  const entries = Object.entries(above).map(([key, value]) => {
    const other = Object.hasOwn(below, key) ? below[key] : undefined
    return [key, isObject(other) && isObject(value) ? merged(other, value) : value]
  })
  return { ...below, ...Object.fromEntries(entries) }
}

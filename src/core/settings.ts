/** The settings of a gateway, as loaded from the configuration. */
import { type AuthSettings, isProtected } from './auth-settings.ts'
import type { UndoSettings } from './undo/expression.ts'
import type { Operation, Risk, About, Cost } from './descriptor.ts'
import type { ErrorCode } from './error.ts'
import type { Remember } from './remember.ts'
import type { Proxy } from './proxy.ts'
import type { FromSchema } from './schema/from-schema.ts'
import { fitting } from './text/pattern.ts'
import type { Secret } from './text/secret.ts'

/** The complete, validated configuration with all defaults applied. Durations are milliseconds, sizes are bytes. */
export interface Settings {
  /** The absolute path it was read from; absent if everything came from the command line. */
  readonly file?: string
  /** `corporate` requires authentication and chooses the strict side of every default. */
  readonly profile: 'open' | 'corporate'
  readonly listen: ListenSettings
  /** How many processes serve together; `auto` for one for each core. */
  readonly workers: number | 'auto'
  readonly auth: AuthSettings
  /** Where persistent state is stored. */
  readonly store: StoreSettings
  readonly fleet: FleetSettings
  readonly observe: ObserveSettings
  /** Whether the gateway's own tools are listed, callable only, or disabled. */
  readonly metaTools: 'hidden' | 'listed' | 'off'
  /** Whether clients may also use methods of the gateway's own. */
  readonly hasMethods: boolean
  readonly upstreams: readonly UpstreamSettings[]
  /** Lists of tools with a URL of their own. */
  readonly profiles: readonly ProfileSettings[]
  /** How tools are listed at all other URLs; absent if they always are. */
  readonly lists?: ListSettings
  /** The events that it declares. */
  readonly events: DeclaredEvents
  /** The settings of each feature by name; a feature that is disabled everywhere is absent. */
  readonly features: Readonly<Record<string, FeatureSettings>>
  /** The names in the configuration that refer to listed items, except those that may match nothing. */
  readonly names: readonly ConfiguredName[]
  /** The tools that are accepted; absent if no server is pinned, or there is no lock. */
  readonly accepted?: AcceptedTools
  /** What the configuration gives as a secret where its settings do not say so: by references, in URLs and command lines. */
  readonly secrets: readonly Secret[]
}

/** A list of tools with a URL of its own. It is no permission: its tools can be called at other URLs too. */
export interface ProfileSettings {
  readonly name: string
  readonly servers: readonly string[]
  /** Globs of the tools in it; all if absent. */
  readonly show?: readonly string[]
  /** Globs of tools that are not in it. */
  readonly hide: readonly string[]
  /** New names of tools, by their names in the list of all servers. The other settings refer to the new names. */
  readonly rename: Readonly<Record<string, string>>
  readonly describe: Readonly<Record<string, string>>
  /** How often each caller may call tools by its URL. */
  readonly rate?: string | readonly string[]
  /** Its tools are listed for the provider of the client, unless the `schemas` of their server say otherwise. */
  readonly isForModels?: true
  /** Absent if all of its tools are always listed. */
  readonly lists?: ListSettings
}

/** The tools of the gateway that a list is replaced by. */
export const SEARCH_TOOL = 'search_tools'
export const CALL_TOOL = 'call_tool'

/** When a list of tools is replaced by a search for them. */
export interface ListSettings {
  /** The most tokens that a list may take; absent for any number. */
  readonly budget?: number
  /** Whether tools are found by a search: if the list is over its budget, or always. */
  readonly search: 'auto' | 'always'
  /** Globs of tools that are listed in any case. */
  readonly always: readonly string[]
}

/** What the lock beside a configuration says of tools. */
export interface AcceptedTools {
  /** Tells one version of the file from another. */
  readonly stamp: string
  /** The hash of the accepted definition of each tool, by server and by the name of the tool. */
  readonly servers: ReadonlyMap<string, ReadonlyMap<string, string>>
}

/** A name or pattern in the configuration that refers to something servers list, or to a scope. */
export interface ConfiguredName {
  /** Its location: a value, unless `at` says that it is the key. */
  readonly path: readonly string[]
  readonly at?: 'key'
  /** An `item` is a tool, a prompt, or a resource by its URI. */
  readonly kind: 'tool' | 'item' | 'argument' | 'scope'
  readonly pattern: string
  /** The text in the configuration, if it differs: the new name of a renamed tool. */
  readonly written?: string
  /** The server it applies to; all servers if absent. */
  readonly upstream?: string
  /** The owner of an argument. */
  readonly owner?: { readonly kind: 'tool' | 'item'; readonly pattern: string } | undefined
  /** If it matches nothing, calls pass that the configuration is meant to block. */
  readonly isGuard: boolean
}

/**
 * In memory, in a folder by its absolute path, or in Redis; its URL may contain a password. `sentinels` is a folder of
 * the user that records, outside of the store, until when each store guarantees results.
 */
export type StoreSettings =
  | { readonly kind: 'memory' }
  | { readonly kind: 'folder'; readonly path: string; readonly sentinels?: string }
  | { readonly kind: 'redis'; readonly url: Secret; readonly sentinels?: string }

/** How gateways that share a store reach each other. */
export interface FleetSettings {
  /** Where the private listener is; absent for a socket in the folder of the store, or a free port. */
  readonly listen?: { readonly host: string; readonly port: number }
  /** The URL at which the others reach it; absent for one made of the name of the machine. */
  readonly address?: string
}

/** Declared events by name: those of each server, and under undefined those of no single one. */
export type DeclaredEvents = ReadonlyMap<string | undefined, ReadonlyMap<string, DeclaredEvent>>

/** An event that the configuration declares. */
export type DeclaredEvent = WatchedEvent | HookEvent

interface EventDeclaration {
  readonly description?: string
  /** The fields that receivers get, and can narrow events by; all if absent. A dot leads into a field. */
  readonly fields?: readonly string[]
  /** The scope that receivers must have, besides access. */
  readonly scope?: string
}

/** Found by calling a tool again and again. */
export interface WatchedEvent extends EventDeclaration {
  readonly kind: 'watch'
  /** The call as an expression; without a server, the name of its tool begins with that of one and a dot. */
  readonly watch: string
  /** In milliseconds. */
  readonly every: number
  /** The path of the items, from `$.result`. */
  readonly items: string
  /** In an item, the path of what identifies it, and of what is different once it has changed: by default anything. */
  readonly id: string
  readonly changed?: string
  /** Whether an item that is not in the result any more is an event. */
  readonly removed: boolean
}

/** Sent by another service. */
export interface HookEvent extends EventDeclaration {
  readonly kind: 'hook'
  readonly form: 'github' | 'stripe' | 'standard'
  /** The secrets that the service signs with. */
  readonly secrets: readonly Secret[]
  /** Permitted values, as globs, by path in the body or name of a header; others are no events. */
  readonly when: Readonly<Record<string, readonly string[]>>
}

/**
 * The server that has the address `/mcp` for itself, under its own names; undefined where `/mcp` is for several servers, or
 * for one whose names always have its prefix.
 */
export function onlyServer({
  listen,
  upstreams,
}: Pick<Settings, 'listen' | 'upstreams'>): string | undefined {
  const [only, ...others] = upstreams
  if (!only || others.length > 0) return undefined
  return listen.aggregate && only.prefix === 'always' ? undefined : only.name
}

/** How clients connect to the gateway. */
export interface ListenSettings {
  readonly host: string
  readonly port: number
  /** The URL clients use, if a proxy is in front of the gateway. */
  readonly publicUrl?: string
  /** Origins that browsers may call from, besides loopback and the public URL. */
  readonly origins: readonly string[]
  /** Serve the 2024-11-05 HTTP+SSE transport at `/sse` and `/messages`. */
  readonly legacySse: boolean
  /** Serve the owner's client at `/operator/mcp`. */
  readonly operatorMcp: boolean
  /** Serve every upstream together at `/mcp`. */
  readonly aggregate: boolean
  /** How long a server may take until the others are answered without it at `/mcp`. */
  readonly aggregateTimeout: number
  /** The largest request body, in bytes. */
  readonly body: number
  /** Enforce the specification strictly: both types in `Accept`, one message at a time. */
  readonly isStrict: boolean
}

/** Whose rules a list of tools keeps: those of one provider of models, of all, or of the provider of each client. */
export type SchemaDialect = 'auto' | 'any' | 'openai' | 'anthropic' | 'gemini'

/** An upstream server. */
export interface UpstreamSettings {
  readonly name: string
  /** Whether names at `/mcp` have the name of the server as a prefix: if there are several servers, always, or never. */
  readonly prefix: 'auto' | 'always' | 'never'
  readonly reach: CommandReach | UrlReach
  readonly transport: 'auto' | 'stdio' | 'streamable' | 'sse'
  /**
   * A protocol revision; `auto` for the newest one of the server; `follow` to also serve older clients in their own
   * era.
   */
  readonly revision: string
  readonly isolation: 'auto' | 'shared' | 'per_client'
  /** The command runs in one process of those that share the store, whatever process a call comes to. */
  readonly isPlacedOnce?: true
  /** Whether the server's annotations of its tools are believed. */
  readonly trust: boolean
  /**
   * Whose provider the tools are listed for; they are listed as the server has them if `off`, and if undefined in lists that are not
   * for models.
   */
  readonly repairsSchemas?: SchemaDialect | 'off'
  /** Calls that would write are answered as dry runs. */
  readonly isSandbox?: true
  /**
   * The server is a gateway with this key, identified by its JWK thumbprint (RFC 7638): duplicate functions are left to
   * it.
   */
  readonly gatewayKey?: string
  /** Roots sent to servers older than 2026-07-28: none, the client's, or a fixed list of URIs. */
  readonly roots: 'off' | 'client' | readonly string[]
  /** The timeout of the start and the initial handshake. */
  readonly startTimeout: number
  /** How long calls wait for a server that was reachable before and is not now. */
  readonly reconnect: number
  /** The idle timeout of a connection or child process. */
  readonly idle: number
  /** New names of tools, by their names on the server. Everything else refers to the new names. */
  readonly renames: Readonly<Record<string, string>>
  /** Settings of individual tools, by glob. */
  readonly tools: Readonly<Record<string, ToolSettings>>
  /** The owner's description of resources and resource templates, by glob of the URI; absent if there is none. */
  readonly resources?: Readonly<Record<string, ResourceWords>>
  /** Named scopes: the tools, prompts and resources that each one grants, by glob. */
  readonly scopes: Readonly<Record<string, readonly string[]>>
  /** Calls that are exclusively allowed, or denied: by glob of the tool, then by argument a glob of its value. */
  readonly allow: ArgumentRules
  readonly deny: ArgumentRules
  /** The meaning of this server's errors, by the text they contain. */
  readonly errors: readonly ErrorRule[]
  /** The owner's description of the server. */
  readonly about: About
  /** Suggested tools by intent, and other servers for what this one cannot do. */
  readonly intent: readonly IntentRule[]
  readonly recommend: readonly Recommendation[]
}

export interface IntentRule {
  /** Words that must all occur in the intent, or a regular expression between slashes. */
  readonly when: string
  /** A glob of the tools it applies to. */
  readonly on: string
  readonly suggest: string
  readonly reason?: string
}

export interface Recommendation {
  readonly capability: string
  readonly server: string
  readonly registryUrl?: string
  readonly authFlow?: string
  readonly confidence: 'high' | 'medium' | 'low'
}

export type ArgumentRules = Readonly<Record<string, Readonly<Record<string, string>> | true>>

/** The configured settings of a tool. */
export interface ToolSettings extends ToolWords {
  /** It is not offered to clients. */
  readonly hide?: boolean
  readonly op?: Operation
  readonly risk?: Risk
  readonly idempotent?: boolean
  /** Required scopes, instead of the derived ones. */
  readonly scopes?: readonly string[]
  /** Such as `10/minute`; several windows are possible. */
  readonly rate?: string | readonly string[]
  /** In milliseconds. */
  readonly timeout?: number
  /** How often an unsent call is retried. */
  readonly retry?: number
  /** How it is undone: a call as an expression, what is read before and written back, or `none`. */
  readonly undo?: string | UndoSettings
  /** A transaction cannot be rolled back once this tool ran. */
  readonly pivot?: boolean
  /**
   * How to find out whether a call with a lost response took effect: a call and a path into its result, as an
   * expression.
   */
  readonly verify?: string
  /** The argument for the idempotency key; `false` for none, whatever the schema declares. */
  readonly keyArgument?: string | false
  /** Whether the idempotency key is sent as a header, to servers over HTTP. */
  readonly forwardKey?: boolean
  /** For how long equal calls without a key count as one, in milliseconds. */
  readonly autoKey?: number
  /** Whether confirmation is required, or its question; `{argument}` is replaced by the value. */
  readonly confirm?: boolean | string
  /** The argument whose value the person has to type. */
  readonly typeToConfirm?: string
  /** Whether the person at the client confirms, or others do, on a page. */
  readonly approval?: 'inline' | 'out_of_band'
  /** How many approvals are required, and by whom; by anyone except the caller if none is named. */
  readonly approvals?: number
  readonly approvers?: readonly string[]
  /** For how long and for how many calls one approval is valid. */
  readonly remember?: Remember | false
  /** After its server removed it, calls of it are made to its replacement. */
  readonly alias?: boolean
}

/** The owner's description of a tool, for documentation. */
export interface ToolWords {
  readonly category?: string
  readonly effects?: readonly string[]
  /** Equivalent command line and HTTP request; `{argument}` is replaced by the value. */
  readonly cli?: string
  readonly api?: string
  readonly examples?: readonly ToolExample[]
  readonly errors?: readonly {
    readonly code: string
    readonly description: string
    readonly resolution?: string
  }[]
  readonly cost?: Cost
  readonly latency?: 'instant' | 'seconds' | 'minutes'
  /** Accepted and returned media types. */
  readonly accepts?: readonly string[]
  readonly returns?: readonly string[]
  /** The maximum size of a decoded argument, in bytes. */
  readonly maxInput?: number
  /** The source of results. */
  readonly provenance?: { readonly source?: string; readonly version?: string; readonly jsonPath?: string }
  /** The replacement, and the end of support. */
  readonly deprecated?: string
}

/** The owner's description of a resource, for documentation. */
export interface ResourceWords {
  /** What kind of thing it is, such as `project`. */
  readonly type?: string
  /** Whether its content changes. */
  readonly refreshable?: boolean
  /** How long it may be cached, in milliseconds. */
  readonly cache?: number
  /** Equivalent web page and HTTP request; `{uri}` is replaced by the URI, `{1}` by what the first `*` stands for. */
  readonly web?: string
  readonly api?: string
}

interface ToolExample {
  readonly description?: string
  readonly input: Readonly<Record<string, unknown>>
  readonly output?: unknown
}

export interface ErrorRule {
  /** A regular expression. */
  readonly match: string
  readonly code: ErrorCode
  readonly category?: string
  /** In milliseconds. */
  readonly retryAfter?: number
  readonly suggestion?: string
}

/** A server started as a child process that communicates over stdin and stdout. */
export interface CommandReach {
  readonly kind: 'command'
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, Secret>>
  /** An absolute path. Absent: the folder of the process. */
  readonly cwd?: string
}

/** A server reached over HTTP. */
export interface UrlReach {
  readonly kind: 'url'
  readonly url: string
  /** The proxy for its requests and those of its `oauth`; absent for those of the environment. */
  readonly proxy?: Proxy | 'off'
  /** Sent with every request, by lower-case name; includes the configured `token` as `authorization`. */
  readonly headers: Readonly<Record<string, Secret>>
  /** How tokens for the server are obtained, if fixed headers are not enough. */
  readonly oauth?: OAuthSettings
}

/** How the gateway obtains tokens for a server. */
export interface OAuthSettings {
  /**
   * With its own credentials, for an assertion (RFC 7523), by exchanging each caller's token (RFC 8693), or by sign-in of
   * each caller.
   */
  readonly grant: 'client_credentials' | 'jwt_bearer' | 'token_exchange' | 'authorization_code'
  readonly clientId?: string
  readonly clientSecret?: Secret
  /** The key with which the client authenticates in place of a secret, as PEM or JWK. */
  readonly privateKey?: Secret
  /** The path of a file with the assertion of the gateway itself, for `jwt_bearer`. */
  readonly assertionFile?: string
  /** Who asserts the identity of callers, for `jwt_bearer`. */
  readonly identityProvider?: IdentityProvider
  /** Whether tokens are bound to a key (RFC 9449); absent if that depends on the server. */
  readonly dpop?: 'on' | 'off'
  /** The token issuer; discovered through the server if absent. */
  readonly issuer?: string
  readonly tokenEndpoint?: string
  /** If empty, the scopes that the server names are requested. */
  readonly scopes: readonly string[]
  readonly audience?: string
  /** The requested resource (RFC 8707); absent if it is not to be sent. */
  readonly resource?: string
}

/** Whether the token of each caller is exchanged for one of the server. */
export function exchangesTokens({ grant, identityProvider }: OAuthSettings): boolean {
  if (grant !== 'jwt_bearer') return grant === 'token_exchange'
  return identityProvider !== undefined && identityProvider.subjectTokenFile === undefined
}

/** An identity provider that issues identity assertions for authorization servers of servers. */
export interface IdentityProvider {
  /** At least one of the two is set. */
  readonly issuer?: string
  readonly tokenEndpoint?: string
  readonly clientId: string
  readonly clientSecret?: Secret
  readonly privateKey?: Secret
  /** The path of a file with the token of the one person who uses the gateway; by default the token of each caller is used. */
  readonly subjectTokenFile?: string
  readonly subjectTokenType: 'id_token' | 'access_token' | 'refresh_token' | 'saml2'
}

/**
 * The settings of one feature with all defaults applied: those of the upstream if it overrides any, else `common`.
 * `false` means disabled.
 */
export interface FeatureSettings {
  readonly common: unknown
  /** Complete settings of upstreams that override any. */
  readonly upstreams: Readonly<Record<string, unknown>>
}

/** How a feature is configured: the part of it that the configuration reads. */
export interface FeatureSchema {
  readonly name: string
  /** Where its settings are: at the top level under its name, under `features`, or in `limits`. */
  readonly place: 'top' | 'features' | 'limits'
  /**
   * The JSON Schema of its settings, an object without `$ref`. With `default: off`, the feature must be turned on
   * explicitly. Members with `x-gateway` apply to the gateway as a whole: the settings of a server cannot have them.
   */
  readonly schema: Readonly<Record<string, unknown>>
  /** The only setting, a choice of words, if its word is written in place of the settings: `pin: warn`. */
  readonly choice?: string
  /** Off for servers that are gateways themselves, which do the same, unless their settings say otherwise. */
  readonly isLeftToGateway?: true
  /** Off for servers for which each user has credentials, unless the configuration names it there or for all servers. */
  readonly isLeftToPersonal?: true
}

/** The settings that the schema of a feature describes. */
export type SettingsIn<Declared extends FeatureSchema> = FromSchema<Declared['schema']>

/** The settings of a feature for one server, or for all servers; `false` if it is disabled. */
export function featureSettings(
  { features }: Pick<Settings, 'features'>,
  feature: string,
  upstream?: string,
): unknown {
  const own = features[feature]
  if (!own) return false
  const isOwn = upstream !== undefined && Object.hasOwn(own.upstreams, upstream)
  return isOwn ? own.upstreams[upstream] : own.common
}

/** Whether commands of other processes can read the store. */
export function isStoreShared({ store }: Pick<Settings, 'store'>): boolean {
  return store.kind !== 'memory'
}

/** Whether callers are authenticated, or the profile is `corporate`: then some limits apply by default. */
export function isGuarded({ profile, auth }: Pick<Settings, 'profile' | 'auth'>): boolean {
  return profile === 'corporate' || isProtected(auth)
}

/** The URL at which others reach a path of the gateway; undefined without `listen.public_url`. */
export function publicUrl(
  { listen }: { readonly listen: Pick<ListenSettings, 'publicUrl'> },
  path: string,
): string | undefined {
  return listen.publicUrl?.replace(/\/$/, '').concat(path)
}

/** Whether clients can use the gateway's own tools or methods. */
export function isAsked({ metaTools, hasMethods }: Pick<Settings, 'metaTools' | 'hasMethods'>): boolean {
  return metaTools !== 'off' || hasMethods
}

/** The value of one setting of a tool and the glob it comes from: the most specific one that has this setting. */
export function settingOf<Key extends keyof ToolSettings>(
  tools: Readonly<Record<string, ToolSettings>>,
  name: string,
  key: Key,
): { readonly glob: string; readonly value: NonNullable<ToolSettings[Key]> } | undefined {
  return settingAt<ToolSettings, Key>(tools, name, key)
}

/** The same for what else has settings by glob. */
export function settingAt<Values extends object, Key extends keyof Values>(
  all: Readonly<Record<string, Values>>,
  name: string,
  key: Key,
): { readonly glob: string; readonly value: NonNullable<Values[Key]> } | undefined {
  for (const glob of fitting(Object.keys(all), name)) {
    const value = all[glob]?.[key]
    if (value !== undefined && value !== null) return { glob, value }
  }
  return undefined
}

/** Observability settings. */
export interface ObserveSettings {
  /** Whether `/metrics` is served. */
  readonly metrics: boolean
  /** The minimum log level, unless the command line sets it. */
  readonly logLevel?: 'debug' | 'info' | 'warn' | 'error'
  /** Absent if no spans are exported. */
  readonly traces?: TraceSettings
  /** Absent if no metrics are exported. */
  readonly metricsExport?: MetricsExportSettings
  /** Absent if no audit log is written. */
  readonly audit?: AuditSettings
  /** Absent if calls are not logged. */
  readonly calls?: CallLogSettings
}

/** What the log of calls keeps, and for how long. */
export interface CallLogSettings {
  /** Whether arguments and results are kept beside what is known of each call. */
  readonly keep: 'metadata' | 'arguments' | 'results'
  readonly maxCalls: number
  /** In milliseconds. */
  readonly ttl: number
  /** The size of all arguments and results, in bytes, and how long they are kept, in milliseconds. */
  readonly maxContentBytes: number
  readonly contentTtl: number
}

/** A destination of OTLP over HTTP, and what it is told of this service. */
export interface OtlpSettings {
  readonly endpoint: string
  readonly headers: Readonly<Record<string, Secret>>
  readonly protocol: 'http/json' | 'http/protobuf'
  readonly serviceName: string
  /** Further attributes of this service. */
  readonly resource: Readonly<Record<string, string>>
  /** Why nothing can be exported, in a sentence: the environment asks for what is not supported. */
  readonly problem?: string
}

/** The destination of spans. */
export interface TraceSettings extends OtlpSettings {
  /** The sampled fraction of traces that begin here, from 0 to 1. */
  readonly sample: number
}

/** The destination of metrics. */
export interface MetricsExportSettings extends OtlpSettings {
  /** The time between exports, and how long one may take, in milliseconds. */
  readonly interval: number
  readonly timeout: number
}

/** The file that calls and refusals are recorded in. */
export interface AuditSettings {
  /** An absolute path. */
  readonly file: string
  /** The key for digests of arguments, without which arguments could be guessed. */
  readonly key?: Secret
  /** The size at which the next file is begun, in bytes. */
  readonly maxSize: number
  /** How many completed files are kept; all if absent. */
  readonly keep?: number
}

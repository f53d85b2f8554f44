/** The settings of a gateway, as the configuration yields them. */
import type { AuthSettings } from './auth-settings.ts'
import type { Operation, Risk, About, Cost } from './descriptor.ts'
import type { ErrorCode } from './error.ts'
import type { Remember } from './remember.ts'
import { fitting } from './text/pattern.ts'
import type { Secret } from './text/secret.ts'

/** The whole configuration, checked, with every default filled in. Durations are milliseconds, sizes are bytes. */
export interface Settings {
  /** The absolute path it was read from; absent when everything came from the command line. */
  readonly file?: string
  /** `corporate` asks for authentication and takes the strict side of every choice. */
  readonly profile: 'open' | 'corporate'
  readonly listen: ListenSettings
  readonly auth: AuthSettings
  /** Where what outlives a call is kept. */
  readonly store: StoreSettings
  readonly observe: ObserveSettings
  /** Whether the gateway's own tools stand in lists, can only be called, or are not there. */
  readonly metaTools: 'hidden' | 'listed' | 'off'
  /** Whether clients may ask the gateway by methods of its own, too. */
  readonly hasMethods: boolean
  readonly upstreams: readonly UpstreamSettings[]
  /** The settings of each feature by its name; a feature that is off everywhere is absent. */
  readonly features: Readonly<Record<string, FeatureSettings>>
  /** What of it names things that servers list, without what may match nothing. */
  readonly names: readonly ConfiguredName[]
}

/** A name or pattern of the configuration that stands for something servers list, or for a scope. */
export interface ConfiguredName {
  /** Where it stands: at a value, unless it is the key itself. */
  readonly path: readonly string[]
  readonly at?: 'key'
  /** An `item` is a tool, a prompt, or a resource by its URI. */
  readonly kind: 'tool' | 'item' | 'argument' | 'scope'
  readonly pattern: string
  /** What is written there, where that is another name: that of a renamed tool. */
  readonly written?: string
  /** The server it is about; all of them where absent. */
  readonly upstream?: string
  /** Whose argument it is. */
  readonly owner?: { readonly kind: 'tool' | 'item'; readonly pattern: string } | undefined
  /** Where it matches nothing, calls are let through that the configuration means to stop. */
  readonly isGuard: boolean
}

/**
 * In this process alone, in a folder by its absolute path, or in Redis; its URL may hold a password. `sentinels` is a
 * folder of the user's own, where it is remembered what stores promised.
 */
export type StoreSettings =
  | { readonly kind: 'memory' }
  | { readonly kind: 'folder'; readonly path: string; readonly sentinels?: string }
  | { readonly kind: 'redis'; readonly url: Secret; readonly sentinels?: string }

/** How clients reach the gateway. */
export interface ListenSettings {
  readonly host: string
  readonly port: number
  /** The URL clients know the gateway by, when a proxy stands in front of it. */
  readonly publicUrl?: string
  /** Origins a browser may call from, besides loopback and the public URL. */
  readonly origins: readonly string[]
  /** Serve the 2024-11-05 HTTP+SSE transport at `/sse` and `/messages`. */
  readonly legacySse: boolean
  /** Serve every upstream together at `/mcp`. */
  readonly aggregate: boolean
  /** The largest request body, in bytes. */
  readonly body: number
  /** Requests must be to the letter: both types in `Accept`, one message at a time. */
  readonly isStrict: boolean
}

/** One server behind the gateway. */
export interface UpstreamSettings {
  readonly name: string
  readonly reach: CommandReach | UrlReach
  readonly transport: 'auto' | 'stdio' | 'streamable' | 'sse'
  /** A protocol revision; `auto` for the newest the server has; `follow` for that and for older clients their own era. */
  readonly revision: string
  readonly isolation: 'auto' | 'shared' | 'per_client'
  /** Whether what the server says of its own tools is believed. */
  readonly trust: boolean
  /** It is a gateway that holds this key, by its JWK thumbprint (RFC 7638): what both would do is left to it. */
  readonly gatewayKey?: string
  /** Roots shown to servers older than 2026-07-28: none, the client's, or a fixed list of URIs. */
  readonly roots: 'off' | 'client' | readonly string[]
  /** How long starting and the opening exchange may take. */
  readonly startTimeout: number
  /** How long an unused connection or child process is kept. */
  readonly idle: number
  /** The new names of tools, by the names the server has for them. Everything else names them by the new ones. */
  readonly renames: Readonly<Record<string, string>>
  /** What is special about some of its tools, by glob. */
  readonly tools: Readonly<Record<string, ToolSettings>>
  /** Named scopes: the tools, prompts and resources each one opens, by glob. */
  readonly scopes: Readonly<Record<string, readonly string[]>>
  /** Calls that are let through alone, or never: by glob of the tool, then by argument a glob of its value. */
  readonly allow: ArgumentRules
  readonly deny: ArgumentRules
  /** What errors of this server mean, by what their text contains. */
  readonly errors: readonly ErrorRule[]
  /** What its owner says of it. */
  readonly about: About
  /** Which tool to suggest for which intent, and other servers for what this one cannot do. */
  readonly intent: readonly IntentRule[]
  readonly recommend: readonly Recommendation[]
}

export interface IntentRule {
  /** Words that all stand in the intent, or a regular expression between slashes. */
  readonly when: string
  /** A glob of the tools it holds for. */
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

/** What the configuration says of a tool. */
export interface ToolSettings extends ToolWords {
  /** It is not offered. */
  readonly hide?: boolean
  readonly op?: Operation
  readonly risk?: Risk
  readonly idempotent?: boolean
  /** Scopes a caller needs, instead of those derived. */
  readonly scopes?: readonly string[]
  /** Such as `10/minute`; several windows may be given. */
  readonly rate?: string | readonly string[]
  /** In milliseconds. */
  readonly timeout?: number
  /** How often a call that was not sent is tried again. */
  readonly retry?: number
  /** How it is undone: a call as an expression, what is read before and put back, or `none`. */
  readonly undo?: string | UndoSettings
  /** There is no way back after it. */
  readonly pivot?: boolean
  /** Finds out whether a call took effect whose answer was lost: a call and a path of its result, as an expression. */
  readonly verify?: string
  /** The argument the idempotency key goes into; `false` for none, whatever the schema has. */
  readonly keyArgument?: string | false
  /** The idempotency key is sent as a header, to servers over HTTP. */
  readonly forwardKey?: boolean
  /** For how long equal calls without a key count as one, in milliseconds. */
  readonly autoKey?: number
  /** Whether a person is asked first, or what the person is asked; `{argument}` stands for its value. */
  readonly confirm?: boolean | string
  /** The argument whose value the person has to type. */
  readonly typeToConfirm?: string
  /** Whether the person at the client is asked, or others are, on a page. */
  readonly approval?: 'inline' | 'out_of_band'
  /** Of how many people it takes the approval, and who they may be; any person but the caller where none is named. */
  readonly approvals?: number
  readonly approvers?: readonly string[]
  /** For how long and for how many calls one approval holds. */
  readonly remember?: Remember | false
  /** Once its server dropped it, calls of it are made of the tool to use instead. */
  readonly alias?: boolean
}

/** What the owner of a tool says of it, for those who read about it. */
export interface ToolWords {
  readonly category?: string
  readonly effects?: readonly string[]
  /** The same on a command line, and as a request; `{argument}` stands for its value. */
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
  /** Media types it takes, and gives. */
  readonly accepts?: readonly string[]
  readonly returns?: readonly string[]
  /** The largest argument in bytes, once decoded. */
  readonly maxInput?: number
  /** Where results come from. */
  readonly provenance?: { readonly source?: string; readonly version?: string; readonly jsonPath?: string }
  /** What to use instead, and until when it is there. */
  readonly deprecated?: string
}

interface ToolExample {
  readonly description?: string
  readonly input: Readonly<Record<string, unknown>>
  readonly output?: unknown
}

/** How a tool is undone, in more words. All but the texts are expressions. */
export interface UndoSettings {
  /** The call that undoes it. */
  readonly call?: string
  /** Whether everything is as before once it is undone; it is, unless said otherwise. */
  readonly exact?: boolean
  readonly description?: string
  /** What is read before the call, what puts it back, and what undoes the call where there was nothing to read. */
  readonly snapshot?: string
  readonly restore?: string
  readonly absent?: string
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

/** A server started as a child process that speaks over stdin and stdout. */
export interface CommandReach {
  readonly kind: 'command'
  readonly command: string
  readonly args: readonly string[]
  readonly env: Readonly<Record<string, Secret>>
  /** An absolute path; absent when there is no file whose folder could be the default. */
  readonly cwd?: string
}

/** A server reached over HTTP. */
export interface UrlReach {
  readonly kind: 'url'
  readonly url: string
  /** Sent with every request, by lower-case name; `token` of the file is here as `authorization`. */
  readonly headers: Readonly<Record<string, Secret>>
  /** How tokens for the server are got, where it takes more than fixed headers. */
  readonly oauth?: OAuthSettings
}

/** How the gateway gets tokens for a server. */
export interface OAuthSettings {
  /** As itself, by exchanging each caller's token (RFC 8693), or by asking each caller to sign in. */
  readonly grant: 'client_credentials' | 'token_exchange' | 'authorization_code'
  readonly clientId?: string
  readonly clientSecret?: Secret
  /** Who issues tokens; where it is absent the server is asked. */
  readonly issuer?: string
  readonly tokenEndpoint?: string
  /** None asks for those the server names. */
  readonly scopes: readonly string[]
  readonly audience?: string
  /** What tokens are asked for (RFC 8707); absent where that is not to be said. */
  readonly resource?: string
}

/**
 * The settings of one feature, with its defaults filled in: those of the upstream where it overrides some of
 * them, else `common`. `false` means off.
 */
export interface FeatureSettings {
  readonly common: unknown
  /** Complete settings by upstream, for those that override any. */
  readonly upstreams: Readonly<Record<string, unknown>>
}

/** The settings of a feature for one server, or for all of them together; `false` where it is off. */
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

/** Whether clients can ask the gateway itself for something, by its tools or by its methods. */
export function isAsked({ metaTools, hasMethods }: Pick<Settings, 'metaTools' | 'hasMethods'>): boolean {
  return metaTools !== 'off' || hasMethods
}

/** What one setting of a tool is and which glob says so: the most specific one that has this setting. */
export function settingOf<Key extends keyof ToolSettings>(
  tools: Readonly<Record<string, ToolSettings>>,
  name: string,
  key: Key,
): { readonly glob: string; readonly value: NonNullable<ToolSettings[Key]> } | undefined {
  for (const glob of fitting(Object.keys(tools), name)) {
    const value = tools[glob]?.[key]
    if (value !== undefined) return { glob, value }
  }
  return undefined
}

/** How calls are observed, and where to. */
export interface ObserveSettings {
  /** Whether `/metrics` answers. */
  readonly metrics: boolean
  /** The least important log lines that are written, where the command line does not say. */
  readonly logLevel?: 'debug' | 'info' | 'warn' | 'error'
  /** Absent where no spans are sent. */
  readonly traces?: TraceSettings
  /** Absent where no audit log is kept. */
  readonly audit?: AuditSettings
}

/** Where spans are sent, over OTLP/HTTP. */
export interface TraceSettings {
  readonly endpoint: string
  readonly headers: Readonly<Record<string, Secret>>
  /** Which part of the traces that begin here is recorded, from 0 to 1. */
  readonly sample: number
  readonly serviceName: string
}

/** The file calls and refusals are recorded in. */
export interface AuditSettings {
  /** An absolute path. */
  readonly file: string
  /** Makes the digests of arguments, so that the arguments cannot be guessed without it. */
  readonly key?: Secret
  /** How large a file may get before the next is begun, in bytes. */
  readonly maxSize: number
  /** How many full files are kept; all where absent. */
  readonly keep?: number
}

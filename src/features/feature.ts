/** The contract of a feature: its place in the configuration, its schema, and what it adds to the gateway. */
import type { Call, Handler, Middleware, Target } from '../core/call.ts'
import type { Descriptor, RemainingQuota, ToolFacts } from '../core/descriptor.ts'
import type { GatewayError } from '../core/error.ts'
import type { Finding } from '../core/finding.ts'
import type { Payload } from '../core/payload.ts'
import type { Principal } from '../core/principal.ts'
import { featureSettings } from '../core/settings.ts'
import type { Services } from './services.ts'

type JsonSchema = Readonly<Record<string, unknown>>

/** One capability of the gateway, in one file. */
export interface Feature<Settings> {
  readonly name: string
  /** Where its settings stand in the configuration: at the top, under `features`, or among those of `limits`. */
  readonly place: 'top' | 'features' | 'limits'
  /** What its settings may be; `create` may rely on it. */
  readonly schema: JsonSchema
  /** Whether a gateway behind this one does it as well, so that it is off for such a server unless its settings say more. */
  readonly isLeftToGateway?: true
  create(settings: SettingsOf<Settings>, services: Services): FeatureInstance
}

/** A feature's settings for one server: its own where it has any, else those for all. */
export type SettingsOf<Settings> = (upstream?: string) => Settings

/**
 * The settings of a feature for one server, or for all of them; `false` where it is off. The cast rests on the
 * feature's own schema, which was applied when the configuration was read.
 */
export function settingsFor<Settings>(
  { name }: Pick<Feature<Settings>, 'name' | 'create'>,
  settings: Parameters<typeof featureSettings>[0],
  upstream?: string,
): Settings | false {
  return featureSettings(settings, name, upstream) as Settings | false
}

/** What a feature adds. */
export interface FeatureInstance {
  /** Wraps the calls of a target; nothing where there is nothing to do, which then costs nothing. */
  middleware?(target: Target): Middleware | undefined
  /** Requests the gateway answers itself, by method. */
  readonly methods?: Readonly<Record<string, Handler>>
  /** Tools the gateway answers itself. */
  readonly tools?: readonly BuiltinTool[]
  /** Prompts and resources the gateway has itself, at the address of a server or of all. */
  prompts?(upstream?: string): readonly BuiltinEntry[]
  resources?(upstream?: string): readonly BuiltinEntry[]
  /** What is read at paths over HTTP. */
  readonly pages?: readonly BuiltinPage[]
  /** What it does about a tool of a server, given all its tools, for those who describe it. */
  toolFacts?(entry: Descriptor, all: readonly Descriptor[]): ToolFacts
  /** The error object that the caller gets for a failed result, or for what was thrown. */
  explained?(failure: Payload | GatewayError, call: Call): Readonly<Record<string, unknown>>
  /** What is left to a caller of what it limits: of a tool, else of a server, else of all. Nothing is taken. */
  remainingQuota?(target: Target, principal: Principal): Promise<RemainingQuota | undefined>
  /**
   * Wraps what clients see when they ask by a method, of one server or of all together: lists, and what servers say
   * of themselves. Nothing where there is nothing to do, which then costs nothing.
   */
  responseMiddleware?(method: string): Middleware | undefined
  /** Values for it that models may write among the arguments of a server's tools, where that is switched on. */
  reserved?(upstream: string): readonly Reserved[]
  /** Values for it that callers send beside the arguments of a tool: among the arguments they mean nothing. */
  readonly values?: readonly CallerValue[]
  /** What is said of it among the capabilities of a server with tools, or of all servers, by the name of the extension. */
  extensions?(upstream?: string): Readonly<Record<string, Readonly<Record<string, unknown>>>>
  /** Takes up what an earlier process left behind; called once servers were tried. */
  start?(): Promise<void>
  /** What does not go together with what servers list; a server that cannot be reached says nothing. */
  problems?(): Promise<readonly Finding[]>
  close?(): Promise<void>
}

/** A tool of the gateway's own. */
export interface BuiltinTool {
  /** The entry of `tools/list`. */
  readonly definition: Readonly<Record<string, unknown>> & { readonly name: string }
  /** Whether it stands in lists; as `meta_tools` says unless given. */
  isListed?(upstream?: string): boolean | undefined
  readonly handle: Handler
}

/** An argument of tools that holds a value for a feature; a tool's own argument of that name stays its own. */
export interface Reserved {
  readonly argument: string
  /** What it is called among the values for features. */
  readonly value: string
  /** Its schema in tool lists; where absent, it is not listed. */
  readonly schema?: JsonSchema
  /** The tools that list it; all of them unless given. */
  isFor?(entry: Descriptor): boolean
}

/** A value for a feature that callers send beside the arguments of a tool. */
export interface CallerValue {
  /** What it is called among the values for features. */
  readonly name: string
  readonly aliases?: readonly string[]
  /** The HTTP header it can come in. */
  readonly header?: string
}

/** A prompt or a resource of the gateway's own, which answers `prompts/get` or `resources/read`. */
export interface BuiltinEntry {
  /** The entry of the list; a prompt is known by its `name`, a resource by its `uri`. */
  readonly definition: Readonly<Record<string, unknown>>
  /** Whether it stands in lists; as `meta_tools` says unless given. Where it is given, it is there even if that is `off`. */
  readonly isListed?: boolean
  /** Whether it answers for a name or URI beside its own. */
  matches?(name: string): boolean
  readonly handle: Handler
}

/** What is read at a path over HTTP, with GET. */
export interface BuiltinPage {
  /** `*` stands for the name of a server; without one it is of all servers, or of the one `?upstream=` names. */
  readonly path: string
  /** Whether it can be read without authentication. */
  isOpen?(): boolean
  /** Its params are the query; its result is a `Page`. */
  readonly handle: Handler
}

/** The result of reading a page. */
export interface Page {
  readonly text: string
  /** Its media type. */
  readonly type: string
  /** For how long it may be kept, in seconds. */
  readonly maxAge: number
  /** The text without numbers that are others each time it is read: as long as it is the same, so is the page. */
  readonly lasting?: string
}

/**
 * The contract of a feature: its place in the configuration, its schema, what it adds to the gateway, and the services
 * that it may use. A feature names the services it needs: `type Deps = Pick<Services, 'store' | 'invoker'>`. All of
 * them belong to one runtime; a reload makes the features anew with others.
 */
import type { AuthSettings } from '../core/auth-settings.ts'
import type { Call, Handler, Middleware, Target, InternalPurpose } from '../core/call.ts'
import type { Descriptor, RemainingQuota, ToolFacts, Quota, ServerRecords } from '../core/descriptor.ts'
import type { GatewayError } from '../core/error.ts'
import type { Finding } from '../core/finding.ts'
import type { Log } from '../core/log.ts'
import type { Payload } from '../core/payload.ts'
import type { Principal } from '../core/principal.ts'
import { featureSettings, type UpstreamSettings } from '../core/settings.ts'
import type { UndoRule } from '../core/undo/rules.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import type { Challenge } from '../protocol/gateway-proof.ts'
import type { Approval } from '../records/approvals.ts'
import type { Membership } from '../records/members.ts'
import type { Store } from '../store/store.ts'

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

/** Everything a feature may use. */
export interface Services {
  readonly log: Log
  readonly store: Store
  readonly servers: ServerDirectory
  readonly invoker: Invoker
  readonly descriptions: DescriptionService
  readonly identity: Identity
  readonly pages: PageDirectory
  readonly features: FeatureDirectory
  readonly gateway: GatewayTraits
}

/** The upstream servers: their settings, and what is known of them and of their tools. */
export interface ServerDirectory {
  /** The names of all servers. */
  names(): readonly string[]
  /** The settings of a server. */
  settings(upstream: string): UpstreamSettings | undefined
  /** How clients reach a server, such as `stdio` or `/mcp/files`. */
  entrances(upstream: string): readonly string[]
  /**
   * The descriptor of the tool, prompt or resource that a call names, from the list of its server; undefined where the
   * server does not list it. Synchronous once the list is known. @throws what listing throws
   */
  tool(call: Call): Descriptor | undefined | Promise<Descriptor | undefined>
  /** The descriptors of all tools that a server lists now. @throws what listing throws */
  tools(upstream: string): Promise<readonly Descriptor[]>
  /** The descriptor of a tool from its entry of `tools/list`. */
  describe(upstream: string, definition: Readonly<Record<string, unknown>>): Descriptor | undefined
  /** The undo rule of a tool; synchronous where it is configured. @throws what listing throws */
  undoRule(upstream: string, tool: string): UndoRule | undefined | Promise<UndoRule | undefined>
  /** The undo rule of a tool, given all tools of its server. */
  undoRuleAmong(entry: Descriptor, all: readonly Descriptor[]): UndoRule | undefined
  /** The name of a tool for clients, at the address of its server or at the address of all servers. */
  exposedName(upstream: string, tool: string, isTogether: boolean): string
  /** The longest silence and the longest duration of a call of a tool, in milliseconds. */
  callBounds(upstream: string, tool: string): { readonly silence: number; readonly total: number }
  /** The records of all servers. Calls are sampled for them from the first use on. */
  records(): ServerRecords
  /** The remaining quota that a server reported for its own limit. */
  quota(upstream: string): Quota | undefined
}

/** Makes calls. */
interface Invoker {
  /** Makes a call through the whole chain of its target. */
  readonly call: Handler
  /** A call of a tool by the gateway itself, for `call`. */
  internal(order: InternalCall): Call
  /** Makes a call at its server, through the chain of its target, past the gateway's built-ins. */
  relay: Handler
  /** Whether the caller is permitted to make a call of a tool; the call is not made. */
  isPermitted(call: Call): Promise<boolean>
  /** A result as its client will receive it: lowered to the client's revision. */
  asSent(result: Payload, call: Call): Payload
}

/** Descriptions of servers, and the documents made of them. */
export interface DescriptionService {
  /**
   * The description of one server, or of all servers where none is named; the same object until something of it
   * changes. Pass a call where its caller may not see everything.
   */
  of(upstream: string | undefined, call?: Call): ServerDescription | Promise<ServerDescription>
  /** A document made of a description, cached by `key`, without secrets of the configuration. */
  document<Made>(
    description: ServerDescription,
    key: string,
    make: (description: ServerDescription) => Made,
  ): Made
}

/** What proves who this gateway is. */
export interface Identity {
  /** The gateways that share the store, and which of them this one is. */
  readonly membership: Membership
  /** Signs claims with the gateway's own key: a JWS in compact form (RFC 7515). */
  sign(claims: Readonly<Record<string, unknown>>): Promise<string>
  /** The proof for a gateway in front that this gateway is the one it means; undefined where it means another. */
  prove(challenge: Challenge): Promise<string | undefined>
}

/** The gateway's own pages and commands, as people reach them. */
export interface PageDirectory {
  /** The URL of the page at a path; undefined where the gateway serves no pages. */
  url(path: string): string | undefined
  /** Who can decide on the page of an approval: a person in a browser, or only a program with a token. */
  decidesOnPage(
    approval: Pick<Approval, 'kind' | 'caller' | 'isEverybody' | 'approvers'>,
  ): 'person' | 'program' | undefined
  /** The command that approves a call, for those who may run it. */
  approvalCommand(id: string): string
}

/** The features together, for those that speak of one another. */
interface FeatureDirectory {
  /** Whether a feature is on, for one server or at all. */
  isOn(feature: string, upstream?: string): boolean
  /** The values that models may write among the arguments of a server's tools. */
  reserved(upstream: string): readonly Reserved[]
  /** The values that callers send beside the arguments of a server's tools. */
  callerValues(upstream: string): readonly CallerValue[]
  /** The error object that the caller gets for a failure; undefined where the errors feature is off. */
  explained(failure: Payload | GatewayError, call: Call): Readonly<Record<string, unknown>> | undefined
  /** The calls that a caller has left: of a tool, else of a server, else of all; undefined without a limit. */
  remainingQuota(principal: Principal, upstream?: string, tool?: string): Promise<RemainingQuota | undefined>
}

/** Facts about this gateway. */
interface GatewayTraits {
  /** Whether commands of other processes can read the store. */
  readonly isStoreShared: boolean
  /** Whether callers are told apart, or the profile is `corporate`: then some limits hold by default. */
  readonly isGuarded: boolean
  /** Whether the gateway's own tools can be called. */
  readonly hasTools: boolean
  /** Whether the gateway answers requests of its own, by tools or by methods. */
  readonly isAsked: boolean
  /** The largest request, in bytes. */
  readonly largestRequest: number
  /** How long narrowed sessions last, and where people ask for more rights. */
  readonly auth: Pick<AuthSettings, 'session' | 'elevateUrl'>
  /** Aborted when the gateway closes: later failures may be due to that. */
  readonly closing: AbortSignal
  /** Reads a JSON object from a foreign URL over HTTPS, bounded in time and size. @throws */
  fetchJson(url: string): Promise<Readonly<Record<string, unknown>>>
}

/** A call of a tool that the gateway makes itself. */
export interface InternalCall {
  readonly purpose: InternalPurpose
  /** Whose rights it has. */
  readonly principal: Principal
  readonly upstream: string
  /** The tool as the server knows it. */
  readonly tool: string
  readonly arguments: Readonly<Record<string, unknown>>
  readonly idempotencyKey?: string
  /** The trace of what it undoes (W3C `traceparent`). */
  readonly undoes?: string | undefined
  /** The call it is done in the course of: it goes the same way to the server, and ends with it. */
  readonly during?: Call
}

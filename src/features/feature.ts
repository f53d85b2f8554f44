import type { AuthSettings } from '../core/auth-settings.ts'
import type { Call, InternalPurpose, Handler, Middleware } from '../core/call.ts'
import type { Descriptor } from '../core/descriptor.ts'
import type { GatewayError } from '../core/error.ts'
import type { Finding } from '../core/finding.ts'
import type { Log } from '../core/log.ts'
import type { Payload } from '../core/payload.ts'
import type { Principal } from '../core/principal.ts'
import type { RemainingQuota, Quota, ServerRecords, ToolFacts } from '../core/descriptor.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import type { Target } from '../core/call.ts'
import type { UndoRule } from '../core/undo/rules.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import type { Approval } from '../records/approvals.ts'
import type { Membership } from '../records/members.ts'
import type { Store } from '../store/store.ts'
import type { Challenge } from '../protocol/gateway-proof.ts'

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
  create(settings: SettingsOf<Settings>, deps: Deps): FeatureInstance
}

/** A feature's settings for one server: its own where it has any, else those for all. */
export type SettingsOf<Settings> = (upstream?: string) => Settings

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
  logFields?(entry: Descriptor, all: readonly Descriptor[]): ToolFacts
  /** The error object that the caller gets for a failed result, or for what was thrown. */
  explained?(failure: Payload | GatewayError, call: Call): Readonly<Record<string, unknown>>
  /** What is left to a caller of what it limits: of a tool, else of a server, else of all. Nothing is taken. */
  remainingQuota?(target: Target, principal: Principal): Promise<RemainingQuota | undefined>
  /**
   * Wraps what clients see when they ask by a method, of one server or of all together: lists, and what servers say
   * of themselves. Nothing where there is nothing to do, which then costs nothing.
   */
  rewriteResult?(method: string): Middleware | undefined
  /** Values for it that models may write among the arguments of a server's tools, where that is switched on. */
  reserved?(upstream: string): readonly Reserved[]
  /** Values for it that callers send beside the arguments of a tool: among the arguments they mean nothing. */
  readonly values?: readonly CallerValue[]
  /** What is said of it among the capabilities of a server with tools, or of all servers, by the name of the extension. */
  extensions?(upstream?: string): Readonly<Record<string, Readonly<Record<string, unknown>>>>
  /** Takes up what an earlier process left behind; called once servers were tried. */
  start?(): Promise<void>
  /** What does not go together with what servers list; a server that can not be reached says nothing. */
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
  /** What models are told of it; where it is absent they are told nothing. */
  readonly schema?: JsonSchema
  /** The tools where they are told; all of them unless given. */
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
  /** Whether nobody has to say who they are to read it. */
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

/** What features may use. */
export interface Deps {
  readonly log: Log
  readonly store: Store
  /** Commands of other processes can look into the store. */
  readonly isStoreShared: boolean
  /** Callers are told apart, or the profile is `corporate`: then some limits hold that nobody configured. */
  readonly isGuarded: boolean
  /** How clients reach a server, such as `stdio` or `/mcp/files`. */
  entrances(upstream: string): readonly string[]
  /** Makes a call of the gateway's own, through the whole chain. */
  readonly call: Handler
  /** A call of a tool the gateway makes itself; `call` makes it. */
  internal(order: InternalCall): Call
  /** Whether the caller is permitted to make a call of a tool; it is not made. */
  isPermitted(call: Call): Promise<boolean>
  /** Which gateways there are that share the store, and which of them this one is. */
  readonly membership: Membership
  /** Signs claims with the gateway's own key: a JWS in compact form (RFC 7515). */
  sign(claims: Readonly<Record<string, unknown>>): Promise<string>
  /** The proof for a gateway in front that this is the one it means; nothing where it means another. */
  prove(challenge: Challenge): Promise<string | undefined>
  /** What a call came to, as its client will be sent it: older clients are told some things in other words. */
  asSent(result: Payload, call: Call): Payload
  /** The page of the gateway at a path, as people reach it; nothing where it serves no pages. */
  page(path: string): string | undefined
  /** Who can decide on the page of an approval: a person in a browser, or a program with a token alone; undefined where neither can. */
  decidesOnPage(
    approval: Pick<Approval, 'kind' | 'caller' | 'isEverybody' | 'approvers'>,
  ): 'person' | 'program' | undefined
  /** The command that approves a call, as it works for those who may run it. */
  approvalCommand(id: string): string
  /** Whether the gateway's own tools can be called. */
  readonly hasTools: boolean
  /** Whether clients can ask the gateway itself for something, by its tools or by its methods. */
  readonly isAsked: boolean
  /** Does a call at its server, through the chain of its target; the gateway's own answers are passed by. */
  relay: Handler
  /** Whether a feature is on, for one server or at all. */
  isOn(feature: string, upstream?: string): boolean
  /** The values for features that models may write among the arguments of a server's tools. */
  reserved(upstream: string): readonly Reserved[]
  /** The values for features that callers send beside the arguments of a server's tools. */
  callerValues(upstream: string): readonly CallerValue[]
  /** Aborted when the gateway closes: what fails from then on may not have failed otherwise. */
  readonly closing: AbortSignal
  /** The names of all servers. */
  servers(): readonly string[]
  /** How a server is configured. */
  server(upstream: string): UpstreamSettings | undefined
  /** How long a call of a tool may be silent, and how long it may take in all, in milliseconds. */
  callBounds(upstream: string, tool: string): { readonly silence: number; readonly total: number }
  /** How long narrowed sessions last, and where people ask for more rights. */
  readonly auth: Pick<AuthSettings, 'session' | 'elevateUrl'>
  /**
   * What the server's own list says of the tool a call names; nothing where it has no such tool. At once when the
   * list is known. @throws what listing throws
   */
  entry(call: Call): Descriptor | undefined | Promise<Descriptor | undefined>
  /** How what a tool does is undone; at once where that is configured. @throws what listing throws */
  undoRule(upstream: string, tool: string): UndoRule | undefined | Promise<UndoRule | undefined>
  /** The same of a tool, given all tools of its server. */
  undoRuleAmong(entry: Descriptor, all: readonly Descriptor[]): UndoRule | undefined
  /** The error object that the caller gets for a failure; undefined where the errors feature is off. */
  explained(failure: Payload | GatewayError, call: Call): Readonly<Record<string, unknown>> | undefined
  /** The entries of all tools of a server, as it lists them just then. @throws what listing throws */
  tools(upstream: string): Promise<readonly Descriptor[]>
  /** What is known of each server. Calls are only looked at for it once somebody asks. */
  records(): ServerRecords
  /**
   * What documents say of one server, or of all together where none is named; the same value until something of it
   * changes. A call is given where its caller may not see everything.
   */
  description(upstream: string | undefined, call?: Call): ServerDescription | Promise<ServerDescription>
  /** Makes a document of a portrait, once for each, without secrets of the configuration. */
  document<Made>(
    description: ServerDescription,
    key: string,
    make: (description: ServerDescription) => Made,
  ): Made
  /** What a server says is left of its own limit. */
  quota(upstream: string): Quota | undefined
  /** What is left to a caller to call: of a tool, else of a server, else of all; nothing where nobody limits it. */
  remainingQuota(principal: Principal, upstream?: string, tool?: string): Promise<RemainingQuota | undefined>
  /** The largest request, in bytes. */
  readonly largestRequest: number
  /** What clients call a tool by, at the address of its server or where all servers are offered together. */
  exposed(upstream: string, tool: string, isTogether: boolean): string
  /** Reads an object of JSON from another's address over HTTPS, within bounds of time and size. @throws */
  fetchJson(url: string): Promise<Readonly<Record<string, unknown>>>
  /** The entry of a tool as a server lists it. */
  listed(upstream: string, definition: Readonly<Record<string, unknown>>): Descriptor | undefined
}

/** What the gateway is to do itself. */
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

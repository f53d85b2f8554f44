/**
 * The contract of a feature: how it is configured, what it adds to the gateway, and the services that it may use. A feature names the services it needs: `type Deps = Pick<Services, 'store' | 'invoker'>`. All of
 * them belong to one runtime; a reload creates the features again with new ones.
 */
import type { OrderStep } from '../core/audit-step.ts'
import type { Finding } from '../core/findings.ts'
import type { Call, Handler, Middleware, Outcome, Target } from '../core/call.ts'
import type {
  ArrivingHook,
  BytePath,
  DocumentPath,
  HookAnswer,
  RoutePath,
  PageFrame,
} from '../core/http-paths.ts'
import type { Descriptor, Quota, ServerRecords } from '../core/descriptor.ts'
import type { Log } from '../core/log.ts'
import type { Principal } from '../core/principal.ts'
import type { FindProxy } from '../core/proxy.ts'
import type { Seal } from '../core/seal.ts'
import type { ServerContext } from '../core/slot.ts'
import {
  type FeatureSchema,
  featureSettings,
  type Settings,
  type UpstreamSettings,
  settingOf,
  type ToolSettings,
} from '../core/settings.ts'
import type { Redactor } from '../core/text/redactor.ts'
import type { UndoRule } from '../core/undo/rules.ts'
import type { ProcessScope } from '../durable/process-scope.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import type { Challenge } from '../protocol/gateway-proof.ts'
import type { Approval } from '../records/approvals.ts'
import type { Membership } from '../durable/members.ts'
import type { Store } from '../store/store.ts'

/** One capability of the gateway: how it is configured, and what it does. Its settings have the type `Own`. */
export interface Feature<Own> extends FeatureSchema {
  create(settings: SettingsOf<Own>, services: Services): FeatureInstance
}

/** A feature's settings for one server, with those for all servers as the default. */
export type SettingsOf<Own> = (upstream?: string) => Own

/**
 * The settings of a feature for one server, or for all of them; `false` if it is off. The cast relies on the feature's
 * schema, which was applied when the configuration was read.
 */
export function settingsFor<Own>(
  { name }: Pick<Feature<Own>, 'name' | 'create'>,
  settings: Parameters<typeof featureSettings>[0],
  upstream?: string,
): Own | false {
  return featureSettings(settings, name, upstream) as Own | false
}

/** A setting of a tool of a server; undefined if it is not configured. */
export function toolSetting<Key extends keyof ToolSettings>(
  { servers }: Pick<Services, 'servers'>,
  upstream: string,
  tool: string,
  key: Key,
): NonNullable<ToolSettings[Key]> | undefined {
  const tools = servers.settings(upstream)?.tools
  return tools && settingOf(tools, tool, key)?.value
}

/** What a feature adds to the gateway: layers around calls and responses, answers of its own, and what others may use. */
export interface FeatureInstance {
  readonly calls?: CallLayer
  /**
   * Wraps responses to methods of one server or of all together: lists, and `server/discover`. Undefined if there is
   * nothing to do, which then costs nothing.
   */
  responseMiddleware?(method: string): Middleware | undefined
  readonly builtins?: BuiltinAnswers
  readonly http?: HttpFace
  /** What other features and the gateway may use of it (`offers.ts`). */
  readonly offers?: readonly Offer[]
  /** Resumes what an earlier process left behind; called after the first connection attempts. */
  start?(): Promise<void>
  /** Conflicts of the settings with what servers list; servers that cannot be reached are skipped. */
  problems?(): Promise<readonly Finding[]>
  close?(): Promise<void>
}

/** A layer around the calls of single targets. */
interface CallLayer {
  /** Wraps the calls of a target; undefined if there is nothing to do, which then costs nothing. */
  middleware(target: Target): Middleware | undefined
  /**
   * Its part in dry runs, which keep nothing and call no server. `same`: its middleware decides, and keeps nothing.
   * `absent`: none, because it only keeps, sends or changes what a server returned. Otherwise the middleware for them;
   * `end` reports the findings, for a call that would go no further.
   */
  readonly dryRun: 'same' | 'absent' | ((target: Target, end: Handler) => Middleware | undefined)
  /** Its decision depends on the arguments: a call whose approver changed them passes it again. */
  readonly judgesArguments?: true
}

/** What the gateway answers itself. */
interface BuiltinAnswers {
  /** Requests, by method. */
  readonly methods?: Readonly<Record<string, Handler>>
  readonly tools?: readonly BuiltinTool[]
  /** Prompts and resources at the endpoint of one server or of all. */
  prompts?(upstream?: string): readonly BuiltinEntry[]
  resources?(upstream?: string): readonly BuiltinEntry[]
  /** Entries among the extensions of a server with tools, or of all servers, by extension name. */
  extensions?(upstream?: string): Readonly<Record<string, Readonly<Record<string, unknown>>>>
}

/** What the gateway serves over HTTP beside MCP. */
interface HttpFace {
  readonly pages?: readonly BuiltinPage[]
  /** Paths whose requests are calls. */
  readonly routes?: readonly BuiltinRoute[]
  /** Paths whose requests or responses are bytes. */
  readonly byteRoutes?: readonly ByteRoute[]
  /** Accepts a webhook of another service or of a server. @throws GatewayError if it is refused */
  receiveHook?(hook: ArrivingHook): Promise<HookAnswer>
}

/** A place for what features offer to others. */
export interface ExtensionPoint<Offered> {
  offer(value: Offered): Offer
  /** What is offered at this point, in the same order. */
  of(offers: readonly Offer[]): readonly Offered[]
}

/** What a feature offers at an extension point. */
export interface Offer {
  readonly point: object
  readonly value: unknown
}

export function extensionPoint<Offered>(): ExtensionPoint<Offered> {
  const point: ExtensionPoint<Offered> = {
    offer: (value) => ({ point, value }),
    // Only `offer` makes offers of this point.
    of: (offers) => offers.filter((each) => each.point === point).map(({ value }) => value as Offered),
  }
  return point
}

/** A built-in tool. */
export interface BuiltinTool {
  /** The entry of `tools/list`. */
  readonly definition: Readonly<Record<string, unknown>> & { readonly name: string }
  /** Whether it is listed; `meta_tools` decides if undefined. */
  isListed?(upstream?: string): boolean | undefined
  readonly handle: Handler
}

/** A built-in prompt or resource, which answers `prompts/get` or `resources/read`. */
export interface BuiltinEntry {
  /** The entry of the list; a prompt is identified by its `name`, a resource by its `uri`. */
  readonly definition: Readonly<Record<string, unknown>>
  /** Whether it is listed; `meta_tools` decides if absent. If given, the entry exists even with `meta_tools: off`. */
  readonly isListed?: boolean
  /** Whether it answers for a name or URI besides its own. */
  matches?(name: string): boolean
  readonly handle: Handler
}

/** A page of the gateway: its params are the query, and its result is a `Page`. */
export interface BuiltinPage extends DocumentPath {
  readonly handle: Handler
}

/** A path whose requests are calls: the response is the result as JSON, or the `stream` of the call. */
export interface BuiltinRoute extends RoutePath {
  readonly handle: Handler
}

/** A path about bytes: its requests are calls without params, and with the `exchange` by which the handler reads and answers. */
export interface ByteRoute extends BytePath {
  readonly handle: Handler
}

/** The result of reading a page. */
export interface Page {
  readonly text: string
  /** Its media type. */
  readonly type: string
  /** How long it may be cached, in seconds. */
  readonly maxAge: number
  /** The text without volatile numbers; the page counts as unchanged while this is the same. */
  readonly lasting?: string
  /** Further headers of the response. */
  readonly headers?: Readonly<Record<string, string>>
  /** The text is the content of a page for people, in the frame of all pages. */
  readonly frame?: PageFrame
}

/** Everything a feature may use. */
export interface Services {
  readonly log: Log
  readonly store: Store
  /** What outlives a reload. */
  readonly scope: Pick<ProcessScope, 'once'>
  readonly servers: ServerDirectory
  readonly invoker: Invoker
  readonly descriptions: DescriptionService
  readonly identity: Identity
  readonly pages: PageDirectory
  readonly features: FeatureDirectory
  readonly gateway: GatewayContext
  readonly metrics: FeatureMetrics
  readonly audit: AuditedOrders
}

/** Records what people order, in the audit log if there is one. */
interface AuditedOrders {
  ordered(step: OrderStep): void
}

/** What features count; the counts outlast a reload of the configuration. */
interface FeatureMetrics {
  /** An attempt to deliver an event by a webhook: its outcome, and how long after the event it was accepted. */
  delivered(outcome: string, lagSeconds?: number): void
  /** An attempt to tell people by a channel that a call waits, or its end. */
  notified(channel: string, outcome: string): void
  /** References that were kept, used, refused or deleted. */
  referenced(outcome: ReferenceOutcome, count?: number): void
}

/**
 * What happens to references: data that expired or was never finished is `deleted`; `refused` ones are unknown, not
 * permitted, or do not fit.
 */
type ReferenceOutcome = 'kept' | 'not_kept' | 'used' | 'refused' | 'deleted'

/** The upstream servers: their settings, and what is known about them and their tools. */
export interface ServerDirectory {
  /** The names of all servers. */
  names(): readonly string[]
  /** The settings of a server. */
  settings(upstream: string): UpstreamSettings | undefined
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
  /** Whether a tool restores exactly what is read before it, as it was proved. @throws what listing throws */
  isUndoProved(upstream: string, tool: string): Promise<boolean>
  /** The same, given all tools of its server. */
  isUndoProvedAmong(entry: Descriptor, all: readonly Descriptor[]): boolean
  /** Whether `gatehouse plan --write` would configure an undo for a tool. @throws what listing throws */
  isUndoProposed(upstream: string, tool: string): Promise<boolean>
  /** The name of a tool for clients, at the address of its server or at the address of all servers. */
  exposedName(upstream: string, tool: string, isTogether: boolean): string
  /** The name of a type of events of a server at the address of all servers. */
  exposedEvent(upstream: string, event: string): string
  /** The URI of a resource of a server for clients at the address of all servers. */
  exposedUri(upstream: string, uri: string): string
  /** The URI on its server of one that `exposedUri` made; undefined for the URIs of other servers. */
  ownUri(upstream: string, exposed: string): string | undefined
  /** The longest silence and the longest duration of a call of a tool, in milliseconds. */
  callBounds(upstream: string, tool: string): { readonly silence: number; readonly total: number }
  /** The largest result of a server, in bytes; infinite if nothing limits it. */
  resultLimit(upstream: string): number
  /** The records of all servers. Calls are sampled for them from the first use on. */
  records(): ServerRecords
  /** The remaining quota that a server reported for its own limit. */
  quota(upstream: string): Quota | undefined
  /** The context in which its server would run a call now; undefined if it keeps none, or none is open. */
  contextOf(call: Call): ServerContext | undefined
  /** What a server says of itself: the result of `server/discover`. @throws SERVER_UNAVAILABLE */
  discovered(upstream: string): Promise<Readonly<Record<string, unknown>>>
  /** Calls a listener whenever a server can be reached again, or cannot be reached any more. */
  onReachable(listener: (upstream: string, isReachable: boolean) => void): void
}

/** Makes calls. */
interface Invoker {
  /** Makes a call through the whole chain of its target. */
  readonly call: Handler
  /** Makes a call at its server, through the chain of its target, past the gateway's built-ins. */
  relay: Handler
  /**
   * Resolves if the caller is permitted to make a call of a tool, which is not made (`isPermitted` in `own-calls.ts`).
   * @throws why not, or why that is not known, which is then transient
   */
  admit(call: Call): Promise<void>
  /**
   * A caller that the gateway stored, with the rights that it has in the present configuration.
   * @throws FORBIDDEN if it has no such caller any more
   */
  present(principal: Principal): Principal
  /** Logs, counts and audits the end of a call that goes on after its response. */
  observeRest(call: Call, rest: Promise<Outcome>): void
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
  /** Encrypts texts that callers keep, for all gateways that share the store. */
  readonly seal: Seal
  /** Signs claims with the gateway's own key: a JWS in compact form (RFC 7515). */
  sign(claims: Readonly<Record<string, unknown>>): Promise<string>
  /** The proof for a gateway in front that this gateway is the expected one; undefined if it expects another. */
  prove(challenge: Challenge): Promise<string | undefined>
}

/** The gateway's own pages and commands, as people reach them. */
export interface PageDirectory {
  /** The URL of the page at a path; undefined where the gateway serves no pages. */
  url(path: string): string | undefined
  /** Where an approval can be decided. */
  decisionChannels(approval: Approval): DecisionChannels
}

/** Where an approval can be decided. */
export interface DecisionChannels {
  /** The page of the approval; undefined if no one can decide there. */
  readonly url: string | undefined
  /** Whether a person can decide there in a browser, or only a program with a token. */
  readonly isForPeople: boolean
  /** Whether a person can decide at the command line, where it can read the store. */
  readonly isAtTerminal: boolean
}

/** The features together, for those that speak of one another. */
interface FeatureDirectory {
  /** Whether a feature is on, for one server or at all. */
  isOn(feature: string, upstream?: string): boolean
  /** What the features that are on for a server, or at all, offer at a point, in the order of the chain. */
  offered<Offered>(point: ExtensionPoint<Offered>, upstream?: string): readonly Offered[]
  /** The layers around calls of the features that are on for a server, outermost first. */
  layers(upstream?: string): readonly CallLayer[]
}

/** This gateway as a whole. */
interface GatewayContext {
  /** The whole configuration, for what does not belong to a single feature or server. */
  readonly settings: Settings
  /** Aborted when the gateway closes: later failures may be due to that. */
  readonly closing: AbortSignal
  /** Knows the secrets of the gateway. */
  readonly redactor: Redactor
  /** Reads a JSON object from a foreign URL over HTTPS, bounded in time and size. @throws */
  fetchJson(url: string): Promise<Readonly<Record<string, unknown>>>
  /** The proxies for requests to other services. */
  readonly proxies: FindProxy
}

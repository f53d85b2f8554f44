/** What features offer to others: each extension point, and how what is offered there is used. */
import type { Call, Middleware, Target } from '../core/call.ts'
import type { Descriptor, RemainingQuota, ToolFacts } from '../core/descriptor.ts'
import type { GatewayError } from '../core/error.ts'
import type { Payload } from '../core/payload.ts'
import type { Principal } from '../core/principal.ts'
import type { Action, ActionFilter } from '../records/actions.ts'
import type { ShownChange } from '../records/approvals.ts'
import type { Chosen, PlanChange, PresentState } from '../records/rewind-plan.ts'
import type { RewindOrder, RewindProgress } from '../records/rewinds.ts'
import { extensionPoint, type Services } from './feature.ts'

type JsonSchema = Readonly<Record<string, unknown>>
type Deps = Pick<Services, 'features'>

/** Facts about a tool, given all tools of its server, for descriptions. */
export const toolFacts = extensionPoint<(entry: Descriptor, all: readonly Descriptor[]) => ToolFacts>()

/** Which process of those that share the store has what a call relies on. */
export const placing = extensionPoint<Placing>()

export interface Placing {
  /** Whether that may matter, for a call as its client sent it; nearly none needs to be placed. */
  isConcerned(call: Call): boolean
  /** The id of the process, for a call as its server receives it; undefined if any process can make it. @throws SERVER_UNAVAILABLE */
  placeOf(call: Call): Promise<string | undefined>
}

/** How many operations this process runs, by state. */
export const operationCounts = extensionPoint<() => Readonly<Record<string, number>>>()

/** Whether calls of a server are refused because it failed; undefined where that does not happen. */
export const circuits = extensionPoint<(upstream: string) => CircuitView | undefined>()

/** What keeps calls from a server that fails. */
export interface CircuitView {
  /** How many calls failed since one succeeded. */
  readonly failures: number
  /** How long calls are still refused, in milliseconds; 0 if they are not. */
  wait(): number
  /** Lets calls through again. */
  succeed(): void
}

/** The types of events of a server, or those of none, that no tool has; some callers may have no right to them. */
export const eventTypes = extensionPoint<(upstream: string | undefined) => readonly DescribedEventType[]>()

/** A type of events in descriptions, as it is named at the address of its server. */
export interface DescribedEventType {
  readonly name: string
  readonly description: string
}

/** What the events that the configuration declares would be found in now, for `gatehouse check`. */
export const eventTrials = extensionPoint<() => Promise<readonly EventTrial[]>>()

/** What one call for a declared event found. */
export interface EventTrial {
  /** The event in the configuration, and the server that was called. */
  readonly path: readonly string[]
  readonly server: string
  /** What it found; or why it would find nothing, and where the mistake is. */
  readonly found:
    | { readonly items: number; readonly ids: readonly string[] }
    | { readonly problem: string; readonly key: string }
}

/** Resolves once the state that an action left has been recorded, by the key of the action; without one, all of them. Never throws. */
export const recordingStates = extensionPoint<(key?: string) => Promise<void>>()

/** Reads what is there now where actions left a state, by the keys of the actions. Never throws. */
export const presentStates =
  extensionPoint<(actions: readonly Action[]) => Promise<ReadonlyMap<string, PresentState>>>()

/** Plans to undo what was done since a point in time, for pages and tools of the gateway. */
export const rewinding = extensionPoint<Rewinding>()

export interface Rewinding {
  /**
   * Plans, and keeps the plan for an hour; the present states are read. @throws RESOURCE_NOT_FOUND without an action `from`,
   * INVALID_INPUT for a server that is not configured, PAYLOAD_TOO_LARGE
   */
  plan(filter: ActionFilter): Promise<RewindPlan>
  /**
   * Carries a plan out: resolves once that has begun, or with another plan and the difference if it has changed meanwhile; then
   * nothing is done. A plan is carried out once, however often that is ordered. @throws RESOURCE_NOT_FOUND
   */
  carryOut(id: string, order: RewindOrder): Promise<{ readonly id: string } | ChangedPlan>
  /** How far a plan has got that is carried out, by any gateway; undefined if there is none. */
  progress(id: string): Promise<RewindProgress | undefined>
}

/** A plan, in the order in which actions are undone. */
export interface RewindPlan {
  readonly id: string
  readonly madeAt: number
  readonly actions: readonly Chosen[]
}

/** The plan of now in place of the one that was to be carried out, and how it differs from that. */
export interface ChangedPlan {
  readonly plan: RewindPlan
  readonly changes: readonly PlanChange[]
}

/** What can be said before a call about its undo. */
export const callUndos = extensionPoint<CallUndo>()

export interface CallUndo {
  /** What a call of a tool would change, as far as reads show it. Never throws. */
  preview(call: Call, tool: Descriptor): Promise<ShownChange | undefined>
  /** Whether calls of a tool can be secured, as far as that is known without a call, given all tools of its server. */
  canSecure(tool: Descriptor, all: readonly Descriptor[]): boolean
  /** The same, for a call that is not made. Never throws. */
  couldSecure(tool: Descriptor): Promise<boolean>
  /**
   * Records what undoes a call exactly, before it is sent, so that it can be undone whatever happens after. Resolves with the
   * call to make, once the record is durable; undefined if there is none, so that the call is to be confirmed. Never throws.
   */
  secure(call: Call, tool: Descriptor): Promise<Call | undefined>
}

/** Makes an event of a server known to those who subscribe to it. Never throws. */
export const publishing = extensionPoint<(upstream: string | undefined, event: PublishedEvent) => void>()

/** Publishes an event of a server, or of none, if events are on for it. Never throws. */
export function publish({ features }: Deps, upstream: string | undefined, event: PublishedEvent): void {
  for (const add of features.offered(publishing, upstream)) add(upstream, event)
}

/** The names of what the gateway notices itself. */
export type OwnEventName =
  | 'contract_changed'
  | 'upstream_up'
  | 'upstream_down'
  | 'confirmation_pending'
  | 'transaction_timed_out'
  | 'quota_low'

/** Something that the gateway notices. */
export interface PublishedEvent {
  readonly name: OwnEventName
  readonly data: Readonly<Record<string, unknown>>
  /** The id of the caller that it concerns, who alone receives it; without one, everyone who may reach the server. */
  readonly caller?: string
  /** Publishes it at most once in a time, in milliseconds, for all gateways that share the store. */
  readonly once?: { readonly key: string; readonly for: number }
}

/** How the tools of a server are compared with what was accepted (`gatehouse.lock`); undefined where they are not. */
export const pinning = extensionPoint<(upstream: string) => Pinning | undefined>()

/** How a tool differs from what was accepted. */
export type ToolChange = 'new' | 'changed'

/** One server whose tools are compared with what was accepted. */
export interface Pinning {
  /** Whether tools that are not accepted are held: neither listed nor called. */
  readonly isHolding: boolean
  /** What clients see depends on this: if it is another one after a reload, their lists have changed. */
  readonly shown: string
  /** The tools in its last list that are not accepted, and the same for people. */
  readonly unaccepted: ReadonlyMap<string, ToolChange>
  readonly findings: readonly string[]
  /** How a listed definition differs from the accepted one; undefined if it does not. */
  changeOf(definition: Readonly<Record<string, unknown>>): ToolChange | undefined
  /** Next to the server: compares its lists, and refuses calls of what is held. `find` finds the tool that a call names. */
  atServer(find: (call: Call) => ListedTool | undefined | Promise<ListedTool | undefined>): Middleware
}

/** A tool in the list of its server; `isUnlisted` if the server does not list its tools. */
interface ListedTool {
  readonly definition: Readonly<Record<string, unknown>>
  readonly isUnlisted?: true
}

/** The error object that the caller gets for a failed result or a thrown error. */
export const explaining = extensionPoint<Explain>()

export type Explain = (
  failure: Payload | GatewayError,
  call: Call,
) => Readonly<Record<string, unknown>> | undefined

/** The error object that the caller gets for a failure; undefined where the errors feature is off. */
export function explained({ features }: Deps, ...failure: Parameters<Explain>): ReturnType<Explain> {
  const [explain] = features.offered(explaining, failure[1].target.upstream)
  return explain?.(...failure)
}

/** A value with what is masked in responses of a target replaced. */
export const masking = extensionPoint<(value: unknown, target: Target) => unknown>()

/** A value without what is masked in responses of a target. */
export function masked({ features }: Deps, value: unknown, target: Target): unknown {
  return features.offered(masking, target.upstream).reduce((before, mask) => mask(before, target), value)
}

/** The remaining quota of a caller under a limit: of a tool, a server, or all. Consumes nothing. */
export const remainingQuotas =
  extensionPoint<(target: Target, principal: Principal) => Promise<RemainingQuota | undefined>>()

/**
 * The calls that a caller has left: of a tool, else of a server, else of all; undefined without a limit. Those of its budget
 * if calls have a cost, else of the most restrictive limit of the gateway or the server.
 */
export async function remainingQuota(
  { features, servers }: Pick<Services, 'features' | 'servers'>,
  principal: Principal,
  upstream?: string,
  tool?: string,
): Promise<RemainingQuota | undefined> {
  const target: Target = {
    method: 'tools/call',
    ...(upstream !== undefined && { upstream }),
    ...(tool !== undefined && { name: tool }),
  }
  const limits = await Promise.all(
    features
      .offered(remainingQuotas, upstream)
      // Omitted if the store with the counters is unavailable.
      .map((remaining) => remaining(target, principal).catch(() => undefined)),
  )
  const server = upstream === undefined ? undefined : servers.quota(upstream)
  const all = [
    ...limits.flatMap((each) => each ?? []),
    ...(server ? [{ ...server, of: 'server' } as const] : []),
  ]
  const [lowest] = all.toSorted((one, other) => one.remaining - other.remaining)
  return all.find((each) => each.of === 'budget') ?? lowest
}

/** Values for features that models may write among the arguments of a server's tools, if that is enabled. */
export const modelArguments = extensionPoint<(upstream: string) => readonly Reserved[]>()

/** The values that models may write among the arguments of a server's tools. */
export function reservedFor(upstream: string, { features }: Deps): readonly Reserved[] {
  return features.offered(modelArguments, upstream).flatMap((reserved) => reserved(upstream))
}

/** An argument of tools that carries a value for a feature; a tool's own argument of that name takes precedence. */
export interface Reserved {
  readonly argument: string
  /** The name of the value among those for features. */
  readonly value: string
  /** Its schema in tool lists; where absent, it is not listed. */
  readonly schema?: JsonSchema
  /** The tools that list it; all of them if absent. */
  isFor?(entry: Descriptor): boolean
}

/** Values for features that callers send beside the arguments of a tool; as arguments they have no meaning. */
export const callerValues = extensionPoint<readonly CallerValue[]>()

/** A value for a feature that callers send beside the arguments of a tool. */
export interface CallerValue {
  /** The name of the value among those for features. */
  readonly name: string
  readonly aliases?: readonly string[]
  /** The HTTP header that can carry it. */
  readonly header?: string
}

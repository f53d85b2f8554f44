/**
 * The types of events that a server has through the gateway, where they come from, and how clients learn that they changed.
 * Each source is a file in `sources/`: it says which types a server has for a caller, and appends their events to the log
 * of the server (`server-events.ts`).
 */
import type { Finding } from '../../core/findings.ts'
import type { Call, Middleware, Notification, Outcome, Target } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { asGatewayError, type GatewayError } from '../../core/error.ts'
import { isNumber } from '../../core/json/exact-number.ts'
import { asObject, isObject, isSame } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import type { Principal } from '../../core/principal.ts'
import { schemaChanges } from '../../core/schema/schema-change.ts'
import { fits } from '../../core/text/pattern.ts'
import {
  ACKNOWLEDGED,
  EVENTS_CHANGED,
  memberFor,
  readFilter,
  withFilter,
} from '../../protocol/subscription-filter.ts'
import { callerHash } from '../../records/principal.ts'
import type { BuiltinPage, Services } from '../feature.ts'
import type { ArrivingHook, HookAnswer } from '../../core/http-paths.ts'
import type { DescribedEventType, EventTrial } from '../offers.ts'
import { otherCall } from '../own-calls.ts'
import { notFound, schemaChanged } from './errors.ts'
import type { LoggedEvent, ServerEvents } from './server-events.ts'
import type { Writes } from '../settings/effect.ts'

export type Fields = Readonly<Record<string, unknown>>

/** What a source works with. */
export interface SourceContext {
  readonly deps: Services
  /** The log of a server; that of events that belong to no server where it is undefined. */
  events(upstream: string | undefined): ServerEvents
  /** The servers whose events are on. */
  upstreams(): readonly string[]
  /** Whose successful calls of the tools of a server are events. */
  writes(upstream: string): Writes
}

/** A source of events: a file in `sources/`, and a line in the table of `events.ts`. */
export interface EventSource {
  /** What the events come from, as `events/list` names it. */
  readonly name: string
  /**
   * The types that a server has; those of no server where it is undefined. Rights are checked later, by `mayReceive`.
   * @throws what listing throws
   */
  types(upstream: string | undefined, call: Call): readonly EventType[] | Promise<readonly EventType[]>
  /** Those of a server that all its callers may have, apart from those of its tools, for descriptions. */
  described?(upstream: string | undefined): readonly DescribedEventType[]
  /** The name of the events that the calls of a tool are, for descriptions. */
  eventOf?(tool: Descriptor): string | undefined
  /** Wraps the calls of a tool of a server. */
  middleware?(target: Target & { readonly upstream: string }): Middleware | undefined
  /** Forgets the types of all servers, which may have changed. */
  forget?(): void
  /** Accepts a webhook; undefined if it is for another source. @throws GatewayError if it is refused */
  receive?(hook: ArrivingHook): Promise<HookAnswer> | undefined
  readonly pages?: readonly BuiltinPage[]
  /** Conflicts of the settings with what servers list. */
  problems?(): Promise<readonly Finding[]>
  /** What the events that the configuration declares would be found in now. */
  trials?(): Promise<readonly EventTrial[]>
  close?(): Promise<void>
}

/** What decides on the delivery of an event: who caused it, and its data. */
type ReceivableEvent = Pick<LoggedEvent, 'by' | 'data'>

/** A type of events. */
export interface EventType {
  /** The server; undefined for events that belong to no server. */
  readonly upstream: string | undefined
  /** The name in the log of the server. */
  readonly name: string
  readonly description: string
  /** The arguments of a subscription: each narrows the events to those with this value. */
  readonly inputSchema: Fields
  readonly payloadSchema: Fields
  /** The data as its clients receive it now, if that differs from what the log keeps: without what is masked since. */
  present?(data: Fields): Fields
  /** Whether a subscription with these arguments requests an event of this type. */
  isRequested(given: Fields, event: LoggedEvent): boolean
  /** Whether events may be missing before an entry of the log, for a subscription with these arguments. */
  isGap?(given: Fields, entry: LoggedEvent): boolean
  /** The error that ended what a subscription with these arguments receives, if an entry of the log says so. */
  endOf?(given: Fields, entry: LoggedEvent): GatewayError | undefined
  /**
   * Whether a caller may receive an event now; without data, whether it may have the type at all.
   * @throws why that is not known
   */
  mayReceive(event: ReceivableEvent, call: Call): boolean | Promise<boolean>
  /**
   * Retains the source of these events for a while; resolves once it is open, or takes too long.
   * @throws QUOTA_EXHAUSTED, and the error with which a server refuses to send them
   */
  retain?(given: Fields, principal: Principal): Promise<void>
}

/** The members of a type whose events are those of everyone with access to the server, narrowed by their data. */
export const forEveryone: Pick<EventType, 'isRequested' | 'mayReceive'> = {
  isRequested: (given, { data }) => hasFields(data, given),
  mayReceive: () => true,
}

/** The members of a type whose events only the caller that caused them receives. */
export const forItsCaller: Pick<EventType, 'isRequested' | 'mayReceive'> = {
  isRequested: (given, { data }) => hasFields(data, given),
  mayReceive: ({ by }, { principal }) => isBy(by, principal),
}

/** Whether an event was caused by a caller, or by none. */
export function isBy(by: string | undefined, { id }: Principal): boolean {
  return by === undefined || by === callerHash(id)
}

/** Whether data has the values of a filter: each an equal one, one of a list, or a text with `*`. */
export function hasFields(data: unknown, filter: Fields): boolean {
  const fields = asObject(data)
  return Object.entries(filter).every(([name, value]) => {
    const actual = Object.hasOwn(fields, name) ? fields[name] : undefined
    return [value].flat().some((each) => isMatch(each, actual))
  })
}

function isMatch(pattern: unknown, actual: unknown): boolean {
  if (typeof pattern === 'string' && typeof actual === 'string') return fits(pattern, actual)
  return pattern === actual || (isNumber(pattern) && isNumber(actual) && isSame(pattern, actual))
}

/** Schemas of arguments that narrow events by the values of fields. */
export function filterSchema(fields: readonly string[]): Fields {
  const filters = fields.map((field) => {
    return [field, { description: 'A value, or a list of values; * in a text stands for any text.' }] as const
  })
  return { type: 'object', properties: Object.fromEntries(filters), additionalProperties: false }
}

/** The names of the members that the schema of an object describes. */
export function propertiesOf({ properties }: Fields): readonly string[] {
  return isObject(properties) ? Object.keys(properties) : []
}

/** The names of the members that the schema of an object requires. */
export function requiredOf({ required }: Fields): readonly string[] {
  return Array.isArray(required) ? required.map(String) : []
}

/** Whether a caller may make a call of a server now. The call is not made. @throws why that is not known */
export async function mayCall(
  call: Call,
  target: Target & { readonly upstream: string },
  params: Fields,
  { invoker }: Pick<Services, 'invoker'>,
): Promise<boolean> {
  try {
    await invoker.admit({ ...otherCall(call, target, Payload.of(params)), emit: () => undefined })
    return true
  } catch (error) {
    // An event would be lost to its caller if its server cannot be asked for a while.
    if (asGatewayError(error).category === 'transient') throw error
    return false
  }
}

// What there is at an address

/** What requests are answered from. */
export interface EventCatalog {
  readonly deps: Pick<Services, 'log' | 'servers' | 'identity' | 'invoker'>
  readonly sources: readonly EventSource[]
  /** The servers whose events are on, among all. */
  upstreams(): readonly string[]
  /** The events of a server; those that belong to no server where it is undefined. */
  events(upstream: string | undefined): ServerEvents
}

/** A type with the name that it has at the address of the call. */
export interface NamedType {
  readonly name: string
  readonly type: EventType
  /** The name of its source. */
  readonly source: string
}

/** The types of events that a caller may have at the address of its call, sorted by name. @throws if no server can be asked */
export async function typesFor(call: Call, catalog: EventCatalog): Promise<readonly NamedType[]> {
  const found = await listTypes(call, catalog)
  const [first] = found.flatMap(({ failures }) => failures)
  if (first !== undefined && found.every(({ failures }) => failures.length > 0)) throw first.reason
  const types = found.flatMap((each) => (each.failures.length === 0 ? each.types : []))
  const isListed = await Promise.all(
    types.map(async ({ type }) => type.mayReceive({ data: {} }, call)).map((may) => may.catch(() => false)),
  )
  return types
    .filter((_type, index) => isListed[index])
    .toSorted((one, other) => one.name.localeCompare(other.name))
}

/** The types of names at the address of a call, whether its caller may have them or not. @throws if that is not known */
export async function findTypes(
  names: readonly string[],
  call: Call,
  catalog: EventCatalog,
): Promise<readonly (NamedType | undefined)[]> {
  const found = await listTypes(call, catalog)
  const types = found.flatMap((each) => each.types)
  const [failure] = found.flatMap(({ failures }) => failures)
  return names.map((name) => {
    const type = types.find((each) => each.name === name)
    if (!type && failure) throw failure.reason
    return type
  })
}

/** What each server has, and what could not be asked. */
function listTypes(call: Call, { deps, sources, upstreams }: EventCatalog) {
  const { upstream } = call.target
  const isTogether = upstream === undefined
  const nameOf = (type: EventType): string =>
    isTogether && type.upstream !== undefined
      ? deps.servers.exposedEvent(type.upstream, type.name)
      : type.name
  // The only server has the address of all of them.
  const isAll = isTogether || deps.servers.names().length === 1
  const names = [...(isTogether ? upstreams() : [upstream]), ...(isAll ? [undefined] : [])]
  return Promise.all(
    names.map(async (each) => {
      const found = await Promise.allSettled(
        sources.map(async (source) => {
          return (await source.types(each, call)).map((type) => ({ type, source: source.name }))
        }),
      )
      const types = found.flatMap((result) => (result.status === 'fulfilled' ? result.value : []))
      return {
        types: withoutShadowed(types).map(({ type, source }) => ({ name: nameOf(type), type, source })),
        failures: found.filter((result) => result.status === 'rejected'),
      }
    }),
  )
}

/** The types of all sources of a server. An earlier source takes precedence if two have the same name. */
function withoutShadowed<Each extends Pick<NamedType, 'type'>>(types: readonly Each[]): readonly Each[] {
  const byName = new Map<string, Each>()
  for (const each of types) if (!byName.has(each.type.name)) byName.set(each.type.name, each)
  return [...byName.values()]
}

/** A type that was found before as it is now, or the error that ends subscriptions to it. @throws if that is not known */
export async function presentType(
  name: string,
  before: NamedType | undefined,
  call: Call,
  catalog: EventCatalog,
): Promise<NamedType | GatewayError> {
  const [found] = await findTypes([name], call, catalog)
  if (!found) return notFound('event')
  return (before && breakOf(before, found)) ?? found
}

// Changes of types

/**
 * Why a subscription to a type ends whose schemas are others now; undefined if they are the same, or only have additions.
 */
function breakOf(before: NamedType, after: NamedType): GatewayError | undefined {
  // While a server cannot be asked for its own type, one of the gateway can have its name.
  if (before.source !== after.source) return undefined
  const [one, other] = [before.type, after.type]
  if (isBreaking(one.inputSchema, other.inputSchema, 'input')) return schemaChanged('inputSchema')
  const isOtherData = isBreaking(one.payloadSchema, other.payloadSchema, 'output')
  return isOtherData ? schemaChanged('payloadSchema') : undefined
}

function isBreaking(before: unknown, after: unknown, side: 'input' | 'output'): boolean {
  return before !== after && schemaChanges(before, after, side).some(({ level }) => level === 'major')
}

/** The clients that listen to changes of types. */
export class TypeChanges {
  readonly #isOn: (call: Call) => boolean
  readonly #onChange: () => void
  readonly #listeners = new Set<() => void>()

  /** `isOn`: whether the gateway has events at the address of a call. `onChange` is called before clients are notified. */
  constructor(isOn: (call: Call) => boolean, onChange: () => void) {
    this.#isOn = isOn
    this.#onChange = onChange
  }

  /** Wraps the requests with which clients listen. */
  readonly subscribe: Middleware = (next) => (call) => {
    const listens = readFilter(call.params).eventsListChanged === true && this.#isOn(call)
    return listens ? this.#listen(call, next) : next(call)
  }

  /** All types may have changed: another configuration takes over. */
  close(): void {
    for (const notify of this.#listeners) notify()
  }

  async #listen(call: Call, next: (call: Call) => Promise<Outcome>): Promise<Outcome> {
    const notify = (): void => call.emit({ method: EVENTS_CHANGED })
    const { toolsListChanged: wantsTools = false } = readFilter(call.params)
    const emit = (note: Notification): void => {
      if (note.method === ACKNOWLEDGED) {
        // Changed tools are accepted only if the client listens to them.
        const accepted = { eventsListChanged: true, ...(!wantsTools && { toolsListChanged: undefined }) }
        call.emit({ ...note, params: withFilter(note.params, accepted) })
        // Nothing may come before the acknowledgement (2026-07-28 basic/utilities/subscriptions).
        this.#listeners.add(notify)
        return
      }
      const member = memberFor(note.method)
      const isOfTools = member === 'toolsListChanged'
      const isOfTypes = isOfTools || member === 'eventsListChanged'
      if (!isOfTypes || (isOfTools && wantsTools)) call.emit(note)
      if (!isOfTypes) return
      this.#onChange()
      notify()
    }
    try {
      return await next({ ...call, params: withFilter(call.params, { toolsListChanged: true }), emit })
    } finally {
      this.#listeners.delete(notify)
    }
  }
}

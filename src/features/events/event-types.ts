/**
 * The types of events that a server has through the gateway, and the sources that they come from. Each source is a file
 * in `sources/`: it says which types a server has for a caller, and appends their events to the log of the server.
 */
import type { Call } from '../../core/call.ts'
import { asGatewayError, type GatewayError } from '../../core/error.ts'
import { isNumber } from '../../core/json/exact-number.ts'
import { isObject, isSame } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import type { Principal } from '../../core/principal.ts'
import { fits } from '../../core/text/pattern.ts'
import { callerHash } from '../../records/principal.ts'
import type { Services } from '../feature.ts'
import type { DescribedEventType } from '../offers.ts'
import type { LoggedEvent } from './server-events.ts'

export type Fields = Readonly<Record<string, unknown>>

/** A source of events. */
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
  close?(): void
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
  isRequested(wanted: Fields, event: LoggedEvent): boolean
  /** Whether events may be missing before an entry of the log, for a subscription with these arguments. */
  isGap?(wanted: Fields, entry: LoggedEvent): boolean
  /** The error that ended what a subscription with these arguments receives, if an entry of the log says so. */
  endOf?(wanted: Fields, entry: LoggedEvent): GatewayError | undefined
  /**
   * Whether a caller may receive an event now; without data, whether it may have the type at all.
   * @throws why that is not known
   */
  mayReceive(event: ReceivableEvent, call: Call): boolean | Promise<boolean>
  /**
   * Keeps the source of these events open for a while; resolves once it is open, or takes too long.
   * @throws QUOTA_EXHAUSTED, and the error with which a server refuses to send them
   */
  keep?(wanted: Fields, principal: Principal): Promise<void>
  /** Why the source yields no events at present, as far as this process knows. */
  failure?(): GatewayError | undefined
}

/** The members of a type whose events are those of everyone with access to the server, narrowed by their data. */
export const forEveryone: Pick<EventType, 'isRequested' | 'mayReceive'> = {
  isRequested: (wanted, { data }) => hasFields(data, wanted),
  mayReceive: () => true,
}

/** The members of a type whose events only the caller that caused them receives. */
export const forItsCaller: Pick<EventType, 'isRequested' | 'mayReceive'> = {
  isRequested: (wanted, { data }) => hasFields(data, wanted),
  mayReceive: ({ by }, { principal }) => isBy(by, principal),
}

/** Whether an event was caused by a caller, or by none. */
export function isBy(by: string | undefined, { id }: Principal): boolean {
  return by === undefined || by === callerHash(id)
}

/** Whether fields have the wanted values: each an equal one, one of a list, or a text with `*`. */
export function hasFields(fields: unknown, wanted: Fields): boolean {
  const given = isObject(fields) ? fields : {}
  return Object.entries(wanted).every(([field, value]) => {
    const actual = Object.hasOwn(given, field) ? given[field] : undefined
    return [value].flat().some((each) => isMatch(each, actual))
  })
}

function isMatch(wanted: unknown, actual: unknown): boolean {
  if (typeof wanted === 'string' && typeof actual === 'string') return fits(wanted, actual)
  return wanted === actual || (isNumber(wanted) && isNumber(actual) && isSame(wanted, actual))
}

/** Schemas of arguments that narrow events by the values of fields. */
export function filterSchema(fields: readonly string[]): Fields {
  const filters = fields.map((field) => {
    return [field, { description: 'A value, or a list of values; * in a text stands for any text.' }] as const
  })
  return { type: 'object', properties: Object.fromEntries(filters), additionalProperties: false }
}

/** Whether a caller may make a call of a server now. The call is not made. @throws why that is not known */
export async function isPermitted(
  call: Call,
  target: { readonly upstream: string; readonly method: string; readonly name?: string },
  params: Fields,
  { invoker }: Pick<Services, 'invoker'>,
): Promise<boolean> {
  // The members that belong to the method of the call mean nothing here.
  const { inputResponses: _responses, ...rest } = call
  const { method } = target
  const asked = { ...rest, emit: () => undefined, method, target, params: Payload.of(params) }
  try {
    await invoker.admit(asked)
    return true
  } catch (error) {
    // An event would be lost to its caller if its server cannot be asked for a while.
    if (asGatewayError(error).category === 'transient') throw error
    return false
  }
}

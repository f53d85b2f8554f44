/**
 * What a subscription of `event/subscribe` selects: some types of events, and a filter that all of their events pass.
 * A type is a request of its own, so that it is read, and its rights are checked, as for the other methods.
 */
import type { Call } from '../../../core/call.ts'
import { GatewayError } from '../../../core/error.ts'
import { isObject } from '../../../core/json/json.ts'
import { type EventType, type Fields, hasFields } from '../event-types.ts'
import { type EventRequest, findTypes, type NamedType, type Parts, typesFor } from '../requests.ts'

/** The names of the types, and the filter. */
export interface Selection {
  readonly events: readonly string[]
  readonly filter: Fields
}

/** The requests for a selection, as far as its caller may have it. */
export interface FoundRequests {
  readonly requests: readonly EventRequest[]
  /** The names that the caller does not have. */
  readonly unknown: readonly string[]
  /** Whether none of the names is one of a type, whoever may have it. */
  readonly isGone: boolean
}

/** The same, for an answer. */
export interface Selected extends FoundRequests {
  /** All names that the caller has. */
  readonly supported: readonly string[]
}

/** How many values one field of a filter may have. */
const MAX_VALUES = 50

/** What a selection selects, and what else there is. @throws what `findRequests` throws */
export async function select(selection: Selection, call: Call, parts: Parts): Promise<Selected> {
  const found = await findRequests(selection, call, parts)
  // Only a hint: a server that cannot be asked now does not end subscriptions to what is known.
  const supported = await typesFor(call, parts).catch(() => [])
  return { ...found, supported: supported.map(({ name }) => name) }
}

/** The requests for a selection. @throws INVALID_INPUT for a filter that does not fit, and what listing throws */
export async function findRequests(
  { events, filter }: Selection,
  call: Call,
  parts: Parts,
): Promise<FoundRequests> {
  const types = await findTypes(events, call, parts)
  const requests: EventRequest[] = []
  const unknown: string[] = []
  for (const [index, name] of events.entries()) {
    const found = types[index]
    const own = found ? requestsFor(found, filter) : []
    const may = await Promise.all(
      own.map(async ({ type, arguments: data }) => type.mayReceive({ data }, call)),
    )
    requests.push(...own.filter((_request, index) => may[index]))
    // A resource that the caller may not read is like an unknown type, so that callers do not learn what there is.
    if (may.length === 0 || may.includes(false)) unknown.push(name)
  }
  return { requests, unknown, isGone: types.every((type) => type === undefined) }
}

/** The fields of the events of a type that a filter can name. */
export function fieldsOf({ inputSchema, payloadSchema }: EventType): readonly string[] {
  return [...new Set([...propertiesOf(inputSchema), ...propertiesOf(payloadSchema)])]
}

/** One request for a type, or one for each value of a field that the type needs. @throws INVALID_INPUT */
function requestsFor(named: NamedType, filter: Fields): readonly EventRequest[] {
  const { type } = named
  checkFields(named, filter)
  const isInput = inputsOf(type)
  const required = requiredOf(type.inputSchema)
  const entries = Object.entries(filter)
  const optional = Object.fromEntries(entries.filter(([field]) => isInput(field)))
  const payload = Object.fromEntries(entries.filter(([field]) => !isInput(field)))
  const narrowed: EventType = {
    ...type,
    isRequested: (wanted, event) => type.isRequested(wanted, event) && hasFields(event.data, payload),
  }
  let given: readonly Fields[] = [optional]
  for (const field of required) {
    const values = exactValues(field, filter[field], named.name)
    given = given.flatMap((each) => values.map((value) => ({ ...each, [field]: value })))
  }
  return given.map((each) => ({ ...named, type: narrowed, arguments: each, from: 'now', notBefore: 0 }))
}

/** The values of a field that says what a server is asked for, so that no pattern is possible. @throws INVALID_INPUT */
function exactValues(field: string, given: unknown, name: string): readonly string[] {
  const values: readonly unknown[] = [given].flat()
  const exact = values.filter((value) => typeof value === 'string')
  if (given === undefined) throw invalid(`filter.${field}`, `is required for ${name}`)
  const isExact = exact.length === values.length && !exact.some((value) => value.includes('*'))
  if (!isExact || exact.length === 0 || exact.length > MAX_VALUES)
    throw invalid(`filter.${field}`, `must be a text without *, or a list of at most ${MAX_VALUES} of them`)
  return exact
}

/**
 * Whether a field of a filter is one by which events of a type are requested; others are compared with what events say.
 * Where a type takes any field, that is every one that no event of it has at its top.
 */
function inputsOf({ inputSchema, payloadSchema }: EventType): (field: string) => boolean {
  const [inputs, payload] = [propertiesOf(inputSchema), propertiesOf(payloadSchema)]
  const isOpen = inputSchema.additionalProperties === true
  return (field) => inputs.includes(field) || (isOpen && !payload.includes(field))
}

function checkFields({ name, type }: NamedType, filter: Fields): void {
  if (type.inputSchema.additionalProperties === true) return
  const known = fieldsOf(type)
  const unknown = Object.keys(filter).find((field) => !known.includes(field))
  if (unknown === undefined) return
  const names = known.length > 0 ? `These are known: ${known.join(', ')}.` : 'It has none.'
  throw invalid(
    `filter.${unknown.slice(0, 64)}`,
    `is not a field of ${name}. ${names.slice(0, 1000)} Subscribe to events with different fields separately.`,
  )
}

function propertiesOf({ properties }: Fields): readonly string[] {
  return isObject(properties) ? Object.keys(properties) : []
}

function requiredOf({ required }: Fields): readonly string[] {
  return Array.isArray(required) ? required.map(String) : []
}

/** The error for a parameter that cannot be used. */
export function invalid(field: string, why: string): GatewayError {
  const end = why.endsWith('.') ? '' : '.'
  return new GatewayError('INVALID_INPUT', `Invalid params: ${field} ${why}${end}`, {
    field,
    reason: 'invalid',
  })
}

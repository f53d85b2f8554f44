/**
 * Subscriptions that the gateway keeps for its callers: what they select, and up to where their events were sent. Such a
 * subscription belongs to one caller and one address; its id is no secret and gives no right.
 *
 * A subscription selects some types of events, and a filter that all of their events pass. Each type is a request of its
 * own (`follower.ts`).
 */
import { GatewayError } from '../../core/error.ts'
import type { Call } from '../../core/call.ts'
import { canonical, asObject, isObject, readJson } from '../../core/json/json.ts'
import type { Seal, SealUse } from '../../core/seal.ts'
import { world } from '../../core/world.ts'
import { isBefore } from '../../durable/log.ts'
import type { EventSubscriptions, SubscriptionRecord } from '../../records/event-subscriptions.ts'
import { invalid, unknownField } from './errors.ts'
import type { EventRequest, Positions } from './follower.ts'
import {
  type EventCatalog,
  type EventType,
  type Fields,
  findTypes,
  hasFields,
  type NamedType,
  propertiesOf,
  requiredOf,
} from './types.ts'

/** A subscription of a caller. */
export interface Subscription extends Selection {
  readonly record: SubscriptionRecord
  /** Up to where its events were sent. */
  readonly positions: Positions
}

/** Marks the records of these subscriptions: their clients fetch the events, or have a stream. */
const ADDRESS = 'client'
/** The name of subscriptions to several types. */
const SEVERAL = '*'

const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i
/** What clients call their subscriptions; the ids of other subscriptions are hashes after `sub_`. */
const ID = /^(?!sub_[\w-]{32}$)\w[\w.:-]{0,127}$/

/** What a client subscribes to. */
export interface SubscriptionOrder extends Selection {
  readonly id: string
  /** How long it lasts, in milliseconds. */
  readonly ttl: number
}

/** An id as it is stored; undefined if no subscription of these clients can have it. */
export function storedId(id: string): string | undefined {
  if (UUID.test(id)) return id.toLowerCase()
  return ID.test(id) ? id : undefined
}

/** The subscription with the id in a call, or with the given one. @throws RESOURCE_NOT_FOUND, INVALID_INPUT */
export async function findSubscription(
  call: Call,
  subscriptions: EventSubscriptions,
  id: unknown = call.params.fields.subscription_id,
): Promise<Subscription> {
  if (typeof id !== 'string') throw invalid('subscription_id', 'must be a string')
  const found = await findOwn(call, subscriptions, id)
  if (found) return found
  throw new GatewayError('RESOURCE_NOT_FOUND', 'There is no subscription with this id.', {
    field: 'subscription_id',
    reason: 'unknown',
    data: { kind: 'subscription' },
    suggestion: 'Subscribe to the events again.',
  })
}

/** The same, undefined if the caller has none with this id at this address. @throws SERVER_UNAVAILABLE */
export async function findOwn(
  { principal, target }: Call,
  subscriptions: EventSubscriptions,
  id: string,
): Promise<Subscription | undefined> {
  const stored = storedId(id)
  const record = stored === undefined ? undefined : await subscriptions.find(principal, stored)
  if (!record || !isClientSubscription(record) || record.upstream !== target.upstream) return undefined
  return asSubscription(record)
}

/** Whether a record is one of these subscriptions. */
export function isClientSubscription({ address }: SubscriptionRecord): boolean {
  return address === ADDRESS
}

/** A record as a subscription. */
export function asSubscription(record: SubscriptionRecord): Subscription {
  const { events, filter } = record.arguments
  return {
    record,
    events: Array.isArray(events) ? events.map(String) : [],
    filter: asObject(filter),
    positions: parsePositions(record.watermark),
  }
}

/**
 * Stores a subscription, or renews one; its events begin at the given positions, where it has none yet.
 * @throws QUOTA_EXHAUSTED, INVALID_INPUT if the caller has it at another address
 */
export async function store(
  order: SubscriptionOrder,
  positions: Positions,
  { principal, target }: Call,
  subscriptions: EventSubscriptions,
): Promise<Subscription> {
  const { id, events, filter, ttl } = order
  const { upstream } = target
  const before = await subscriptions.find(principal, id)
  if (before && before.upstream !== upstream)
    throw invalid('subscription_id', 'belongs to a subscription at another address')
  const key = { upstream, name: SEVERAL, arguments: { events, filter }, address: ADDRESS }
  const grant = { expiresAt: world.now() + ttl, delivery: {}, watermark: canonical(positions) }
  const record = await subscriptions.subscribe(principal, key, grant, id)
  if (!record)
    throw new GatewayError('QUOTA_EXHAUSTED', 'There are too many subscriptions to events.', {
      data: { limit: 'subscriptions' },
      suggestion: 'End subscriptions that are not needed.',
    })
  if (before)
    await subscriptions.changeWatermark(record, (text) =>
      canonical({ ...positions, ...parsePositions(text) }),
    )
  return asSubscription(record)
}

/** Moves a subscription to positions, but never back. @throws SERVER_UNAVAILABLE */
export async function advance(
  { record }: Pick<Subscription, 'record'>,
  positions: Positions,
  subscriptions: EventSubscriptions,
): Promise<void> {
  await subscriptions.changeWatermark(record, (text) => {
    const stored = parsePositions(text)
    const later = Object.entries(positions).filter(([log, position]) => {
      const known = stored[log]
      return known === undefined || !isBefore(position, known)
    })
    return canonical({ ...stored, ...Object.fromEntries(later) })
  })
}

/** Positions as a cursor that only the caller of the subscription can use. */
export function sealPositions(
  positions: Positions,
  { record }: Pick<Subscription, 'record'>,
  seal: Seal,
): string {
  return seal.close(positions, cursorUse(record), 0)
}

/** The positions of a cursor. @throws INVALID_INPUT if it is not one of the subscription */
export function openPositions(
  cursor: unknown,
  { record }: Pick<Subscription, 'record'>,
  seal: Seal,
): Positions {
  const opened = typeof cursor === 'string' ? seal.open(cursor, cursorUse(record)) : undefined
  if (opened?.kind === 'valid') return parsePositions(canonical(opened.value))
  throw invalid(
    'after',
    'is not a cursor of this subscription. Without it, events follow those that were sent.',
  )
}

function cursorUse({ principal, id }: SubscriptionRecord): SealUse {
  return { purpose: 'subscription-cursor', binding: canonical([principal.id, id]) }
}

/** Positions as text; `{}` if it is none. */
function parsePositions(text: string): Positions {
  const value = readJson(text)
  if (!isObject(value)) return {}
  const texts = Object.entries(value).filter((entry): entry is [string, string] => {
    return typeof entry[1] === 'string'
  })
  return Object.fromEntries(texts)
}

// Selections

/** The names of the types, and the filter. */
interface Selection {
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

/** How many values one field of a filter may have. */
const MAX_VALUES = 50

/** The requests for a selection. @throws INVALID_INPUT for a filter that does not fit, and what listing throws */
export async function findRequests(
  { events, filter }: Selection,
  call: Call,
  catalog: EventCatalog,
): Promise<FoundRequests> {
  const types = await findTypes(events, call, catalog)
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
export function filterFieldsOf({ inputSchema, payloadSchema }: EventType): readonly string[] {
  return [...new Set([...propertiesOf(inputSchema), ...propertiesOf(payloadSchema)])]
}

/** One request for a type, or one for each value of a field that the type needs. @throws INVALID_INPUT */
function requestsFor(named: NamedType, filter: Fields): readonly EventRequest[] {
  const { type } = named
  checkFields(named, filter)
  const isInput = inputsOf(type)
  const entries = Object.entries(filter)
  const optional = Object.fromEntries(entries.filter(([field]) => isInput(field)))
  const payload = Object.fromEntries(entries.filter(([field]) => !isInput(field)))
  const narrowed: EventType = {
    ...type,
    isRequested: (given, event) => type.isRequested(given, event) && hasFields(event.data, payload),
  }
  let given: readonly Fields[] = [optional]
  for (const field of requiredOf(type.inputSchema)) {
    const values = exactValues(field, filter[field], named.name)
    given = given.flatMap((each) => values.map((value) => ({ ...each, [field]: value })))
  }
  return given.map((each) => ({ ...named, type: narrowed, arguments: each, notBefore: 0 }))
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
  const known = filterFieldsOf(type)
  const unknown = Object.keys(filter).find((field) => !known.includes(field))
  if (unknown === undefined) return
  const path = `filter.${unknown.slice(0, 64)}`
  const hint = ' Subscribe to events with different fields separately.'
  throw unknownField(path, `is not a field of ${name}`, known, hint)
}

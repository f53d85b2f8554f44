/**
 * The subscriptions of `event/subscribe` in the store, and their events as their subscribers receive them. A
 * subscription belongs to one caller and one address; its id is no secret and gives no right.
 */
import { toDouble } from '../../../core/json/exact-number.ts'
import { world } from '../../../core/world.ts'
import type { Call } from '../../../core/call.ts'
import { GatewayError } from '../../../core/error.ts'
import { canonical, isObject } from '../../../core/json/json.ts'
import type { Seal, SealUse } from '../../../core/seal.ts'
import { NS } from '../../../protocol/meta-keys.ts'
import { isBefore } from '../../../durable/log.ts'
import type { EventSubscriptions, SubscriptionRecord } from '../../../records/event-subscriptions.ts'
import { occurrence } from '../methods.ts'
import { type EventRequest, requestOf } from '../requests.ts'
import { invalid, type Selection } from './filter.ts'
import { type PendingEvent, type Loss, parsePositions, type Positions } from './pending.ts'

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
/** How long a subscription lasts by default, in milliseconds. */
const DEFAULT_TTL_MS = 3_600_000
/** How many types of events a subscription can have, and how long its filter may be, in characters of JSON. */
const MAX_TYPES = 100
const MAX_FILTER_LENGTH = 10_000

const UUID = /^[\da-f]{8}(?:-[\da-f]{4}){3}-[\da-f]{12}$/i
/** What clients call their subscriptions; the ids of other subscriptions are hashes after `sub_`. */
const ID = /^(?!sub_[\w-]{32}$)\w[\w.:-]{0,127}$/

/** What `event/subscribe` requests. */
export interface Wish extends Selection {
  readonly id: string
  readonly ttl: number
}

/** Reads the params of `event/subscribe`. @throws INVALID_INPUT */
export function readWish({ params }: Call, maxTtlMs: number): Wish {
  const { events, filter = null, subscription_id: id = null, ttl_seconds: ttl = null } = params.fields
  const names = Array.isArray(events) ? events.filter((name) => typeof name === 'string') : []
  if (!Array.isArray(events) || names.length === 0 || names.length < events.length)
    throw invalid('events', 'must be a list of names of events, and not empty')
  if (names.length > MAX_TYPES) throw invalid('events', `must have at most ${MAX_TYPES} names`)
  if (filter !== null && !isObject(filter)) throw invalid('filter', 'must be an object')
  if (JSON.stringify(filter).length > MAX_FILTER_LENGTH) throw invalid('filter', 'is too long')
  const seconds = ttl === null ? DEFAULT_TTL_MS / 1000 : (toDouble(ttl) ?? 0)
  if (!(seconds > 0)) throw invalid('ttl_seconds', 'must be a positive number')
  return {
    id: id === null ? world.randomUUID() : readId(id),
    events: [...new Set(names)].toSorted(),
    filter: filter ?? {},
    ttl: Math.min(seconds * 1000, maxTtlMs),
  }
}

function readId(id: unknown): string {
  const read = typeof id === 'string' ? storedId(id) : undefined
  if (read !== undefined) return read
  throw invalid(
    'subscription_id',
    'must be a UUID, or up to 128 letters, digits and . : _ -. Without it, the gateway chooses one.',
  )
}

/** An id as it is stored; undefined if no subscription of these clients can have it. */
function storedId(id: string): string | undefined {
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
  if (!record || !isOfClient(record) || record.upstream !== target.upstream) return undefined
  return asSubscription(record)
}

/** Whether a record is one of these subscriptions. */
export function isOfClient({ address }: SubscriptionRecord): boolean {
  return address === ADDRESS
}

/** A record as a subscription. */
export function asSubscription(record: SubscriptionRecord): Subscription {
  const { events, filter } = record.arguments
  return {
    record,
    events: Array.isArray(events) ? events.map(String) : [],
    filter: isObject(filter) ? filter : {},
    positions: parsePositions(record.watermark),
  }
}

/**
 * Stores a subscription, or renews one; its events begin at the given positions, where it has none yet.
 * @throws QUOTA_EXHAUSTED, INVALID_INPUT if the caller has it at another address
 */
export async function store(
  wish: Wish,
  positions: Positions,
  { principal, target }: Call,
  subscriptions: EventSubscriptions,
): Promise<Subscription> {
  const { id, events, filter, ttl } = wish
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

/** An event as its subscriber receives it. Its payload was written by servers and other callers. */
export function eventOf(
  { event, loss }: Pick<PendingEvent, 'event'> & { readonly loss: Loss },
  request: EventRequest,
  { id, cursor }: { readonly id: string; readonly cursor: string },
): Readonly<Record<string, unknown>> {
  const { eventId, name, timestamp, data, _meta: meta } = occurrence(event, request)
  return {
    type: 'event',
    subscription_id: id,
    event: name,
    event_type: name,
    event_id: eventId,
    timestamp,
    payload: data,
    cursor,
    _meta: {
      ...meta,
      ...(loss.dropped > 0 && { [`${NS}/dropped`]: loss.dropped }),
      ...(loss.isGap && { [`${NS}/gap`]: true }),
    },
  }
}

/** The request for an event; undefined if the subscriber may not receive it now. */
export function requestFor(
  { event, log }: PendingEvent,
  requests: readonly EventRequest[],
  call: Call,
): Promise<EventRequest | undefined> {
  const own = requests.filter(({ type }) => (type.upstream ?? '') === log)
  return requestOf(event, own, call)
}

/**
 * Answers `event/subscribe`, `event/unsubscribe`, `event/list` and `event/poll`, for clients of all revisions. A
 * subscription is kept in the store, so that it can be polled whether its events are also sent or not.
 */
import { world } from '../../../core/world.ts'
import type { Call, ClientStream, Handler, Outcome } from '../../../core/call.ts'
import { GatewayError } from '../../../core/error.ts'
import { isoTime, pause } from '../../../core/time/waiting.ts'
import { answered } from '../../builtin-tool.ts'
import { keepOpen } from '../keeping.ts'
import { readCount, typesFor } from '../requests.ts'
import type { ClientParts } from './delivery.ts'
import { fieldsOf, findRequests, invalid, select, type Selected } from './filter.ts'
import { endOfLogs, PendingEvents, type Positions, readPending } from './pending.ts'
import type { Push } from './pushes.ts'
import {
  advance,
  eventOf,
  findSubscription,
  openPositions,
  readWish,
  requestFor,
  sealPositions,
  store,
  type Subscription,
} from './subscription.ts'
import { namesAt, unwrapped } from './wrapped.ts'

/** Sends the events of a subscription to a stream; false if there are too many. */
export type OpenPush = (push: Omit<Push, 'over'>) => boolean

/** How many types a page of `event/list` has, and how many names an answer has. */
const PAGE_SIZE = 200
/** How many events a poll returns by default, and at most. */
const DEFAULT_POLL_EVENTS = 100
const MAX_POLL_EVENTS = 500
/** How long a client should wait before it polls again, in seconds. */
const POLL_INTERVAL_SECONDS = 5
/** How long a client that just connected may take to open its stream, in milliseconds, and how often to look. */
const STREAM_TIMEOUT_MS = 500
const STREAM_INTERVAL_MS = 20

/** The handlers. */
export interface ClientMethods {
  readonly subscribe: Handler
  readonly unsubscribe: Handler
  readonly list: Handler
  readonly poll: Handler
  /** Sends the events of a subscription to the stream of the call, after those that it received. */
  readonly stream: Handler
}

/** The handlers of a runtime. */
export function clientMethods(parts: ClientParts, open: OpenPush): ClientMethods {
  return {
    subscribe: (call) => subscribe(call, parts, open),
    unsubscribe: (call) => unsubscribe(call, parts),
    list: (call) => list(call, parts),
    poll: (call) => poll(call, parts),
    stream: (call) => stream(call, parts, open),
  }
}

async function subscribe(given: Call, parts: ClientParts, open: OpenPush): Promise<Outcome> {
  const call = unwrapped(given)
  const asked = readWish(call, parts.maxTtlMs)
  const names = await namesAt(call, asked.events, parts.events)
  const wish = { ...asked, events: [...new Set(names)].toSorted() }
  const selected = await select(wish, call, parts.events)
  if (selected.unknown.length > 0) return answered(denied(wish.id, selected))
  await keepOpen(selected.requests, call.principal, parts.events)
  const positions = await endOfLogs(selected.requests, parts.events)
  const subscription = await store(wish, positions, call, parts.subscriptions)
  const isSent = await isSentTo(call, subscription, open)
  return answered({
    subscription_id: wish.id,
    status: isSent ? 'active' : 'denied',
    expires_at: isoTime(subscription.record.expiresAt),
    supported_events: selected.supported.slice(0, PAGE_SIZE),
    ...(!isSent && {
      supported: false,
      poll_interval_seconds: POLL_INTERVAL_SECONDS,
      reason:
        'The client has no open stream that events can be sent to. The subscription is kept: call poll_events with its id.',
    }),
  })
}

function denied(id: string, { unknown, supported }: Selected): Readonly<Record<string, unknown>> {
  const names = unknown.slice(0, 10).map((name) => name.slice(0, 200))
  return {
    subscription_id: id,
    status: 'denied',
    supported_events: supported.slice(0, PAGE_SIZE),
    reason: `There are no events of this name: ${names.join(', ')}. Nothing was subscribed to.`,
  }
}

/** Whether events are sent: clients of 2026-07-28 request it themselves, all others have the stream of their session. */
async function isSentTo(call: Call, subscription: Subscription, open: OpenPush): Promise<boolean> {
  const { stream: own, client } = call
  if (client.era === 'modern') return true
  if (!own || !(await isOpened(own, call.signal))) return false
  const { record, positions } = subscription
  const { id, expiresAt } = record
  return open({ id, stream: own, call, positions, expiresAt })
}

/** Whether a stream is open, or opens in time: clients open it when they have sent `notifications/initialized`. */
async function isOpened(own: ClientStream, signal: AbortSignal): Promise<boolean> {
  const until = world.now() + STREAM_TIMEOUT_MS
  while (!own.isOpen()) {
    if (world.now() >= until || own.closed.aborted) return false
    await pause(STREAM_INTERVAL_MS, signal)
  }
  return true
}

async function unsubscribe(call: Call, { subscriptions, pushes }: ClientParts): Promise<Outcome> {
  const { record } = await findSubscription(call, subscriptions)
  await subscriptions.unsubscribe(call.principal, record.id)
  pushes.endAll(call.principal, record.id)
  return answered({ subscription_id: record.id, status: 'cancelled' })
}

async function list(call: Call, { events: parts }: ClientParts): Promise<Outcome> {
  const { cursor = null } = call.params.fields
  if (cursor !== null && (typeof cursor !== 'string' || !/^\d{1,9}$/.test(cursor)))
    throw invalid('cursor', 'is not one of event/list')
  const start = Number(cursor ?? 0)
  const types = await typesFor(call, parts)
  const next = start + PAGE_SIZE
  const page = types.slice(start, next)
  return answered({
    supported_events: page.map(({ name }) => name),
    events: page.map(({ name, type }) => {
      const required: unknown = type.inputSchema.required
      return {
        event: name,
        description: type.description,
        filter_fields: fieldsOf(type),
        ...(Array.isArray(required) && { required_fields: required }),
        payload_schema: type.payloadSchema,
      }
    }),
    ...(next < types.length && { nextCursor: String(next) }),
  })
}

async function poll(call: Call, parts: ClientParts): Promise<Outcome> {
  const limit = readCount(call, 'max_events') ?? DEFAULT_POLL_EVENTS
  const subscription = await findSubscription(call, parts.subscriptions)
  const from = startOf(call, subscription, parts)
  const { requests } = await findRequests(subscription, call, parts.events)
  if (requests.length === 0) throw revoked()
  await keepOpen(requests, call.principal, parts.events)
  const pending = new PendingEvents()
  const { found, positions: end } = await readPending(requests, from, call, parts.events)
  pending.take(found)
  const size = Math.min(Math.max(limit, 1), MAX_POLL_EVENTS)
  const { loss } = pending
  const taken = Array.from({ length: Math.min(size, pending.size) }, () => pending.shift()).flatMap(
    (each) => each ?? [],
  )
  const events: Readonly<Record<string, unknown>>[] = []
  const { record } = subscription
  const { seal } = parts.events.deps.identity
  let positions = from
  for (const each of taken) {
    positions = { ...positions, [each.log]: each.position }
    const request = await requestFor(each, requests, call)
    const cursor = sealPositions(positions, subscription, seal)
    if (request) events.push(eventOf(each, request, { id: record.id, cursor }))
  }
  const hasMore = pending.size > 0
  const after = hasMore ? positions : end
  await advance(subscription, after, parts.subscriptions)
  return answered({
    subscription_id: record.id,
    events,
    cursor: sealPositions(after, subscription, seal),
    has_more: hasMore,
    expires_at: isoTime(record.expiresAt),
    poll_interval_seconds: POLL_INTERVAL_SECONDS,
    ...(loss.dropped > 0 && { dropped: loss.dropped }),
    ...(loss.isGap && { gap: true }),
  })
}

async function stream(call: Call, parts: ClientParts, open: OpenPush): Promise<Outcome> {
  const subscription = await findSubscription(call, parts.subscriptions)
  const { stream: own } = call
  if (!own) throw new GatewayError('UNSUPPORTED_OPERATION', 'There is no stream to send events to.')
  const positions = startOf(call, subscription, parts)
  const { id, expiresAt } = subscription.record
  if (!open({ id, stream: own, call, positions, expiresAt }))
    throw new GatewayError('OVERLOADED', 'Too many streams of events are open.')
  return answered({})
}

/** Where to begin: after a cursor, else after the events that were sent. @throws INVALID_INPUT */
function startOf(call: Call, subscription: Subscription, { events: { deps } }: ClientParts): Positions {
  const { after = null } = call.params.fields
  if (after === null) return subscription.positions
  return { ...subscription.positions, ...openPositions(after, subscription, deps.identity.seal) }
}

function revoked(): GatewayError {
  return new GatewayError(
    'PERMISSION_DENIED',
    'The events of this subscription are not available any more.',
    {
      suggestion: 'List the events to see the available ones.',
    },
  )
}

/** Answers `events/list`, `events/poll` and `events/stream` (SEP-3415). */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { Payload } from '../../core/payload.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { NS } from '../../protocol/meta-keys.ts'
import { answered } from '../builtin-tool.ts'
import { profileOf } from './clients.ts'
import { inColumn } from './error-columns.ts'
import { keepOpen } from './keeping.ts'
import {
  canSubscribe,
  endOfRequest,
  type NamedType,
  nextBatch,
  type Parts,
  readCount,
  readRequest,
  sealCursor,
  typesFor,
} from './requests.ts'
import type { LoggedEvent } from './server-events.ts'
import { EventStream } from './stream.ts'

/** How many types a page of `events/list` holds. */
const PAGE_SIZE = 200
/** How many events a poll returns by default, and at most. */
const DEFAULT_POLL_EVENTS = 100
const MAX_POLL_EVENTS = 500
/** How long a client should wait before it polls again, in milliseconds. */
const NEXT_POLL_MS = 5000

/** The methods. `closing` ends the streams. */
export function readingMethods(parts: Parts, closing: AbortSignal): Readonly<Record<string, Handler>> {
  return {
    'events/list': (call) => list(call, parts),
    'events/poll': (call) => poll(call, parts),
    'events/stream': (call) => stream(call, parts, closing),
  }
}

async function list(call: Call, parts: Parts): Promise<Outcome> {
  const { cursor = null } = call.params.fields
  if (cursor !== null && (typeof cursor !== 'string' || !/^\d{1,9}$/.test(cursor))) {
    throw new GatewayError('INVALID_INPUT', 'Invalid params: the cursor is not one of events/list.', {
      field: 'cursor',
      reason: 'unknown',
    })
  }
  const start = Number(cursor ?? 0)
  const types = await typesFor(call, parts)
  const delivery = deliveryModes(call)
  const page = types.slice(start, start + PAGE_SIZE).map(({ name, type, source }) => {
    const { description, inputSchema, payloadSchema, upstream } = type
    const _meta = {
      [`${NS}/source`]: source,
      ...(upstream !== undefined && { [`${NS}/upstream`]: upstream }),
    }
    return { name, description, delivery, inputSchema, payloadSchema, _meta }
  })
  const next = start + PAGE_SIZE
  return answered({ events: page, ...(next < types.length && { nextCursor: String(next) }) })
}

/** How events are delivered to the caller. A client with webhooks alone learns why it needs authentication when it subscribes. */
function deliveryModes({ client, principal }: Call): readonly string[] {
  if (profileOf(client).methods === 'webhooks') return ['webhook']
  return ['poll', 'push', ...(canSubscribe(principal) ? ['webhook'] : [])]
}

async function poll(call: Call, parts: Parts): Promise<Outcome> {
  const limit = readCount(call, 'maxEvents') ?? DEFAULT_POLL_EVENTS
  const request = await readRequest(call, parts)
  const { seal } = parts.deps.identity
  await keepOpen([request], call.principal, parts)
  if (request.from === 'now') {
    const cursor = sealCursor(await parts.events(request.type.upstream).now(), call, request, seal)
    return answered({ events: [], cursor, truncated: false, hasMore: false, nextPollMs: NEXT_POLL_MS })
  }
  const position = request.from === 'unknown' ? undefined : request.from.position
  const size = Math.min(Math.max(limit, 1), MAX_POLL_EVENTS)
  const batch = await nextBatch(request, call, { position, limit: size }, parts)
  if (batch.ended) throw batch.ended
  return answered({
    events: batch.events.map(({ event }) => occurrence(event, request)),
    cursor: sealCursor(batch.position, call, request, seal),
    truncated: batch.isTruncated || request.from === 'unknown',
    hasMore: batch.hasMore,
    nextPollMs: NEXT_POLL_MS,
  })
}

/** Answers `events/stream`: lasts until the client closes it, or the gateway stops or loads another configuration. */
async function stream(call: Call, parts: Parts, closing: AbortSignal): Promise<Outcome> {
  const request = await readRequest(call, parts)
  const { upstream } = request.type
  await keepOpen([request], call.principal, parts)
  const { seal } = parts.deps.identity
  const from = request.from === 'now' ? { position: await parts.events(upstream).now() } : request.from
  const signal = AbortSignal.any([call.signal, closing])
  const opened = new EventStream({
    call,
    signal,
    isTruncated: from === 'unknown',
    next: (position, limit) => nextBatch(request, call, { position, limit }, parts),
    changed: () => parts.events(upstream).changed(signal),
    keep: () => keepOpen([request], call.principal, parts),
    ended: () => endOfRequest(request, call, parts),
    error: (error) => parts.deps.invoker.errorAsSent(inColumn(error, profileOf(call.client).codes), call),
    cursor: (position) => sealCursor(position, call, request, seal),
    occurrence: (event) => occurrence(event, request),
  })
  await opened.run(from === 'unknown' ? undefined : from.position)
  if (call.signal.aborted) throw new GatewayError('CANCELLED', 'The stream of events was cancelled.')
  return { kind: 'result', result: Payload.of({}) }
}

/** An event as its clients receive it. Its data was written by servers and other callers. */
export function occurrence(event: LoggedEvent, { name, type }: NamedType) {
  const data = type.present?.(event.data) ?? event.data
  const timestamp = isoTime(event.at)
  return { eventId: event.id, name, timestamp, data, _meta: { [`${NS}/untrusted`]: true } }
}

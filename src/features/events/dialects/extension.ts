/**
 * The dialect of the events extension (SEP-3415): `events/list`, `events/poll` and `events/stream`, and the forms of their
 * requests, events and errors. Cursors are sealed for their caller, type and arguments; any other one is answered like one
 * whose events are gone. `events/subscribe` is in `sinks/webhook-methods.ts`.
 *
 * The extension belongs to 2026-07-28, but deployed clients follow the design sketch that preceded it, some of them in older
 * revisions: those have webhooks alone, as ChatGPT does. Other older clients do not know the extension, and for them its
 * methods do not exist.
 */
import { NS } from '../../../core/identity.ts'
import { eventsExtension } from '../../../core/revisions.ts'
import type { Call, Client, Handler, Middleware, Outcome } from '../../../core/call.ts'
import { modernError } from '../../../protocol/modern.ts'
import { GatewayError } from '../../../core/error.ts'
import { exactly, isObject } from '../../../core/json/json.ts'
import { Payload } from '../../../core/payload.ts'
import type { Principal } from '../../../core/principal.ts'
import type { Seal, SealUse } from '../../../core/seal.ts'
import { isoTime } from '../../../core/time/waiting.ts'
import { world } from '../../../core/world.ts'
import { unknownMethod } from '../../../protocol/methods.ts'
import { answered, pageOfList } from '../../builtin-tool.ts'
import {
  type Column,
  forbidden,
  inColumn,
  invalid,
  isUnknownSubscription,
  notFound,
  unknownField,
} from '../errors.ts'
import {
  type EventRequest,
  Follower,
  isCount,
  logOf,
  POLL_INTERVAL_MS,
  poll,
  pollLimit,
  type Positions,
  retain,
} from '../follower.ts'
import type { LoggedEvent } from '../server-events.ts'
import { EventStream, type StreamMessage } from '../sinks/stream.ts'
import {
  type EventCatalog,
  type Fields,
  findTypes,
  type NamedType,
  presentType,
  propertiesOf,
  requiredOf,
  typesFor,
} from '../types.ts'

// Clients

/** What a client has of the extension. */
interface EventsProfile {
  /** The methods that exist for it. */
  readonly methods: 'all' | 'webhooks' | 'none'
  /** Which error codes it expects; a client of the sketch also expects that a second unsubscription succeeds. */
  readonly codes: Column
}

/** The name of a client that follows the sketch, whatever it declares. */
const SKETCH_CLIENTS = /\b(?:chatgpt|openai)/i

/** The profile of a client, by what it declares and by its name. */
export function profileOf({
  era,
  info,
  capabilities,
}: Pick<Client, 'era' | 'info' | 'capabilities'>): EventsProfile {
  const { events, extensions } = capabilities
  const isNamed = typeof info?.name === 'string' && SKETCH_CLIENTS.test(info.name)
  const declaresSketch = isObject(events)
  const declaresExtension = isObject(extensions) && isObject(extensions[eventsExtension])
  if (era === 'modern')
    return { methods: 'all', codes: isNamed || (declaresSketch && !declaresExtension) ? 'sketch' : 'sep' }
  return { methods: isNamed || declaresSketch || declaresExtension ? 'webhooks' : 'none', codes: 'sketch' }
}

/** The methods of clients that have webhooks alone. */
const webhookMethods: ReadonlySet<string> = new Set(['events/list', 'events/subscribe', 'events/unsubscribe'])

/** Whether a method of the extension exists for a client. */
export function hasMethod(client: Client, method: string): boolean {
  const { methods } = profileOf(client)
  return methods === 'all' || (methods === 'webhooks' && webhookMethods.has(method))
}

/** The methods, for the clients that have them. Errors have the codes that each client expects. */
export function forItsClients(methods: Readonly<Record<string, Handler>>): Readonly<Record<string, Handler>> {
  const only =
    (name: string, answer: Handler): Handler =>
    async (call) => {
      if (!hasMethod(call.client, name)) throw unknownMethod(call.method)
      return answer(call)
    }
  return Object.fromEntries(
    Object.entries(methods).map(([name, answer]) => [name, only(name, withExpectedErrors(name, answer))]),
  )
}

/** Answers a method with the errors that the client of each call expects. */
export function withExpectedErrors(name: string, answer: Handler): Handler {
  return async (call) => {
    try {
      return await answer(call)
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error
      // In the sketch a second unsubscription succeeds.
      const { codes } = profileOf(call.client)
      if (name === 'events/unsubscribe' && isUnknownSubscription(error) && codes === 'sketch') {
        return { kind: 'result', result: Payload.of({}) }
      }
      throw inColumn(error, codes)
    }
  }
}

/**
 * Declares the extension in the result of `server/discover`, also under the key of its first drafts. Older clients that
 * have events know only this key.
 */
export function declaring(isOn: (call: Call) => boolean): Middleware {
  return (next) => async (call) => {
    const outcome = await next(call)
    const { methods } = profileOf(call.client)
    if (outcome.kind !== 'result' || methods === 'none' || !isOn(call)) return outcome
    const capabilities = outcome.result.at('capabilities') ?? Payload.of({})
    const extensions = (capabilities.at('extensions') ?? Payload.of({})).with({
      [eventsExtension]: { listChanged: true },
    })
    const declared = capabilities.with({ ...(methods === 'all' && { extensions }), events: {} })
    return { kind: 'result', result: outcome.result.with({ capabilities: declared }) }
  }
}

// Methods

/** How many types a page of `events/list` holds. */
const PAGE_SIZE = 200

/** The methods of clients that fetch events themselves. `closing` ends the streams. */
export function readingMethods(
  catalog: EventCatalog,
  closing: AbortSignal,
): Readonly<Record<string, Handler>> {
  return {
    'events/list': (call) => list(call, catalog),
    'events/poll': (call) => answerPoll(call, catalog),
    'events/stream': (call) => stream(call, catalog, closing),
  }
}

async function list(call: Call, catalog: EventCatalog): Promise<Outcome> {
  const { page, ...next } = await pageOfList(call, 'events/list', PAGE_SIZE, () => typesFor(call, catalog))
  const delivery = deliveryModes(call)
  const events = page.map(({ name, type, source }) => {
    const { description, inputSchema, payloadSchema, upstream } = type
    const _meta = {
      [`${NS}/source`]: source,
      ...(upstream !== undefined && { [`${NS}/upstream`]: upstream }),
    }
    return { name, description, delivery, inputSchema, payloadSchema, _meta }
  })
  return answered({ events, ...next })
}

/** How events are delivered to the caller. A client with webhooks alone learns why it needs authentication when it subscribes. */
function deliveryModes({ client, principal }: Call): readonly string[] {
  if (profileOf(client).methods === 'webhooks') return ['webhook']
  return ['poll', 'push', ...(canSubscribe(principal) ? ['webhook'] : [])]
}

/** What a poll without a cursor returns. */
const NOTHING = { events: [], loss: { dropped: 0, isGap: false }, hasMore: false, ended: undefined }

async function answerPoll(call: Call, catalog: EventCatalog): Promise<Outcome> {
  const limit = pollLimit(call, 'maxEvents')
  const { from, ...request } = await readRequest(call, catalog)
  const { seal } = catalog.deps.identity
  await retain([request], call.principal, catalog)
  const follower = new Follower(catalog, call, [request], await positionsOf(from, request, catalog))
  const { events, loss, hasMore, ended } = from === 'now' ? NOTHING : await poll(follower, limit, false)
  if (ended) throw ended
  return answered({
    events: events.map(({ event }) => occurrence(event, request)),
    cursor: sealCursor(follower.positions[logOf(request.type)] ?? '', call, request, seal),
    truncated: loss.isGap || from === 'unknown',
    hasMore,
    nextPollMs: POLL_INTERVAL_MS,
  })
}

/** Answers `events/stream`: lasts until the client closes it, or the gateway stops or loads another configuration. */
async function stream(call: Call, catalog: EventCatalog, closing: AbortSignal): Promise<Outcome> {
  const { from, ...request } = await readRequest(call, catalog)
  await retain([request], call.principal, catalog)
  const follower = new Follower(catalog, call, [request], await positionsOf(from, request, catalog))
  const opened = new EventStream({
    follower,
    client: call,
    signal: AbortSignal.any([call.signal, closing]),
    isTruncated: from === 'unknown',
    send: (message) => {
      const params = Payload.of({}).with(streamParams(message, call, request, catalog))
      call.emit({ method: `notifications/events/${message.kind}`, params, mustArrive: true })
    },
    ended: () => endOfRequest(request, call, catalog),
  })
  await opened.run()
  if (call.signal.aborted) throw new GatewayError('CANCELLED', 'The stream of events was cancelled.')
  return { kind: 'result', result: Payload.of({}) }
}

function streamParams(
  message: StreamMessage,
  call: Call,
  request: EventRequest,
  { deps: { identity } }: EventCatalog,
): Readonly<Record<string, unknown>> {
  const cursor = (positions: Positions): string =>
    sealCursor(positions[logOf(request.type)] ?? '', call, request, identity.seal)
  switch (message.kind) {
    case 'active':
      return { cursor: cursor(message.position), truncated: message.isTruncated }
    case 'event':
      return { ...occurrence(message.taken.event, request), cursor: cursor(message.taken.positions) }
    case 'heartbeat':
      return { cursor: cursor(message.position) }
    default:
      return { error: modernError(inColumn(message.error, profileOf(call.client).codes), call.requestId) }
  }
}

/** An event as its clients receive it. Its data was written by servers and other callers. */
export function occurrence(event: LoggedEvent, { name, type }: NamedType) {
  const data = type.present?.(event.data) ?? event.data
  const timestamp = isoTime(event.at)
  return { eventId: event.id, name, timestamp, data, _meta: { [`${NS}/untrusted`]: true } }
}

/**
 * Why a caller receives no more events of a request: it lost the right, the type does not exist any more, or its schemas
 * have changed. Undefined if none of that is known.
 */
async function endOfRequest(
  request: EventRequest,
  call: Call,
  catalog: EventCatalog,
): Promise<GatewayError | undefined> {
  const { name, type, arguments: given } = request
  if (!(await type.mayReceive({ data: given }, call))) {
    return forbidden('permission', 'You may not receive these events any more.')
  }
  try {
    const found = await presentType(name, request, call, catalog)
    return found instanceof GatewayError ? found : undefined
  } catch {
    // Its server cannot be asked now.
    return undefined
  }
}

// Requests

/** Whether a caller can have subscriptions that are delivered to it: those of everybody would have no owner. */
export function canSubscribe({ isEverybody }: Principal): boolean {
  return !isEverybody
}

/** A request, and where its events begin: at a position, now without a cursor, or somewhere unknown with another one. */
export interface PositionedRequest extends EventRequest {
  readonly from: { readonly position: string } | 'now' | 'unknown'
}

/** Reads a request. @throws INVALID_INPUT, RESOURCE_NOT_FOUND, and what listing throws */
export async function readRequest(call: Call, catalog: EventCatalog): Promise<PositionedRequest> {
  const { name, arguments: given = {}, cursor = null, maxAgeMs = null } = call.params.fields
  if (typeof name !== 'string') throw invalid('name', 'must be a string')
  if (!isObject(given)) throw invalid('arguments', 'must be an object')
  if (cursor !== null && typeof cursor !== 'string') throw invalid('cursor', 'must be a string or null')
  if (maxAgeMs !== null && !isCount(maxAgeMs)) throw invalid('maxAgeMs', 'must be a number of milliseconds')
  const [found] = await findTypes([name], call, catalog)
  if (!found) throw notFound('event')
  checkArguments(found, given)
  // Like an unknown type, so that callers do not learn which resources there are.
  if (!(await found.type.mayReceive({ data: given }, call))) throw notFound('event')
  const request = { ...found, arguments: given }
  if (cursor === null) return { ...request, from: 'now', notBefore: 0 }
  const position = openCursor(cursor, call, request, catalog.deps.identity.seal)
  const from = position === undefined ? 'unknown' : { position }
  return { ...request, from, notBefore: maxAgeMs === null ? 0 : world.now() - Number(maxAgeMs) }
}

/** Where to begin to read: from the oldest event on, if that is unknown. @throws SERVER_UNAVAILABLE */
async function positionsOf(
  from: PositionedRequest['from'],
  { type }: EventRequest,
  catalog: EventCatalog,
): Promise<Positions> {
  if (from === 'unknown') return {}
  const position = from === 'now' ? await catalog.events(type.upstream).now() : from.position
  return { [logOf(type)]: position }
}

/** A position as a cursor for the client. */
export function sealCursor(
  position: string,
  call: Call,
  request: Pick<EventRequest, 'type' | 'arguments'>,
  seal: Seal,
): string {
  return seal.close(position, cursorUse(call, request), 0)
}

function openCursor(
  cursor: string,
  call: Call,
  request: Pick<EventRequest, 'type' | 'arguments'>,
  seal: Seal,
): string | undefined {
  const opened = seal.open(cursor, cursorUse(call, request))
  return opened.kind === 'valid' && typeof opened.value === 'string' ? opened.value : undefined
}

function cursorUse(
  { principal }: Call,
  { type, arguments: given }: Pick<EventRequest, 'type' | 'arguments'>,
): SealUse {
  return {
    purpose: 'event-cursor',
    binding: exactly([principal.id, type.upstream ?? null, type.name, given]),
  }
}

function checkArguments({ name, type }: NamedType, given: Fields): void {
  const known = propertiesOf(type.inputSchema)
  // A server checks the arguments of its own events.
  const isClosed = type.inputSchema.additionalProperties === false
  const unknown = isClosed ? Object.keys(given).find((field) => !known.includes(field)) : undefined
  if (unknown !== undefined)
    throw unknownField(`arguments.${unknown.slice(0, 64)}`, `is not an argument of ${name}`, known)
  const missing = requiredOf(type.inputSchema).find((field) => !Object.hasOwn(given, field))
  if (missing !== undefined) throw invalid(`arguments.${missing}`, 'is required')
}

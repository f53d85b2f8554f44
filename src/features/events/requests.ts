/**
 * What `events/poll` and `events/stream` request: a type of events, arguments that narrow it, and a position. Cursors are
 * sealed for their caller, type and arguments; any other one is answered like one whose events are gone (SEP-3415).
 */
import { world } from '../../core/world.ts'
import type { Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { exactly, isObject } from '../../core/json/json.ts'
import type { Principal } from '../../core/principal.ts'
import type { Seal, SealUse } from '../../core/seal.ts'
import type { LogPage } from '../../durable/log.ts'
import type { Services } from '../feature.ts'
import { forbidden, notFound } from './errors.ts'
import type { EventSource, EventType } from './event-types.ts'
import { breakOf } from './type-changes.ts'
import { asEvent, LOGGING_BEGAN, type LoggedEvent, type ServerEvents } from './server-events.ts'

/** What requests are answered from. */
export interface Parts {
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

/** A request for events. */
export interface EventRequest extends NamedType {
  readonly arguments: Readonly<Record<string, unknown>>
  /** The position in the log; `now` without a cursor, `unknown` for a cursor that cannot be read. */
  readonly from: { readonly position: string } | 'now' | 'unknown'
  /** Older events are left out, in milliseconds since 1970. */
  readonly notBefore: number
}

/** The types of events that a caller may have at the address of its call, sorted by name. @throws if no server can be asked */
export async function typesFor(call: Call, parts: Parts): Promise<readonly NamedType[]> {
  const found = await listTypes(call, parts)
  const [first] = found.flatMap(({ failures }) => failures)
  if (first !== undefined && found.every(({ failures }) => failures.length > 0)) throw first.reason
  const types = found.flatMap((each) => (each.failures.length === 0 ? each.types : []))
  const isListed = await Promise.all(
    types.map(async ({ type }) => {
      return (async () => type.mayReceive({ data: {} }, call))().catch(() => false)
    }),
  )
  return types
    .filter((_type, index) => isListed[index])
    .toSorted((one, other) => one.name.localeCompare(other.name))
}

/** The type of a name at the address of a call, whether its caller may have it or not. @throws if that is not known */
async function findType(name: string, call: Call, parts: Parts): Promise<NamedType | undefined> {
  const [found] = await findTypes([name], call, parts)
  return found
}

/** The same for several names. */
export async function findTypes(
  names: readonly string[],
  call: Call,
  parts: Parts,
): Promise<readonly (NamedType | undefined)[]> {
  const found = await listTypes(call, parts)
  const types = found.flatMap((each) => each.types)
  const [failure] = found.flatMap(({ failures }) => failures)
  return names.map((name) => {
    const type = types.find((each) => each.name === name)
    if (!type && failure) throw failure.reason
    return type
  })
}

/** What one server has, and what could not be asked. */
interface FoundTypes {
  readonly types: readonly NamedType[]
  readonly failures: readonly PromiseRejectedResult[]
}

function listTypes(call: Call, { deps, sources, upstreams }: Parts): Promise<readonly FoundTypes[]> {
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
    names.map(async (each): Promise<FoundTypes> => {
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

/**
 * Why a caller receives no more events of a request: it lost the right, the type does not exist any more, or its schemas
 * have changed. Undefined if none of that is known.
 */
export async function endOfRequest(
  request: EventRequest,
  call: Call,
  parts: Parts,
): Promise<GatewayError | undefined> {
  const { name, type, arguments: given } = request
  if (!(await type.mayReceive({ data: given }, call))) {
    return forbidden('permission', 'You may not receive these events any more.')
  }
  try {
    const found = await presentType(name, request, call, parts)
    return found instanceof GatewayError ? found : undefined
  } catch {
    // Its server cannot be asked now.
    return undefined
  }
}

/** A type that was found before as it is now, or the error that ends subscriptions to it. @throws if that is not known */
export async function presentType(
  name: string,
  before: NamedType | undefined,
  call: Call,
  parts: Parts,
): Promise<NamedType | GatewayError> {
  const found = await findType(name, call, parts)
  if (!found) return notFound('event')
  return (before && breakOf(before, found)) ?? found
}

/** Reads a request. @throws INVALID_INPUT, RESOURCE_NOT_FOUND, and what listing throws */
export async function readRequest(call: Call, parts: Parts): Promise<EventRequest> {
  const { name, arguments: given = {}, cursor = null, maxAgeMs = null } = call.params.fields
  if (typeof name !== 'string') throw invalid('name', 'must be a string')
  if (!isObject(given)) throw invalid('arguments', 'must be an object')
  if (cursor !== null && typeof cursor !== 'string') throw invalid('cursor', 'must be a string or null')
  if (maxAgeMs !== null && !isCount(maxAgeMs)) throw invalid('maxAgeMs', 'must be a number of milliseconds')
  const found = await findType(name, call, parts)
  if (!found) throw notFound('event')
  checkArguments(found, given)
  // Like an unknown type, so that callers do not learn which resources there are.
  if (!(await found.type.mayReceive({ data: given }, call))) throw notFound('event')
  const request = { ...found, arguments: given }
  if (cursor === null) return { ...request, from: 'now', notBefore: 0 }
  const position = openCursor(cursor, call, request, parts.deps.identity.seal)
  const from = position === undefined ? 'unknown' : { position }
  return { ...request, from, notBefore: maxAgeMs === null ? 0 : world.now() - Number(maxAgeMs) }
}

/** Whether a caller can have subscriptions that are delivered to it: those of everybody would belong to nobody. */
export function canSubscribe({ isEverybody }: Principal): boolean {
  return !isEverybody
}

/** A member that counts something: a whole number from 0; undefined if the member is absent. @throws INVALID_INPUT */
export function readCount(call: Call, field: string): number | undefined {
  const value = call.params.fields[field] ?? undefined
  if (value === undefined) return undefined
  if (!isCount(value)) throw invalid(field, 'must be a whole number from 0')
  return Number(value)
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

/** Events of a request, in order. */
export interface Batch {
  readonly events: readonly { readonly event: LoggedEvent; readonly position: string }[]
  /** Where it begins, and the position after everything that was looked at. */
  readonly start: string
  readonly position: string
  /** Whether events that were requested are gone, too old, or were missed because the gateway did not listen. */
  readonly isTruncated: boolean
  readonly hasMore: boolean
  /** The error that ended the subscription at its server; then there are no events, and none will follow. */
  readonly ended?: GatewayError
}

/** How many events are looked at for one batch. */
const MAX_SCANNED_EVENTS = 2000

/** At most `limit` events after a position; from the oldest on without one. @throws SERVER_UNAVAILABLE */
export function nextBatch(
  request: EventRequest,
  call: Call,
  window: Window,
  parts: Pick<Parts, 'events'>,
): Promise<Batch> {
  return nextOfSeveral([request], call, window, parts.events(request.type.upstream))
}

/** A part of a log: at most `limit` requested events after a position; from the oldest on without one. */
interface Window {
  readonly position: string | undefined
  readonly limit: number
}

/** The same for several requests of one server: each event that at least one of them requests. */
export async function nextOfSeveral(
  requests: readonly EventRequest[],
  call: Call,
  { position, limit }: Window,
  from: Pick<ServerEvents, 'read' | 'want'>,
): Promise<Batch> {
  await from.want()
  const events: { readonly event: LoggedEvent; readonly position: string }[] = []
  let isTruncated = false
  let start: string | undefined
  let at = position
  for (let scanned = 0; ;) {
    const page: LogPage = await from.read(at)
    start ??= page.start
    isTruncated ||= page.isGap
    for (const { value, cursor } of page.entries) {
      const event = asEvent(value)
      // Whoever does not say how far it got begins anew, whatever ended before.
      const ended = event && position !== undefined ? endOf(event, requests) : undefined
      const upToHere = { events, start, position: at ?? start, isTruncated }
      if (events.length >= limit || (ended && events.length > 0)) return { ...upToHere, hasMore: true }
      if (ended) return { ...upToHere, hasMore: false, ended }
      at = cursor
      if (event && requests.some((each) => marksGap(event, each))) isTruncated = true
      const request = event && (await requestOf(event, requests, call))
      if (!request) continue
      if (event.at < request.notBefore) isTruncated = true
      else events.push({ event, position: cursor })
    }
    at = page.cursor
    scanned += page.entries.length
    if (!page.hasMore || scanned >= MAX_SCANNED_EVENTS)
      return { events, start, position: at, isTruncated, hasMore: page.hasMore }
  }
}

/** Whether events may be missing before an entry of the log. */
export function marksGap(
  entry: LoggedEvent,
  { type, arguments: wanted }: Pick<EventRequest, 'type' | 'arguments'>,
): boolean {
  return entry.name === LOGGING_BEGAN || type.isGap?.(wanted, entry) === true
}

/** The error that ended all of the requests; one of several that ended leaves the others. */
function endOf(entry: LoggedEvent, requests: readonly EventRequest[]): GatewayError | undefined {
  const [request, ...others] = requests
  return others.length > 0 ? undefined : request?.type.endOf?.(request.arguments, entry)
}

/** The first request for an event whose caller may receive it now. */
export async function requestOf(
  event: LoggedEvent,
  requests: readonly EventRequest[],
  call: Call,
): Promise<EventRequest | undefined> {
  for (const request of requests) {
    const { type, arguments: wanted } = request
    if (event.name !== type.name || !type.isRequested(wanted, event)) continue
    if (await type.mayReceive(event, call)) return request
  }
  return undefined
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

function checkArguments({ name, type }: NamedType, given: Readonly<Record<string, unknown>>): void {
  const { properties } = type.inputSchema
  const known = isObject(properties) ? Object.keys(properties) : []
  // A server checks the arguments of its own events.
  const isClosed = type.inputSchema.additionalProperties === false
  const unknown = isClosed ? Object.keys(given).find((field) => !known.includes(field)) : undefined
  if (unknown !== undefined) {
    const names = known.length > 0 ? `These are known: ${known.join(', ')}.` : 'It has none.'
    throw invalid(
      `arguments.${unknown.slice(0, 64)}`,
      `is not an argument of ${name}. ${names.slice(0, 1000)}`,
    )
  }
  const required: readonly unknown[] = Array.isArray(type.inputSchema.required)
    ? type.inputSchema.required
    : []
  const missing = required.map(String).find((field) => !Object.hasOwn(given, field))
  if (missing !== undefined) throw invalid(`arguments.${missing}`, 'is required')
}

function isCount(value: unknown): boolean {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

/** The error for an invalid parameter. */
export function invalid(field: string, why: string): GatewayError {
  const end = why.endsWith('.') ? '' : '.'
  return new GatewayError('INVALID_INPUT', `Invalid params: ${field} ${why}${end}`, {
    field,
    reason: 'invalid',
  })
}

/**
 * Follows events for a client: reads the logs of servers from positions, selects what is requested and permitted, and
 * queues it until a sink takes it (`sinks/`).
 *
 * A sink that reads a page at a time loses nothing: it reads on when it has taken all. One whose client must not hold up
 * reading reads everything there is: beyond bounds the oldest events are dropped, and the next one says how many.
 *
 * Invariants: the events of one log keep its order; those of several logs are merged by their times. `positions` never
 * passes an event that was not taken.
 */
import type { Call } from '../../core/call.ts'
import type { GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import { untilAborted } from '../../core/time/waiting.ts'
import { world } from '../../core/world.ts'
import { invalid } from './errors.ts'
import { asEvent, LOGGING_BEGAN, type LoggedEvent, type ServerEvents } from './server-events.ts'
import type { EventCatalog, Fields, NamedType } from './types.ts'

/** What is requested: a type of events, and arguments that narrow it. */
export interface EventRequest extends NamedType {
  readonly arguments: Fields
  /** Older events are left out, in milliseconds since 1970. */
  readonly notBefore: number
}

/** A position in the log of each server; the key of the log of no server is the empty text. */
export type Positions = Readonly<Record<string, string>>

/** What was lost before an event: how many were dropped here, and whether others are gone or were missed. */
interface Loss {
  readonly dropped: number
  readonly isGap: boolean
}

/** An event that a client requested, and the position after it in its log. */
interface FollowedEvent {
  readonly event: LoggedEvent
  readonly request: EventRequest
  readonly log: string
  readonly position: string
}

/** The first event of a queue. */
interface FirstEvent extends FollowedEvent {
  readonly loss: Loss
}

/** An event that was taken, and the positions after it in all logs. */
export interface TakenEvent extends FirstEvent {
  readonly positions: Positions
}

/** What one read found. */
export interface Found {
  /** Where it began, in each log. */
  readonly start: Positions
  /** Whether requested events are gone, too old, or were missed. */
  readonly isGap: boolean
  readonly hasMore: boolean
  /** The error with which servers ended all that is requested: no events follow. */
  readonly ended?: GatewayError
}

/** What a queue holds, where the oldest events are dropped beyond it. */
const MAX_QUEUED_EVENTS = 1000
const MAX_QUEUED_BYTES = 1024 * 1024
/** How many requested events are read at once, where all there are are read, and how many events are scanned for them. */
const PAGE_EVENTS = 200
const MAX_SCANNED_EVENTS = 2000

/** Follows requested events. Requests, and the call whose principal may receive the events, can be replaced. */
export class Follower {
  #requests: readonly EventRequest[]
  #call: Call
  readonly #catalog: EventCatalog
  readonly #queue = new EventQueue()
  /** The event whose rights are being checked. */
  #checked: FirstEvent | undefined
  #read: Positions
  #taken: Positions

  /** Begins at positions; a log without one is read from its oldest event on. */
  constructor(catalog: EventCatalog, call: Call, requests: readonly EventRequest[], positions: Positions) {
    this.#catalog = catalog
    this.#call = call
    this.#requests = requests
    this.#read = positions
    this.#taken = positions
  }

  /** Follows other requests from now on, or the same ones for another caller. */
  follow(call: Call, requests = this.#requests): void {
    this.#call = call
    this.#requests = requests
  }

  /** The positions up to which events were taken, or there were none to take. */
  get positions(): Positions {
    return this.size === 0 ? this.#read : this.#taken
  }

  /** How many events are queued. */
  get size(): number {
    return this.#queue.size + (this.#checked ? 1 : 0)
  }

  /** What was lost before the first of them. */
  get loss(): Loss {
    return this.#queue.loss
  }

  /** Reads at most `limit` events of each log; without a limit all there are. @throws SERVER_UNAVAILABLE */
  async read(limit?: number): Promise<Found> {
    const read = await Promise.all(
      [...byLog(this.#requests)].map(([log, requests]) => this.#readLog(log, requests, limit)),
    )
    // Together, so that `positions` passes no event that is queued.
    this.#taken = this.positions
    this.#queue.merge(read.map(({ queue }) => queue))
    if (limit === undefined) this.#queue.dropOldest()
    this.#read = { ...this.#read, ...Object.fromEntries(read.map(({ log, position }) => [log, position])) }
    const [first] = read
    return {
      start: Object.fromEntries(read.map(({ log, start }) => [log, start])),
      isGap: read.some(({ queue }) => queue.loss.isGap),
      hasMore: read.some(({ hasMore }) => hasMore),
      ...(first?.ended && read.every(({ ended }) => ended) && { ended: first.ended }),
    }
  }

  async #readLog(log: string, requests: readonly EventRequest[], limit: number | undefined) {
    const events = eventsOf(log, this.#catalog)
    const queue = new EventQueue()
    let start: string | undefined
    for (let position = this.#read[log]; ;) {
      const window = { position, limit: limit ?? PAGE_EVENTS }
      const page = await readPart(requests, this.#call, window, events)
      start ??= page.start
      position = page.position
      queue.addLoss({ dropped: 0, isGap: page.isGap })
      for (const each of page.events) queue.push({ ...each, log }, limit === undefined)
      if (limit === undefined) queue.dropOldest()
      const { hasMore, ended } = page
      if (limit !== undefined || !hasMore) return { log, queue, start, position, hasMore, ended }
    }
  }

  /** Takes the first event. */
  take(): TakenEvent | undefined {
    const first = this.#queue.shift()
    return first && { ...first, positions: this.#pass(first) }
  }

  /**
   * Takes the first event if the caller may still receive it; otherwise nothing is taken, and the next one is the first.
   * @throws why that is not known; then it stays the first
   */
  async takePermitted(): Promise<TakenEvent | undefined> {
    // Reading must not drop it meanwhile.
    const first = (this.#checked ??= this.#queue.shift())
    if (!first) return undefined
    const own = this.#requests.filter(({ type }) => logOf(type) === first.log)
    const request = await requestOf(first.event, own, this.#call)
    this.#checked = undefined
    const positions = this.#pass(first)
    if (request) return { ...first, request, positions }
    this.#queue.addLoss(first.loss)
    return undefined
  }

  #pass({ log, position }: FollowedEvent): Positions {
    return (this.#taken = { ...this.#taken, [log]: position })
  }

  /** Resolves once there may be more events, the signal is aborted, or the poll interval is over. */
  async changed(signal: AbortSignal): Promise<void> {
    const logs = [...byLog(this.#requests).keys()].map((log) => eventsOf(log, this.#catalog))
    const over = new AbortController()
    try {
      await untilAborted(Promise.race(logs.map((log) => log.changed(over.signal))), signal)
    } catch {
      // The signal was aborted.
    } finally {
      over.abort()
    }
  }

  /** Has what is followed kept, and its sources open, for a while. @throws what `retain` throws */
  retain(): Promise<void> {
    return retain(this.#requests, this.#call.principal, this.#catalog)
  }
}

/** Events in order, and what was lost before the first of them. */
class EventQueue {
  readonly #events: QueuedEvent[] = []
  #bytes = 0
  #dropped = 0
  #isGap = false

  get size(): number {
    return this.#events.length
  }

  get loss(): Loss {
    return { dropped: this.#dropped, isGap: this.#isGap }
  }

  addLoss({ dropped, isGap }: Loss): void {
    this.#dropped += dropped
    this.#isGap ||= isGap
  }

  /** `isWeighed`: its size counts for the bounds. */
  push(followed: FollowedEvent, isWeighed: boolean): void {
    const bytes = isWeighed ? Buffer.byteLength(JSON.stringify(followed.event)) : 0
    this.#add({ followed, bytes })
  }

  /** Takes over the events of others, by their times. */
  merge(others: readonly EventQueue[]): void {
    for (const { loss } of others) this.addLoss(loss)
    const heads = others.map((other) => other.#events)
    const timeOf = ([first]: readonly QueuedEvent[]): number => first?.followed.event.at ?? 0
    for (;;) {
      const waiting = heads.filter((each) => each.length > 0)
      const entry = waiting.toSorted((one, other) => timeOf(one) - timeOf(other))[0]?.shift()
      if (!entry) return
      this.#add(entry)
    }
  }

  #add(entry: QueuedEvent): void {
    this.#events.push(entry)
    this.#bytes += entry.bytes
  }

  /** Drops the oldest events beyond the bounds, but never the only one. */
  dropOldest(): void {
    while (this.size > 1 && (this.size > MAX_QUEUED_EVENTS || this.#bytes > MAX_QUEUED_BYTES)) {
      this.#bytes -= this.#events.shift()?.bytes ?? 0
      this.#dropped++
    }
  }

  /** Removes the first event, with what was lost before it. */
  shift(): FirstEvent | undefined {
    const first = this.#events.shift()
    if (!first) return undefined
    const { loss } = this
    this.#bytes -= first.bytes
    this.#dropped = 0
    this.#isGap = false
    return { ...first.followed, loss }
  }
}

interface QueuedEvent {
  readonly followed: FollowedEvent
  readonly bytes: number
}

/** The positions behind all events that there are, in the logs of requests. @throws SERVER_UNAVAILABLE */
export async function endOfLogs(
  requests: readonly EventRequest[],
  catalog: EventCatalog,
): Promise<Positions> {
  const ends = [...byLog(requests).keys()].map(async (log) => {
    return [log, await eventsOf(log, catalog).now()] as const
  })
  return Object.fromEntries(await Promise.all(ends))
}

/** The key of the log that has the events of a type. */
export function logOf({ upstream }: NamedType['type']): string {
  return upstream ?? ''
}

/** The log of a key. */
function eventsOf(log: string, catalog: Pick<EventCatalog, 'events'>): ServerEvents {
  return catalog.events(log === '' ? undefined : log)
}

function byLog(requests: readonly EventRequest[]): ReadonlyMap<string, readonly EventRequest[]> {
  return Map.groupBy(requests, ({ type }) => logOf(type))
}

// Reading one log

/** Requested events of one log, in order. */
interface LogPart {
  readonly events: readonly Omit<FollowedEvent, 'log'>[]
  /** Where it begins, and the position after everything that was scanned. */
  readonly start: string
  readonly position: string
  /** Whether events that were requested are gone, too old, or were missed because the gateway did not listen. */
  readonly isGap: boolean
  readonly hasMore: boolean
  /** The error that ended the subscription at its server; then there are no events, and none will follow. */
  readonly ended?: GatewayError
}

/**
 * Reads at most `limit` events that at least one of the requests is for, and that the caller may receive: after a position,
 * or from the oldest event on. @throws SERVER_UNAVAILABLE
 */
async function readPart(
  requests: readonly EventRequest[],
  call: Call,
  { position, limit }: { readonly position: string | undefined; readonly limit: number },
  log: ServerEvents,
): Promise<LogPart> {
  await log.retain()
  const events: Omit<FollowedEvent, 'log'>[] = []
  let isGap = false
  let start: string | undefined
  let at = position
  for (let scanned = 0; ;) {
    const page = await log.read(at)
    start ??= page.start
    isGap ||= page.isGap
    for (const { value, cursor } of page.entries) {
      const event = asEvent(value)
      // Whoever does not say how far it got begins anew, whatever ended before.
      const ended = event && position !== undefined ? endOf(event, requests) : undefined
      const upToHere = { events, start, position: at ?? start, isGap }
      if (events.length >= limit || (ended && events.length > 0)) return { ...upToHere, hasMore: true }
      if (ended) return { ...upToHere, hasMore: false, ended }
      at = cursor
      if (event && requests.some((each) => marksGap(event, each))) isGap = true
      const request = event && (await requestOf(event, requests, call))
      if (!request) continue
      if (event.at < request.notBefore) isGap = true
      else events.push({ event, request, position: cursor })
    }
    at = page.cursor
    scanned += page.entries.length
    if (!page.hasMore || scanned >= MAX_SCANNED_EVENTS)
      return { events, start, position: at, isGap, hasMore: page.hasMore }
  }
}

/** Whether events may be missing before an entry of the log. */
export function marksGap(
  entry: LoggedEvent,
  { type, arguments: given }: Pick<EventRequest, 'type' | 'arguments'>,
): boolean {
  return entry.name === LOGGING_BEGAN || type.isGap?.(given, entry) === true
}

/** The error that ended all of the requests; one of several that ended leaves the others. */
function endOf(entry: LoggedEvent, requests: readonly EventRequest[]): GatewayError | undefined {
  const [request, ...others] = requests
  return others.length > 0 ? undefined : request?.type.endOf?.(request.arguments, entry)
}

/** The first request for an event whose caller may receive it now. */
async function requestOf(
  event: LoggedEvent,
  requests: readonly EventRequest[],
  call: Call,
): Promise<EventRequest | undefined> {
  for (const request of requests) {
    const { type, arguments: given } = request
    if (event.name !== type.name || !type.isRequested(given, event)) continue
    if (await type.mayReceive(event, call)) return request
  }
  return undefined
}

// Polling

/** How many events a poll returns by default, and at most. */
const DEFAULT_POLL_EVENTS = 100
const MAX_POLL_EVENTS = 500
/** How long a client should wait before it polls again, in milliseconds. */
export const POLL_INTERVAL_MS = 5000

/** How many events are requested, by the name of the member that says so. @throws INVALID_INPUT */
export function pollLimit({ params }: Call, member: string): number {
  const value = params.fields[member] ?? DEFAULT_POLL_EVENTS
  if (!isCount(value)) throw invalid(member, 'must be a whole number from 0')
  return Math.min(Math.max(value, 1), MAX_POLL_EVENTS)
}

/**
 * At most `limit` events, and what was lost before the first of them. `isBounded`: the oldest are dropped if too many wait.
 * @throws SERVER_UNAVAILABLE
 */
export async function poll(follower: Follower, limit: number, isBounded: boolean) {
  const { hasMore, ended } = await follower.read(isBounded ? undefined : limit)
  const { loss } = follower
  const events: TakenEvent[] = []
  for (let taken = follower.take(); taken; taken = events.length < limit ? follower.take() : undefined)
    events.push(taken)
  return { events, loss, hasMore: hasMore || follower.size > 0, ended }
}

/** Whether a value counts something: a whole number from 0. */
export function isCount(value: unknown): value is number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0
}

// Keeping what is followed

/** How often what lasts retains its events and sources, in milliseconds. They are retained for minutes. */
export const RETAIN_INTERVAL_MS = 60_000

/**
 * Has the events of requests kept, and their sources open, for a while. A source closes some time after it was retained
 * last, so streams and subscriptions retain it on a timer: idle ones stay open.
 * @throws QUOTA_EXHAUSTED, SERVER_UNAVAILABLE, and the error with which a server refuses to send them
 */
export async function retain(
  requests: readonly Pick<EventRequest, 'type' | 'arguments'>[],
  principal: Principal,
  { events }: Pick<EventCatalog, 'events'>,
): Promise<void> {
  const upstreams = new Set(requests.map(({ type }) => type.upstream))
  await Promise.all([...upstreams].map((upstream) => events(upstream).retain()))
  await Promise.all(requests.map(async ({ type, arguments: given }) => type.retain?.(given, principal)))
}

/**
 * Calls `step` at intervals, but not while an earlier call runs, until the signal is aborted. If it fails, the next one
 * tries again.
 */
export function repeatedly(step: () => Promise<void>, intervalMs: number, signal: AbortSignal): void {
  if (signal.aborted) return
  let isRunning = false
  const run = async (): Promise<void> => {
    if (isRunning) return
    isRunning = true
    await step().catch(() => undefined)
    isRunning = false
  }
  const timer = world.setInterval(() => void run(), intervalMs).unref()
  signal.addEventListener('abort', () => world.clearInterval(timer), { once: true })
}

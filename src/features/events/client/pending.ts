/**
 * Events that are to be sent to one subscriber, in order and within bounds: beyond them the oldest are dropped, and the
 * next one that is sent says how many.
 *
 * Invariant: the events of one log keep its order. Those of several logs are merged by their times.
 */
import type { Call } from '../../../core/call.ts'
import { isObject, readJson } from '../../../core/json/json.ts'
import { type EventRequest, nextOfSeveral, type Parts } from '../requests.ts'
import type { LoggedEvent } from '../server-events.ts'

/** A position in the log of each server; the key of the log of no server is the empty text. */
export type Positions = Readonly<Record<string, string>>

/** An event to be sent, and the position after it in its log. */
export interface PendingEvent {
  readonly event: LoggedEvent
  readonly log: string
  readonly position: string
}

/** What is said with an event: how many before it were dropped, and whether more of them are gone. */
export interface Loss {
  readonly dropped: number
  readonly isGap: boolean
}

/** What one subscriber may have pending. */
const MAX_PENDING_EVENTS = 1000
const MAX_PENDING_BYTES = 1024 * 1024
/** How many events are read at once. */
const READ_EVENTS = 200

/** Events in order; when there are too many, the oldest are dropped. */
export class PendingEvents {
  readonly #events: { readonly pending: PendingEvent; readonly bytes: number }[] = []
  #bytes = 0
  #dropped = 0
  #isGap = false

  get size(): number {
    return this.#events.length
  }

  push(pending: PendingEvent): void {
    const bytes = Buffer.byteLength(JSON.stringify(pending.event))
    this.#events.push({ pending, bytes })
    this.#bytes += bytes
    while (this.#events.length > MAX_PENDING_EVENTS || this.#bytes > MAX_PENDING_BYTES) {
      if (this.#events.length === 1) return
      this.#bytes -= this.#events.shift()?.bytes ?? 0
      this.#dropped++
    }
  }

  /** Adds what is pending in another one. */
  take(others: readonly PendingEvents[]): void {
    for (const { loss } of others) this.add(loss)
    const heads = others.map((other) => other.#events.map(({ pending }) => pending))
    for (;;) {
      const first = heads
        .filter((each) => each.length > 0)
        .toSorted(([one], [other]) => (one?.event.at ?? 0) - (other?.event.at ?? 0))[0]
        ?.shift()
      if (!first) return
      this.push(first)
    }
  }

  /** The oldest event, and what was lost before it. */
  shift(): (PendingEvent & { readonly loss: Loss }) | undefined {
    const first = this.#events.shift()
    if (!first) return undefined
    const { loss } = this
    this.#bytes -= first.bytes
    this.#dropped = 0
    this.#isGap = false
    return { ...first.pending, loss }
  }

  /** Puts an event back that could not be sent. */
  putBack({ loss, ...pending }: PendingEvent & { readonly loss: Loss }): void {
    const bytes = Buffer.byteLength(JSON.stringify(pending.event))
    this.#events.unshift({ pending, bytes })
    this.#bytes += bytes
    this.add(loss)
  }

  /** What was lost before the oldest event. */
  get loss(): Loss {
    return { dropped: this.#dropped, isGap: this.#isGap }
  }

  add({ dropped, isGap }: Loss): void {
    this.#dropped += dropped
    this.#isGap ||= isGap
  }
}

/** What was read of logs: the events of each, and the positions behind them. */
interface ReadEvents {
  readonly found: readonly PendingEvents[]
  readonly positions: Positions
  /** Whether no more events will follow. */
  readonly isOver: boolean
}

/** Reads all requested events behind positions. @throws SERVER_UNAVAILABLE */
export async function readPending(
  requests: readonly EventRequest[],
  from: Positions,
  call: Call,
  parts: Parts,
): Promise<ReadEvents> {
  const read = await Promise.all(
    [...byLog(requests)].map(async ([log, own]) => {
      const found = new PendingEvents()
      const events = parts.events(log === '' ? undefined : log)
      let position = from[log]
      let isOver = false
      for (let hasMore = true; hasMore;) {
        const batch = await nextOfSeveral(own, call, { position, limit: READ_EVENTS }, events)
        found.add({ dropped: 0, isGap: batch.isTruncated })
        for (const { event, position: after } of batch.events) found.push({ event, log, position: after })
        position = batch.position
        hasMore = batch.hasMore
        isOver = batch.ended !== undefined
      }
      return { log, position, found, isOver }
    }),
  )
  const positions = read.flatMap(({ log, position }) => (position === undefined ? [] : [[log, position]]))
  const isOver = read.every((each) => each.isOver)
  return {
    found: read.map(({ found }) => found),
    isOver,
    positions: { ...from, ...Object.fromEntries(positions) },
  }
}

/** The positions behind all events that there are, in the logs of requests. @throws SERVER_UNAVAILABLE */
export async function endOfLogs(requests: readonly EventRequest[], parts: Parts): Promise<Positions> {
  const ends = [...byLog(requests).keys()].map(async (log) => {
    return [log, await parts.events(log === '' ? undefined : log).now()] as const
  })
  return Object.fromEntries(await Promise.all(ends))
}

/** Requests by the log that has their events. */
export function byLog(requests: readonly EventRequest[]): ReadonlyMap<string, readonly EventRequest[]> {
  return Map.groupBy(requests, ({ type }) => type.upstream ?? '')
}

/** Positions as text; `{}` if it is none. */
export function parsePositions(text: string): Positions {
  const value = readJson(text)
  if (!isObject(value)) return {}
  const texts = Object.entries(value).filter((entry): entry is [string, string] => {
    return typeof entry[1] === 'string'
  })
  return Object.fromEntries(texts)
}

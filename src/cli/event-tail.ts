/**
 * `gatehouse events tail`: reads the logs of several servers as one sequence by time. What is not in a log is reported where it
 * is missing: dropped events, and what a server notified while the gateway did not listen.
 */
import { setTimeout as wait } from 'node:timers/promises'
import { oneLine } from '../core/text/escape.ts'
import { fits } from '../core/text/pattern.ts'
import { isoTime } from '../core/time/waiting.ts'
import type { AppendLog } from '../durable/log.ts'
import {
  asEvent,
  LISTENING_BEGAN,
  LOGGING_BEGAN,
  type LoggedEvent,
  openEventLog,
} from '../records/logged-events.ts'
import type { Store } from '../store/store.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { readStored, unknownServer, withStore } from './config-file.ts'
import type { Io } from './io.ts'
import { type Output, printOutput, type Stream, timeText } from './output.ts'

/** How many events of one log are read at once. */
const PAGE_EVENTS = 200
/** How often the logs are read again, in milliseconds. */
const POLL_INTERVAL_MS = 1000
/** The longest data of an event on one line, in characters. */
const MAX_DATA_LENGTH = 400

type TailOptions = Given<(typeof commands)['events tail']>

/** `gatehouse events tail`: the events in the store. */
export async function tail(given: TailOptions, io: Io): Promise<Output> {
  const { server, since, store: folder } = given
  if (since !== undefined && since > Date.now()) throw new UsageError('--since is in the future')
  const settings = readStored(given, io)
  if (server === undefined && folder !== undefined)
    throw new UsageError('with --store, give the name of a server')
  return withStore(settings, io, async (store) => {
    const logs = logsOf(store, server, settings.servers)
    // A server that was removed from the configuration can have events.
    const isKnown = folder !== undefined || (await logs[0]?.log.hasBegun())
    if (server !== undefined && isKnown !== true && !settings.servers.includes(server))
      throw unknownServer(server, settings.servers)
    return printOutput(streamOf(new Tail(logs), given, io), given.json, io)
  })
}

/** The entries that are asked for. */
function streamOf(logs: Tail, given: TailOptions, io: Io): Stream {
  const entries = async function* (all: AsyncIterable<TailEntry>) {
    for await (const entry of all)
      if (isAsked(entry, given)) yield { json: entryView(entry), text: entryLine(entry) }
  }
  if (!given.follow) return { entries: entries(logs.entries()), none: 'No events.' }
  const stopping = new AbortController()
  const stop = (): void => stopping.abort()
  // Such as `gatehouse events tail --follow | head`.
  io.stdout.once('error', stop)
  void io.untilStopped().then(stop)
  return { entries: entries(logs.follow(stopping.signal)) }
}

function isAsked(entry: TailEntry, { type, since }: TailOptions): boolean {
  if (entry.kind === 'gap') return since === undefined || entry.at === undefined || entry.at >= since
  const { name, at } = entry.event
  return (since === undefined || at >= since) && (type === undefined || fits(type, name))
}

/** The log of a server, or those of all and of the gateway itself. */
export function logsOf(
  store: Store,
  server: string | undefined,
  servers: readonly (string | undefined)[],
): readonly ReadLog[] {
  const upstreams = server === undefined ? [...new Set([...servers, undefined])] : [server]
  return upstreams.map((upstream) => ({
    upstream,
    log: openEventLog(store, upstream, { ttl: 0, isShared: true }),
  }))
}

/** A log to read. */
export interface ReadLog {
  /** Its server; undefined for the events that belong to no server. */
  readonly upstream: string | undefined
  readonly log: Pick<AppendLog, 'hasBegun' | 'read'>
}

/** An event, or a place where events may be missing. */
export type TailEntry =
  | { readonly kind: 'event'; readonly upstream: string | undefined; readonly event: LoggedEvent }
  | {
      readonly kind: 'gap'
      readonly upstream: string | undefined
      /** Events were dropped before they were read, no client requested any, or nothing listened to the server. */
      readonly why: 'dropped' | 'not_wanted' | 'not_listening'
      /** The resource that is listened to. */
      readonly uri?: string
      /** When events are complete again, in milliseconds since 1970; undefined if none follow yet. */
      readonly at: number | undefined
    }

/** The entries of logs from the oldest on, sorted by time, with those that were added since the last iteration. */
export class Tail {
  readonly #readers: readonly LogReader[]

  constructor(logs: readonly ReadLog[]) {
    this.#readers = logs.map((each) => new LogReader(each))
  }

  /** Every entry up to the present end of the logs. @throws SERVER_UNAVAILABLE */
  async *entries(): AsyncGenerator<TailEntry> {
    for (const reader of this.#readers) reader.isAtEnd = false
    for (;;) {
      for (const reader of this.#readers) await reader.fill()
      const [first] = this.#readers
        .filter(({ next }) => next !== undefined)
        .toSorted((one, other) => timeOf(one.next) - timeOf(other.next))
      const entry = first?.take()
      if (!entry) return
      yield entry
    }
  }

  /**
   * The same, and then those that are added, until the signal is aborted. `pause` waits before the logs are read again.
   * @throws SERVER_UNAVAILABLE
   */
  async *follow(signal: AbortSignal, pause = pauseBetweenReads): AsyncGenerator<TailEntry> {
    while (!signal.aborted) {
      for await (const entry of this.entries()) {
        if (signal.aborted) return
        yield entry
      }
      await pause(signal)
    }
  }
}

/** Never rejects. */
async function pauseBetweenReads(signal: AbortSignal): Promise<void> {
  await wait(POLL_INTERVAL_MS, undefined, { signal }).catch(() => undefined)
}

function timeOf(entry: TailEntry | undefined): number {
  return (entry?.kind === 'event' ? entry.event.at : entry?.at) ?? 0
}

/** The entries of one log, page by page. */
class LogReader {
  /** Whether the log was read up to its present end. */
  isAtEnd = false
  readonly #source: ReadLog
  #entries: TailEntry[] = []
  #cursor: string | undefined

  constructor(source: ReadLog) {
    this.#source = source
  }

  get next(): TailEntry | undefined {
    return this.#entries[0]
  }

  take(): TailEntry | undefined {
    return this.#entries.shift()
  }

  /** Reads the next page with entries once the last one is used. */
  async fill(): Promise<void> {
    const { upstream, log } = this.#source
    // A command does not begin logs: a name that no gateway uses would leave one behind.
    if (this.#cursor === undefined && !this.isAtEnd && !(await log.hasBegun())) this.isAtEnd = true
    while (this.#entries.length === 0 && !this.isAtEnd) {
      const page = await log.read(this.#cursor, PAGE_EVENTS)
      this.#cursor = page.cursor
      this.isAtEnd = !page.hasMore
      const found = page.entries.flatMap(({ value }) => entryOf(upstream, asEvent(value)) ?? [])
      const at = found[0] && timeOf(found[0])
      this.#entries = page.isGap ? [{ kind: 'gap', upstream, why: 'dropped', at }, ...found] : found
    }
  }
}

function entryOf(upstream: string | undefined, event: LoggedEvent | undefined): TailEntry | undefined {
  if (!event) return undefined
  const { name, at } = event
  if (name === LOGGING_BEGAN) return { kind: 'gap', upstream, why: 'not_wanted', at }
  if (name !== LISTENING_BEGAN) return { kind: 'event', upstream, event }
  const { uri } = event.data
  return {
    kind: 'gap',
    upstream,
    why: 'not_listening',
    at,
    ...(typeof uri === 'string' && { uri }),
  }
}

// Entries as text. Names and data come from servers and callers: they are escaped.

/** An entry on one line. */
export function entryLine(entry: TailEntry): string {
  const server = entry.upstream ?? 'gateway'
  if (entry.kind === 'event') {
    const { at, name, data } = entry.event
    return [timeText(at), oneLine(server), oneLine(name), shortened(oneLine(JSON.stringify(data)))].join('  ')
  }
  const at = entry.at === undefined ? 'from now on' : timeText(entry.at)
  return oneLine(`${at}  ${server}  -- ${gapText(entry)}`)
}

function gapText({ why, uri }: Extract<TailEntry, { kind: 'gap' }>): string {
  if (why === 'dropped') return 'events before this were dropped before they could be read'
  if (why === 'not_wanted') return 'no client requested events before this: they were not kept'
  const what = uri === undefined ? 'changes of lists' : `updates of ${uri}`
  return `listening began: ${what} that the server notified before this may be missing`
}

/** An entry as JSON. */
export function entryView(entry: TailEntry): object {
  const server = entry.upstream ?? null
  if (entry.kind === 'event') {
    const { id, name, at, by, data } = entry.event
    return { server, id, type: name, at: isoTime(at), by, data }
  }
  const { why, uri, at } = entry
  return { server, gap: why, at: at === undefined ? undefined : isoTime(at), uri }
}

function shortened(text: string): string {
  return text.length <= MAX_DATA_LENGTH
    ? text
    : `${text.slice(0, MAX_DATA_LENGTH)}… (${text.length} characters)`
}

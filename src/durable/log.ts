/**
 * An append log in the store: entries in order, read from a cursor, within bounds. The store has no lists, so each append
 * is one value, a segment, under the next free number: `setIfAbsent` lets one of many writers have a number, and readers
 * see all entries of an append or none. The head says where the log begins and, at least, where it ends.
 *
 * Invariants: a position is never used twice; an entry that was dropped before a reader got to it is reported as a gap.
 * What is appended while a write is running is written together after it, so a log takes as many appends as come.
 *
 * The head is written after the segment. If a process ends in between, the segment is there and the head is behind: the
 * next writer or reader finds the segment at the number after the head, and corrects the head.
 *
 * Entries do not change. So the actions that can be undone, which are found by key and marked when they are undone, are
 * records of their own (`records/actions.ts`), and the anchor of an audit log is one value (`observability/audit/anchor.ts`).
 * They can be erased: then a mark is in their place, which readers skip, so that positions stay what they were.
 */
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { world } from '../core/world.ts'
import { asList, isObject, readJson } from '../core/json/json.ts'
import { FOREVER, type Store } from '../store/store.ts'
import { casUpdate, type CasUpdate, casUpdateSeen } from './cas-update.ts'

/** What a log holds at most, and for how long. Beyond these bounds, the oldest segments are dropped. */
export interface LogBounds {
  readonly maxEntries: number
  readonly maxBytes: number
  /** In milliseconds. */
  readonly ttl: number
}

/** The text of an entry as JSON, and the position before it. */
export interface LoggedText {
  readonly text: string
  readonly cursor: string
}

/** One entry of a log, and the position after it. */
interface LogEntry {
  readonly value: unknown
  readonly cursor: string
}

/** Entries that follow a cursor. */
export interface LogPage {
  readonly entries: readonly LogEntry[]
  /** The position that was read from: the requested one, unless there is a gap. */
  readonly start: string
  /** The position after the last one. */
  readonly cursor: string
  /** Whether entries after the requested cursor are gone, or may be: reading continued at the oldest that is left. */
  readonly isGap: boolean
  /** Whether more entries follow. */
  readonly hasMore: boolean
}

/** Between entries of a segment: JSON texts have no line breaks, so each entry has a line of its own. */
const SEPARATOR = ',\n'
/** How much is written as one segment, in bytes. */
const MAX_SEGMENT_BYTES = 256 * 1024
/** How many segments are read at once. */
const READ_BATCH_SEGMENTS = 32
/** How much text of segments is kept with what was read from it, in characters. */
const MAX_DECODED_LENGTH = 1024 * 1024

/** A log by name. Concurrent appends of one process are written together, those of several processes one after another. */
export class AppendLog {
  readonly #store: Store
  /** The key of its head in the store, which changes with every append. */
  readonly key: string
  readonly #bounds: LogBounds
  #waiting: WaitingAppend[] = []
  #isWriting = false
  /** Segments by the numbers in their keys: many readers read the same ones. */
  readonly #decoded = new LRUCache<string, { readonly text: string; readonly segment: Segment }>({
    maxSize: MAX_DECODED_LENGTH,
  })

  constructor(store: Store, name: string, bounds: LogBounds) {
    this.#store = store
    this.key = `log:{${hash('sha256', name).slice(0, 32)}}`
    this.#bounds = bounds
  }

  /**
   * Appends entries, and resolves with the position after the last of them once they are as durable as the store is.
   * @throws RangeError if they are larger than the log may be, SERVER_UNAVAILABLE
   */
  append(entries: readonly unknown[]): Promise<string> {
    if (entries.length === 0) return this.end()
    const text = entries.map((entry) => JSON.stringify(entry)).join(SEPARATOR)
    const { maxBytes, maxEntries } = this.#bounds
    if (Buffer.byteLength(text) > maxBytes || entries.length > maxEntries)
      return Promise.reject(new RangeError('The entries are larger than their log may be.'))
    const done = Promise.withResolvers<string>()
    this.#waiting.push({ text, count: entries.length, done })
    if (!this.#isWriting) void this.#writeAll()
    return done.promise
  }

  /** At most `limit` entries after a cursor; without one, from the oldest on. @throws SERVER_UNAVAILABLE */
  async read(after: string | undefined, limit: number): Promise<LogPage> {
    const head = await this.#ensureHead()
    const requested = after === undefined ? undefined : parseCursor(after)
    const isThere = requested !== undefined && isWithin(requested, head)
    let isGap = after !== undefined && !isThere
    let at = isThere ? requested : { epoch: head.epoch, segment: head.first, index: 0 }
    const start = cursorOf(at)
    const entries: LogEntry[] = []
    const page = async (hasMore: boolean): Promise<LogPage> => {
      // Otherwise a position that was read could be used again after its segment expired.
      if (at.segment > head.next) await this.end()
      return { entries, start, cursor: cursorOf(at), isGap, hasMore }
    }
    for (;;) {
      // Behind the head there is one more at most, unless writers have ended.
      const expected = head.next - at.segment + 1
      for (const segment of await this.#readSegments(head.epoch, at.segment, expected)) {
        // Every number before the head was used, so a segment that is missing there has expired.
        if (!segment.values && segment.number >= head.next) return page(false)
        isGap ||= !segment.values
        const [read, index] = entriesOf(segment, at, limit - entries.length)
        entries.push(...read)
        if (index < (segment.values?.length ?? 0)) {
          at = { ...at, index }
          return page(true)
        }
        at = segmentAfter(at)
      }
    }
  }

  /**
   * Searches backwards from a cursor, or from the end: the texts of entries, as JSON, in batches, newest first. Nothing is
   * parsed, so a long log is searched fast. `select` is asked about the text of many entries at once: whether some of them
   * may match, or whether the search ends before them. Entries of logs that were written before entries had lines of their own come as one text.
   * @throws SERVER_UNAVAILABLE
   */
  async *backwards(
    before: string | undefined,
    select: (text: string) => boolean | 'end' = () => true,
  ): AsyncGenerator<readonly LoggedText[]> {
    const end = before ?? (await this.end())
    const { epoch, first } = await this.#ensureHead()
    const position = parseCursor(end)
    if (!position || position.epoch !== epoch) return
    for (let last = position.segment; last >= first; last -= READ_BATCH_SEGMENTS) {
      const from = Math.max(first, last - READ_BATCH_SEGMENTS + 1)
      const texts = await this.#readTexts(epoch, from, last - from + 1)
      for (const [index, text] of texts.toReversed().entries()) {
        const choice = text !== undefined && select(text)
        if (choice === 'end') return
        if (text === undefined || !choice) continue
        const segment = last - index
        const lines = linesOf(text).map((line, at) => ({
          text: line,
          cursor: cursorOf({ epoch, segment, index: at }),
        }))
        const read = segment === position.segment ? lines.slice(0, position.index) : lines
        yield read.filter((line) => line.text !== ERASED).toReversed()
      }
    }
  }

  /** Whether the log has begun: reading one that has not begins it. @throws SERVER_UNAVAILABLE */
  async hasBegun(): Promise<boolean> {
    return (await this.#findHead()) !== undefined
  }

  /** The position after the last entry: what is appended later follows it. @throws SERVER_UNAVAILABLE */
  async end(): Promise<string> {
    const { epoch, next, text } = await this.#ensureHead()
    let last: Segment | undefined
    for (let number = next; ;) {
      const segments = await this.#readSegments(epoch, number, number - next + 1)
      const free = segments.findIndex(({ values }) => !values)
      last = segments.slice(0, free === -1 ? undefined : free).at(-1) ?? last
      number += free === -1 ? segments.length : free
      if (free === -1) continue
      if (last) await this.#advance(epoch, last, text)
      return cursorOf({ epoch, segment: number, index: 0 })
    }
  }

  /** Writes what waits, and what comes meanwhile. Never rejects. */
  async #writeAll(): Promise<void> {
    this.#isWriting = true
    while (this.#waiting.length > 0) {
      const batch = this.#takeBatch()
      try {
        const cursor = await this.#write(batch)
        for (const { done } of batch) done.resolve(cursor)
      } catch (error) {
        for (const { done } of batch) done.reject(error)
      }
    }
    this.#isWriting = false
  }

  /** The appends that fit into one segment; at least one. */
  #takeBatch(): readonly WaitingAppend[] {
    let bytes = 0
    const end = this.#waiting.findIndex(({ text }, index) => {
      bytes += Buffer.byteLength(text)
      return index > 0 && bytes > Math.min(this.#bounds.maxBytes, MAX_SEGMENT_BYTES)
    })
    return this.#waiting.splice(0, end === -1 ? this.#waiting.length : end)
  }

  async #write(batch: readonly WaitingAppend[]): Promise<string> {
    const entries = batch.map(({ text }) => text).join(SEPARATOR)
    const added = batch.reduce((sum, { count }) => sum + count, 0)
    const { epoch, next, written, text: seen } = await this.#ensureHead()
    let before = written
    for (let number = next; ; number++) {
      const text = `[${before.events},${before.bytes},[${entries}]]`
      const taken = await this.#store.setIfAbsent(this.#segmentKey(epoch, number), text, this.#bounds.ttl)
      if (taken !== undefined) {
        before = this.#decode(epoch, number, taken).after
        continue
      }
      const after = amountAfter(before, added, text)
      await this.#keepBounds(await this.#advance(epoch, { number, after }, seen))
      return cursorOf({ epoch, segment: number + 1, index: 0 })
    }
  }

  /** Moves the end of the log behind a segment, unless another process did. `seen` is the text of the head before. */
  #advance(
    epoch: string,
    { number, after }: Pick<Segment, 'number' | 'after'>,
    seen: string,
  ): Promise<Head | undefined> {
    return this.#changeHead((head) => {
      if (head.epoch !== epoch || head.next > number) return head
      return { ...head, next: number + 1, written: after }
    }, seen)
  }

  /** Drops the oldest segments while there is too much; the last one stays. */
  async #keepBounds(head: Head | undefined): Promise<void> {
    const { maxEntries, maxBytes } = this.#bounds
    for (let now = head; now && now.first < now.next - 1; now = await this.#dropFirst(now)) {
      const { written, dropped } = now
      const isWithinCount = written.events - dropped.events <= maxEntries
      if (isWithinCount && written.bytes - dropped.bytes <= maxBytes) return
    }
  }

  async #dropFirst({ epoch, first, next }: Head): Promise<Head | undefined> {
    const second = first + 1 < next ? await this.#store.get(this.#segmentKey(epoch, first + 1)) : undefined
    const head = await this.#changeHead((now) => {
      if (now.epoch !== epoch || now.first !== first) return now
      if (first + 1 >= now.next) return { ...now, first: now.next, dropped: now.written }
      // If the second one has expired too, what it says is not needed: it is dropped next.
      return {
        ...now,
        first: first + 1,
        ...(second !== undefined && { dropped: amountBefore(second) }),
      }
    })
    await this.#store.putAll([], [this.#segmentKey(epoch, first)])
    return head
  }

  /** Some segments from a number on: about as many as are expected. */
  async #readSegments(epoch: string, from: number, expected: number): Promise<readonly Segment[]> {
    const length = Math.min(Math.max(expected, 1), READ_BATCH_SEGMENTS)
    const texts = await this.#readTexts(epoch, from, length)
    return texts.map((text, index) => this.#decode(epoch, from + index, text))
  }

  #readTexts(epoch: string, from: number, length: number): Promise<readonly (string | undefined)[]> {
    const numbers = Array.from({ length }, (_each, index) => from + index)
    return Promise.all(numbers.map((number) => this.#store.get(this.#segmentKey(epoch, number))))
  }

  #decode(epoch: string, number: number, text: string | undefined): Segment {
    if (text === undefined) return segmentOf(number, text)
    const key = `${epoch}:${number}`
    const found = this.#decoded.get(key)
    if (found?.text === text) return found.segment
    const segment = segmentOf(number, text)
    this.#decoded.set(key, { text, segment }, { size: text.length })
    return segment
  }

  async #findHead(): Promise<Head | undefined> {
    return parseHead(await this.#store.get(this.key))
  }

  /** The head, written if there is none. It has no expiry, so that positions are never used again. */
  async #ensureHead(): Promise<Head & { readonly text: string }> {
    const found = await this.#store.get(this.key)
    const known = parseHead(found)
    if (known && found !== undefined) return { ...known, text: found }
    const epoch = world.randomBytes(6).toString('base64url')
    const head = { epoch, first: 1, next: 1, written: NOTHING, dropped: NOTHING }
    const text = JSON.stringify(head)
    const existing = await this.#store.setIfAbsent(this.key, text, FOREVER)
    return { ...(parseHead(existing) ?? head), text: existing ?? text }
  }

  /** Changes the head if it is there, and resolves with the result. If it is as it was `seen`, it is not read again. */
  async #changeHead(change: (head: Head) => Head, seen?: string): Promise<Head | undefined> {
    const decide = (text: string | undefined): CasUpdate<Head | undefined> => {
      const head = parseHead(text)
      const changed = head && change(head)
      if (changed === head) return { result: head }
      return { result: changed, write: { text: JSON.stringify(changed), ttl: FOREVER } }
    }
    const written = seen === undefined ? undefined : await casUpdateSeen(this.#store, this.key, seen, decide)
    if (written) return written.result
    // If it changes too often, it stays behind, and the next writer or reader corrects it.
    return casUpdate(this.#store, this.key, decide, () => undefined)
  }

  #segmentKey(epoch: string, number: number): string {
    return `${this.key}:${epoch}:${number}`
  }
}

interface WaitingAppend {
  /** The entries as JSON, separated by commas, and how many there are. */
  readonly text: string
  readonly count: number
  readonly done: PromiseWithResolvers<string>
}

/** How many entries there were up to a point of the log, and their size. Field names are persisted and do not change. */
interface Amount {
  readonly events: number
  readonly bytes: number
}

const NOTHING: Amount = { events: 0, bytes: 0 }

/** Where the log begins and ends. */
interface Head {
  /** Distinguishes this log from one that was lost and begun again. */
  readonly epoch: string
  /** The number of the oldest segment. */
  readonly first: number
  /** The number of the next segment, or a smaller one. */
  readonly next: number
  /** What was written up to `next`, and what of it was dropped, in total. */
  readonly written: Amount
  readonly dropped: Amount
}

/** A segment as it was read, with the amounts before and after it. */
interface Segment {
  readonly number: number
  /** Absent if there is no segment of this number. */
  readonly values?: readonly unknown[]
  readonly before: Amount
  readonly after: Amount
}

/** A segment from its text: the amounts before it, and its entries. */
function segmentOf(number: number, text: string | undefined): Segment {
  const parsed = text === undefined ? undefined : readJson(text)
  if (text === undefined || !Array.isArray(parsed)) return { number, before: NOTHING, after: NOTHING }
  const before = amountBefore(text)
  const [, , values]: unknown[] = parsed
  const read: readonly unknown[] = Array.isArray(values) ? values : []
  return { number, values: read, before, after: amountAfter(before, read.length, text) }
}

/** The amounts before a segment, with which its text begins. */
function amountBefore(text: string): Amount {
  const [, events = 0, bytes = 0] = /^\[(\d+),(\d+),/.exec(text) ?? []
  return { events: Number(events), bytes: Number(bytes) }
}

/** The amounts after a segment of this text. */
function amountAfter({ events, bytes }: Amount, added: number, text: string): Amount {
  return { events: events + added, bytes: bytes + Buffer.byteLength(text) }
}

/** The texts of the entries of a segment, oldest first. */
function linesOf(text: string): readonly string[] {
  const start = text.indexOf('[', 1) + 1
  return start === 0 ? [] : text.slice(start, -2).split(SEPARATOR)
}

/** At most `limit` entries of a segment from a position on, and the index after the last of them. */
function entriesOf(
  { values = [] }: Segment,
  { epoch, segment, index: from }: Position,
  limit: number,
): readonly [read: readonly LogEntry[], index: number] {
  const read: LogEntry[] = []
  let index = from
  while (index < values.length && read.length < limit) {
    const value = values[index++]
    if (isErased(value)) continue
    const at = { epoch, segment, index }
    read.push({ value, cursor: cursorOf(index === values.length ? segmentAfter(at) : at) })
  }
  return [read, index]
}

// Erasing: whoever erases finds the segments of all logs by their keys, also of those that nobody opens any more.

/** What is in the place of an entry that was erased. Persisted. */
const ERASED = '{"erased":true}'

function isErased(value: unknown): boolean {
  return isObject(value) && value.erased === true && Object.keys(value).length === 1
}

/** The key of a segment. */
const SEGMENT_KEY = /^log:\{[0-9a-f]{32}\}:[\w-]{1,16}:\d{1,15}$/

/** Whether a key in a store is that of a segment of a log. */
export function isSegmentKey(key: string): boolean {
  return SEGMENT_KEY.test(key)
}

/**
 * The text of a segment with other entries: `change` returns an entry as it is, another one in its place, or undefined to erase it.
 * Undefined if nothing changed. It is to take the place of the other text by compare-and-swap, under the same key and with the same
 * expiry.
 */
export function withChangedEntries(text: string, change: (entry: unknown) => unknown): string | undefined {
  const parsed = readJson(text)
  if (!Array.isArray(parsed)) return undefined
  const [events, bytes, values]: unknown[] = parsed
  let isChanged = false
  const entries = asList(values).map((value) => {
    const after = isErased(value) ? value : change(value)
    isChanged ||= after !== value
    return after === undefined ? ERASED : JSON.stringify(after)
  })
  return isChanged ? `[${Number(events)},${Number(bytes)},[${entries.join(SEPARATOR)}]]` : undefined
}

function parseHead(text: string | undefined): Head | undefined {
  const value = text === undefined ? undefined : readJson(text)
  if (!isObject(value)) return undefined
  const { epoch, first, next, written, dropped } = value
  if (typeof epoch !== 'string' || typeof first !== 'number' || typeof next !== 'number') return undefined
  return { epoch, first, next, written: amountOf(written), dropped: amountOf(dropped) }
}

function amountOf(value: unknown): Amount {
  return isObject(value) ? { events: Number(value.events), bytes: Number(value.bytes) } : NOTHING
}

// Cursors: the number of a segment, and how many of its entries are before the position.

interface Position {
  readonly epoch: string
  readonly segment: number
  readonly index: number
}

const CURSOR = /^([\w-]{1,16})\.(\d{1,15})\.(\d{1,9})$/

function cursorOf({ epoch, segment, index }: Position): string {
  return `${epoch}.${segment}.${index}`
}

function parseCursor(cursor: string): Position | undefined {
  const [, epoch, segment, index] = CURSOR.exec(cursor) ?? []
  return epoch === undefined ? undefined : { epoch, segment: Number(segment), index: Number(index) }
}

function segmentAfter({ epoch, segment }: Position): Position {
  return { epoch, segment: segment + 1, index: 0 }
}

/** Whether everything after a position is in the log. A position behind its end is of a log that was restored from a copy. */
function isWithin({ epoch, segment }: Position, head: Head): boolean {
  return epoch === head.epoch && segment >= head.first && segment <= head.next
}

/** Whether a cursor is before another one; false for cursors of different logs. */
export function isBefore(one: string, other: string): boolean {
  const [first, second] = [parseCursor(one), parseCursor(other)]
  if (!first || !second || first.epoch !== second.epoch) return false
  return first.segment < second.segment || (first.segment === second.segment && first.index < second.index)
}

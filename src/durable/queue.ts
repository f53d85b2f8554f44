/**
 * The messages of one queue of an outbox (`outbox.ts`) that are not settled, in the order of their source. Invariant: the
 * watermark is the position before the oldest of them. What is behind it, settled or not, is in memory within a window, and
 * comes from the source again in another process.
 */
import type { Delivery, FailedAttempt } from './dispatcher.ts'

/** How many messages behind the watermark are in memory: one that is not settled holds up those behind the last of them. */
const MAX_WINDOW_MESSAGES = 500

/** How far a queue was delivered. */
export interface QueueProgress {
  /** The position in the source up to which all messages are settled. */
  readonly watermark: string
  /** The positions of settled messages behind the watermark. */
  readonly settled: readonly string[]
}

/** A dead letter that is to be delivered again. */
export interface Redelivery<M> {
  /** The id of the dead letter, and that of its queue. */
  readonly id: string
  readonly queue: string
  /** Absent if the dead letter cannot be read. */
  readonly message?: { readonly id: string; readonly content: M }
  /** Ends the request: the dead letter is removed if it was delivered, and stays if not. @throws SERVER_UNAVAILABLE */
  end(isDelivered: boolean): Promise<void>
}

/** A message of a queue. */
interface Entry<M> extends Delivery {
  readonly message: M
  /** Set if it is delivered again. */
  readonly redelivery?: Redelivery<M>
  attempts: number
  firstAt?: number
  notBefore: number
  isSettled: boolean
  /**
   * Whether its position is written once it is settled, also while messages before it are not. Not for a message about the
   * source, whose position may be that of another message.
   */
  readonly isPositionWritten: boolean
  /** Absent for what is not in the source. */
  readonly before?: string
  position?: string
}

/** The messages of a queue that are not settled. */
export class Queue<M> {
  #entries: Entry<M>[] = []
  readonly #byId = new Map<string, Entry<M>>()
  #next: string
  readonly #settledBefore: ReadonlySet<string>
  #isEnding = false
  /** Whether there is something to write; `movedAt` for a watermark that passed messages of others only. */
  isDirty = false
  movedAt: number | undefined

  /** `before` is how far it was delivered earlier. */
  constructor(before: QueueProgress) {
    this.#next = before.watermark
    this.#settledBefore = new Set(before.settled)
  }

  /** The position up to which the source was read. */
  get next(): string {
    return this.#next
  }

  /** The position up to which everything is settled. */
  get watermark(): string {
    return this.#oldest?.before ?? this.#next
  }

  /** Whether its last message is on its way. */
  get isEnding(): boolean {
    return this.#isEnding
  }

  /** Whether another message of the source has a place, before so many are waiting. */
  hasCapacity(limit: number): boolean {
    return !this.#isEnding && this.#entries.length < MAX_WINDOW_MESSAGES && this.open(limit).length < limit
  }

  /** What is not settled, oldest first. */
  open(limit: number): readonly Delivery[] {
    const found: Delivery[] = []
    for (const entry of this.#entries) {
      if (found.length >= limit) break
      if (!entry.isSettled) found.push(entry)
    }
    return found
  }

  /** The message of an id; undefined if it was settled. */
  find(id: string): Pick<Entry<M>, 'message'> | undefined {
    return this.#byId.get(id)
  }

  /** The last message, if it is not settled. */
  get last(): M | undefined {
    const last = this.#entries.at(-1)
    return last && !last.isSettled ? last.message : undefined
  }

  /** Adds a message of the source, in its order, with the positions before and after it. */
  add(id: string, message: M, place: { readonly before: string; readonly position: string }): void {
    // The source has it twice if a process ended before it knew that adding it succeeded.
    if (this.#byId.has(id)) return
    const isSettled = this.#settledBefore.has(place.position)
    this.#push({ ...newEntry(id, message), ...place, isSettled, isPositionWritten: true })
  }

  /** Adds a message about the source, such as a gap in it, which another process finds there again. */
  insert(id: string, message: M, position: string): void {
    // It begins at a place that is not known exactly. Reading on from the watermark finds it again in any case.
    this.#push({ ...newEntry(id, message), before: this.watermark, position })
  }

  /** Extends the last message, one about the source, up to a position. */
  extend(position: string): void {
    const last = this.#entries.at(-1)
    if (last) last.position = position
  }

  /** Adds a dead letter to be delivered again; false if it is on its way, or cannot be. */
  addAgain(redelivery: Redelivery<M>): boolean {
    const { message } = redelivery
    if (!message || this.#isEnding || this.#byId.has(message.id)) return false
    this.#push({ ...newEntry(message.id, message.content), redelivery })
    return true
  }

  /** Replaces everything by a last message, after which the queue ends. */
  end(id: string, message: M): void {
    this.#isEnding = true
    this.#entries = []
    this.#byId.clear()
    this.#push(newEntry(id, message))
  }

  /** The source was read up to a position. */
  advance(position: string, now: number): void {
    if (position !== this.#next) this.movedAt ??= now
    this.#next = position
    this.#dropSettled()
  }

  /** The position up to which everything is settled or lost once this message is. */
  positionAfter(id: string): string {
    const oldest = this.#oldest
    return (oldest?.id === id ? oldest.position : undefined) ?? this.watermark
  }

  /** Records a failed attempt; the message, unless it was settled. */
  retry({ id, attempts, firstAt, notBefore }: FailedAttempt): Pick<Entry<M>, 'message'> | undefined {
    const entry = this.#byId.get(id)
    if (entry) Object.assign(entry, { attempts, firstAt, notBefore })
    this.isDirty = true
    return entry
  }

  /** Settles a message; undefined if it was before. */
  settle(id: string): Pick<Entry<M>, 'message' | 'redelivery'> | undefined {
    const entry = this.#byId.get(id)
    if (!entry) return undefined
    entry.isSettled = true
    this.#byId.delete(id)
    this.isDirty = true
    this.#dropSettled()
    return entry
  }

  /** A time without attempts does not count for when they are given up. */
  resume(pausedMs: number): void {
    for (const entry of this.#entries) if (entry.firstAt !== undefined) entry.firstAt += Math.max(0, pausedMs)
  }

  /** What is to be written. */
  takeProgress(): QueueProgress {
    this.isDirty = false
    this.movedAt = undefined
    const oldest = this.#oldest
    const behind = oldest ? this.#entries.slice(this.#entries.indexOf(oldest)) : []
    return {
      watermark: this.watermark,
      settled: behind.flatMap(({ isSettled, isPositionWritten, position }) =>
        isSettled && isPositionWritten ? (position ?? []) : [],
      ),
    }
  }

  /** The oldest message of the source that is not settled. */
  get #oldest(): Entry<M> | undefined {
    return this.#entries.find(({ isSettled, before }) => !isSettled && before !== undefined)
  }

  #push(entry: Entry<M>): void {
    this.#entries.push(entry)
    if (!entry.isSettled) this.#byId.set(entry.id, entry)
  }

  #dropSettled(): void {
    const first = this.#entries.findIndex(({ isSettled }) => !isSettled)
    if (first !== 0) this.#entries.splice(0, first === -1 ? this.#entries.length : first)
  }
}

function newEntry<M>(id: string, message: M) {
  return { id, message, attempts: 0, notBefore: 0, isSettled: false, isPositionWritten: false }
}

/**
 * Delivers messages at least once, from queues that several processes share. The messages of a queue come from a source
 * with positions, such as a log (`log.ts`). The record of a queue in the store has its watermark, up to which all messages
 * are settled, the positions of those that are settled behind it, and its owner, the process that delivers it. An owner
 * has a key in the store that expires unless it is renewed. Then other processes take its queues over. They learn of new
 * queues, ended owners and requests to deliver dead letters by polling the records.
 *
 * Invariants: what is durable is which messages are settled; it is written a little later, for many at once. The attempts
 * that were made (`dispatcher.ts`) are only in memory. So a crash repeats what was not written yet, under the same ids, and
 * begins its attempts anew; it never loses a message. A dead letter is written before the watermark that passes it. A
 * process that was stopped, or could not use the store, for so long that others may have taken over a queue, sends nothing
 * of it until it has read that it is still the owner.
 */
import { asGatewayError } from '../core/error.ts'
import { background } from '../core/log.ts'
import { world } from '../core/world.ts'
import type { Store } from '../store/store.ts'
import {
  type Clock,
  type Delivery,
  Dispatcher,
  type Dispatching,
  type FailedAttempt,
  type Limit,
  type Queues,
  type Sent,
  type Settlement,
} from './dispatcher.ts'
import { Instance, type Membership } from './members.ts'

/** How often the records are polled for changes of other processes, in milliseconds. */
const POLL_INTERVAL_MS = 2000
/** How many polls are left out after one that found no queues. */
const IDLE_SKIPS = 2
/** How long settled messages wait to be written together, in milliseconds. */
const WRITE_DELAY_MS = 250
/** How long a watermark that passed only messages of others waits, and when a failed write is repeated, in milliseconds. */
const IDLE_WRITE_DELAY_MS = 30_000
const WRITE_RETRY_MS = 5000
/** How many records are written at the same time. */
const WRITE_BATCH = 16
/** How many messages behind the watermark are in memory: one that is not settled holds up those behind the last of them. */
const MAX_WINDOW_MESSAGES = 500
/**
 * For how long a process may send after it read that it owns a queue, in milliseconds: three polls. Others take over 7 s
 * after a process stopped at the earliest, when its last heartbeat has expired (`members.ts`).
 */
const OWNED_MS = 6000
/** How long an owner counts as alive after it last said so, in milliseconds. */
const OWNER_TTL_MS = 30_000

/** What every record of a queue has; users add what they need. */
export interface QueueRecord {
  readonly id: string
  /** Which process delivers it; it has no owner once that process has ended. */
  readonly owner?: string
  /** The position in the source up to which all messages are settled. */
  readonly watermark: string
  /** The positions of settled messages behind the watermark. */
  readonly settled: readonly string[]
}

/** How far a queue was delivered. */
export type Progress = Pick<QueueRecord, 'watermark' | 'settled'>

/** The records of queues in the store. All methods @throws SERVER_UNAVAILABLE. */
interface QueueRecords<R extends QueueRecord> {
  /** The records of all queues. */
  all(): Promise<readonly R[]>
  /** Makes a process the owner of a queue, unless another one is that lives; resolves with the record if it is. */
  claim(record: R, owner: string, isAlive: (owner: string) => boolean): Promise<R | undefined>
}

/** A dead letter; users add what they need. */
interface Letter {
  readonly id: string
}

/** Dead letters: messages that were refused or abandoned. All methods @throws SERVER_UNAVAILABLE. */
interface DeadLetterRecords<L extends Letter> {
  add(letters: readonly L[]): Promise<void>
  remove(letter: L): Promise<void>
  /** Those that are to be delivered again. */
  requested(): Promise<readonly L[]>
  /** Ends a request to deliver a dead letter, which stays one. */
  endRedelivery(letter: L): Promise<void>
}

/** What delivers one queue while this process owns it: its source, its sink, and what else its record has. */
export interface Consumer<R extends QueueRecord, M, L extends Letter> {
  readonly queue: Queue<R, M, L>
  /** The bounds on messages in flight; undefined while nothing may be sent. */
  readonly limits: readonly Limit[] | undefined
  /** Adds messages of the source to the queue, while it has capacity for more. @throws SERVER_UNAVAILABLE */
  fill(limit: number): Promise<void>
  /** Makes an attempt to deliver a message; the signal ends it. @throws if the store cannot be used */
  send(message: M, delivery: Delivery, signal: AbortSignal): Promise<Sent>
  /** A message failed, and is attempted again. */
  retried(message: M, failed: FailedAttempt): void
  /** A message is settled. `isAgain`: it was a dead letter. */
  settled(message: M, delivery: Delivery, settlement: Settlement, isAgain: boolean): void
  /** The dead letter of a message; undefined if it is not worth one. */
  letterOf(message: M, failure: string, at: number): L | undefined
  /** Takes a record that others may have changed. */
  renewed(record: R): void
  /** Does what is due now and then, also without messages. */
  maintain(now: number): Promise<void>
  /** Writes the record, unless it ended, or has another owner. @throws SERVER_UNAVAILABLE */
  write(owner: string, progress: Progress): Promise<R | undefined>
  /** Removes the record, after the last message. @throws SERVER_UNAVAILABLE */
  remove(): Promise<unknown>
}

/** What an outbox is made of. */
export interface OutboxOptions<
  R extends QueueRecord,
  M,
  L extends Letter,
  C extends Consumer<R, M, L>,
> extends Dispatching {
  readonly store: Store
  /** The first part of the keys by which owners say that they are alive, such as `event-owner:`. */
  readonly ownerPrefix: string
  readonly membership: Membership
  readonly records: QueueRecords<R>
  readonly letters: DeadLetterRecords<L>
  /** Whether this process can deliver a queue at present; if not, it is left to others. */
  isDeliverable(record: R): boolean
  /** Begins to deliver a queue; undefined if that is not possible yet. */
  consume(queue: Queue<R, M, L>): C | undefined
  /** The queue of a dead letter. */
  queueOf(letter: L): string
  /** A dead letter as a message; undefined if it cannot be read. */
  messageOf(letter: L): { readonly id: string; readonly message: M } | undefined
  /** A dead letter cannot be delivered again: its queue has ended, or it cannot be read. */
  onUndeliverable(letter: L): void
  /** The records could not be polled. */
  onPollFailed(reason: string): void
  /** After each poll. */
  onPolled(): void
}

/** The queues that this process delivers. */
export class Outbox<
  R extends QueueRecord,
  M,
  L extends Letter,
  C extends Consumer<R, M, L>,
> implements Queues {
  readonly #options: OutboxOptions<R, M, L, C>
  readonly #clock: Clock
  readonly #dispatcher: Dispatcher
  /**
   * This process as an owner: one key in the store, so the lease of any number of queues costs one write. It registers by
   * the clock of the outbox, since the key also expires while the machine sleeps, when the monotonic clock stands still.
   */
  readonly #owner: Instance
  readonly #held = new Map<string, C>()
  /** Changes of dead letters that are written before the watermarks that pass them. */
  readonly #letterWrites: (() => Promise<void>)[] = []
  /** The dead letters whose redelivery has ended, which is not written yet. */
  readonly #settledLetters = new Set<string>()
  #cancelWrite: (() => void) | undefined
  #writing: Promise<void> = Promise.resolve()
  #cancelPoll: (() => void) | undefined
  #polling: Promise<void> | undefined
  readonly #claiming = new Set<Promise<void>>()
  #maintaining: Promise<void> | undefined
  #skips = 0
  #isStarted = false
  #isClosed = false

  constructor(options: OutboxOptions<R, M, L, C>) {
    this.#options = options
    this.#clock = options.clock
    const { store, ownerPrefix: keyPrefix, membership } = options
    this.#owner = new Instance(membership, '/', { store, keyPrefix, ttlMs: OWNER_TTL_MS })
    this.#dispatcher = new Dispatcher(this, options)
  }

  /** Begins to deliver, and takes over what ended processes left. */
  async start(): Promise<void> {
    this.#isStarted = true
    await this.#poll()
  }

  /** Ends all attempts, writes what is settled, and leaves the rest to other processes. */
  async close(): Promise<void> {
    this.#isClosed = true
    this.#cancelPoll?.()
    await this.#polling?.catch(() => undefined)
    await Promise.allSettled(this.#claiming)
    await this.#maintaining
    await this.#dispatcher.close()
    this.#cancelWrite?.()
    await this.#write().catch(() => undefined)
    this.#held.clear()
    await this.#owner.end()
  }

  /** What delivers a queue, if this process owns it. */
  find(id: string): C | undefined {
    return this.#held.get(id)
  }

  /** What delivers the queues of this process. */
  get consumers(): readonly C[] {
    return [...this.#held.values()]
  }

  /** Delivers a queue that was made or changed here, unless another process does. @throws SERVER_UNAVAILABLE */
  async added(record: R): Promise<void> {
    const held = this.#held.get(record.id)
    if (held) this.#renew(held, record, this.#clock.now())
    else if (this.#isStarted && !this.#isClosed) await this.#claim([record])
    this.wake(record.id)
  }

  /** A queue may have more messages. */
  wake(id: string): void {
    this.#dispatcher.wake(id)
  }

  /** Forgets a queue whose record was removed. */
  removed(id: string): void {
    this.#held.delete(id)
  }

  /** Writes what is settled of a queue. @throws SERVER_UNAVAILABLE */
  async flush(id: string): Promise<void> {
    const held = this.#held.get(id)
    if (held?.queue.isDirty) await this.#write(held)
  }

  /** Ends a queue without waiting for its messages: its record is removed. @throws SERVER_UNAVAILABLE */
  async end(id: string): Promise<void> {
    const held = this.#held.get(id)
    if (held) await this.#end(held)
  }

  async #end(held: C): Promise<void> {
    if (this.#drop(held)) await held.remove()
  }

  /** Forgets a queue, unless one of the same id has begun meanwhile. */
  #drop(held: C): boolean {
    const { id } = held.queue.record
    return this.#held.get(id) === held && this.#held.delete(id)
  }

  // What the dispatcher asks

  limits(id: string): readonly Limit[] | undefined {
    const held = this.#held.get(id)
    return held?.queue.isOwnedAt(this.#clock.now()) ? held.limits : undefined
  }

  async open(id: string, limit: number): Promise<readonly Delivery[]> {
    const held = this.#held.get(id)
    if (!held) return []
    await held.fill(limit)
    return held.queue.open(limit)
  }

  async send(id: string, delivery: Delivery, signal: AbortSignal): Promise<Sent> {
    const held = this.#held.get(id)
    const entry = held?.queue.find(delivery.id)
    if (!held || !entry) return { kind: 'dropped', reason: 'settled' }
    // The source was read since `limits`, and this process may have been stopped meanwhile.
    if (!held.queue.isOwnedAt(this.#clock.now())) return { kind: 'postponed' }
    return held.send(entry.message, delivery, signal)
  }

  retry(id: string, failed: FailedAttempt): void {
    const held = this.#held.get(id)
    const message = held?.queue.retry(failed)?.message
    if (!held || message === undefined) return
    held.retried(message, failed)
    // The failure suspended the queue, which others have to know. Attempts alone are not written.
    if (!held.limits) this.#writeLater(WRITE_DELAY_MS)
  }

  settle(id: string, delivery: Delivery, settlement: Settlement): void {
    const held = this.#held.get(id)
    const entry = held?.queue.settle(delivery.id)
    if (!held || !entry) return
    const { message, letter } = entry
    held.settled(message, delivery, settlement, letter !== undefined)
    if (held.queue.isEnding) return background(this.#end(held), this.#options.log)
    if (settlement.kind === 'refused' || settlement.kind === 'abandoned') {
      const added = held.letterOf(message, settlement.failure, settlement.at)
      if (added !== undefined) this.#letterWrites.push(() => this.#options.letters.add([added]))
    }
    if (letter) this.#endRedelivery(letter, settlement)
    this.#writeLater(WRITE_DELAY_MS)
  }

  #endRedelivery(letter: L, { kind }: Settlement): void {
    const { letters } = this.#options
    this.#settledLetters.add(letter.id)
    this.#letterWrites.push(async () => {
      await (kind === 'delivered' ? letters.remove(letter) : letters.endRedelivery(letter))
      this.#settledLetters.delete(letter.id)
    })
  }

  // Writing

  #writeLater(delayMs: number): void {
    if (this.#isClosed) return
    this.#cancelWrite ??= this.#clock.after(delayMs, () => {
      this.#cancelWrite = undefined
      background(this.#write(), this.#options.log)
    })
  }

  /** Writes what is settled, of all queues or of one, after an earlier write. */
  #write(only?: C): Promise<void> {
    const writing = this.#writing
      .catch(() => undefined)
      .then(() => this.#writeDirty(only ? [only] : this.consumers))
    this.#writing = writing
    return writing
  }

  /** Dead letters come before each batch of records, since nothing repeats what a watermark has passed. */
  async #writeDirty(consumers: readonly C[]): Promise<void> {
    try {
      const dirty = consumers.filter(({ queue }) => queue.isDirty)
      const written: PromiseSettledResult<void>[] = []
      do {
        for (let write = this.#letterWrites[0]; write; write = this.#letterWrites[0]) {
          await write()
          this.#letterWrites.shift()
        }
        const batch = dirty.splice(0, WRITE_BATCH)
        // A record that cannot be written holds up no other one.
        written.push(...(await Promise.allSettled(batch.map((held) => this.#writeOne(held)))))
      } while (dirty.length > 0)
      const failed = written.find((each) => each.status === 'rejected')
      if (failed) throw failed.reason
    } catch (error) {
      this.#writeLater(WRITE_RETRY_MS)
      throw error
    }
  }

  async #writeOne(held: C): Promise<void> {
    const { queue } = held
    // Another queue of its id may have begun while it waited.
    if (queue.isEnding || this.#held.get(queue.record.id) !== held) return
    try {
      const now = this.#clock.now()
      const record = await held.write(this.#owner.id, queue.takeProgress())
      if (record) queue.renew(record, now)
      else this.#drop(held)
    } catch (error) {
      queue.isDirty = true
      throw error
    }
  }

  // Polling the records

  async #poll(): Promise<void> {
    if (this.#isClosed) return
    this.#polling = this.#pollOnce()
    try {
      await this.#polling
    } catch (error) {
      this.#options.onPollFailed(asGatewayError(error).message)
    } finally {
      if (!this.#isClosed) this.#cancelPoll = this.#clock.after(POLL_INTERVAL_MS, () => void this.#poll())
    }
  }

  async #pollOnce(): Promise<void> {
    if (this.#held.size === 0 && this.#skips > 0) {
      this.#skips--
      return
    }
    const now = this.#clock.now()
    const startedAt = world.monotonic()
    const records = await this.#options.records.all()
    if (this.#isClosed) return
    if (records.length > 0) await this.#owner.register(now)
    const byId = new Map(records.map((record) => [record.id, record]))
    for (const [id, held] of [...this.#held]) {
      const record = byId.get(id)
      if (!record) this.#held.delete(id)
      // What was read before the last write of this process says nothing.
      else if (held.queue.renewedAt < startedAt) this.#renew(held, record, now)
    }
    await this.#claim(records.filter(({ id }) => !this.#held.has(id)))
    if (this.#isClosed) return
    this.#maintain(now)
    await this.#redeliver(byId)
    this.#options.onPolled()
    this.#skips = records.length === 0 ? IDLE_SKIPS : 0
  }

  /** Does what is due of all queues, unless that still waits for somebody since an earlier poll. */
  #maintain(now: number): void {
    this.#maintaining ??= this.#maintainAll(now)
      .catch((error: unknown) => this.#options.onPollFailed(asGatewayError(error).message))
      .finally(() => {
        this.#maintaining = undefined
      })
  }

  async #maintainAll(now: number): Promise<void> {
    for (const held of this.consumers) {
      await held.maintain(now)
      const { queue } = held
      if (queue.movedAt !== undefined && now - queue.movedAt > IDLE_WRITE_DELAY_MS) queue.isDirty = true
      if (queue.isDirty) this.#writeLater(WRITE_DELAY_MS)
    }
  }

  /** Takes over queues whose owner has ended. */
  async #claim(records: readonly R[]): Promise<void> {
    const claiming = this.#claimFree(records).finally(() => this.#claiming.delete(claiming))
    this.#claiming.add(claiming)
    await claiming
  }

  async #claimFree(records: readonly R[]): Promise<void> {
    const alive = await this.#othersAlive(records)
    const isAlive = (owner: string): boolean => alive.has(owner)
    for (const record of records) {
      if (this.#isClosed) return
      if (record.owner !== undefined && isAlive(record.owner)) continue
      if (!this.#options.isDeliverable(record)) continue
      const now = this.#clock.now()
      await this.#owner.register(now)
      const claimed = await this.#options.records.claim(record, this.#owner.id, isAlive)
      if (claimed && !this.#isClosed && !this.#held.has(claimed.id)) this.#hold(claimed, now)
    }
  }

  /** The other owners of queues that are alive. @throws SERVER_UNAVAILABLE */
  async #othersAlive(records: readonly R[]): Promise<ReadonlySet<string>> {
    const alive = new Set<string>()
    for (const owner of new Set(records.flatMap((record) => record.owner ?? [])))
      if (owner !== this.#owner.id && (await this.#owner.isAlive(owner))) alive.add(owner)
    return alive
  }

  #hold(record: R, now: number): void {
    const queue = new Queue<R, M, L>(record)
    queue.renew(record, now)
    const held = this.#options.consume(queue)
    // It changed since it was found deliverable: it is claimed again at the next poll.
    if (!held) return
    this.#held.set(record.id, held)
    this.wake(record.id)
  }

  /** Takes the record of a queue as it was at a time, or drops the queue if another process took it over. */
  #renew(held: C, record: R, now: number): void {
    if (record.owner !== undefined && record.owner !== this.#owner.id) {
      this.#held.delete(record.id)
      return
    }
    const wasActive = this.limits(record.id) !== undefined
    held.renewed(record)
    held.queue.renew(record, now)
    if (!wasActive) this.wake(record.id)
  }

  /** Delivers dead letters again that were requested. */
  async #redeliver(records: ReadonlyMap<string, R>): Promise<void> {
    const { letters, queueOf, messageOf, onUndeliverable } = this.#options
    for (const letter of await letters.requested()) {
      if (this.#settledLetters.has(letter.id)) continue
      const id = queueOf(letter)
      const found = messageOf(letter)
      const held = this.#held.get(id)
      if (held && found) {
        if (held.queue.addAgain(found.id, found.message, letter)) this.wake(id)
      } else if (!records.has(id) || !found) {
        onUndeliverable(letter)
        await letters.endRedelivery(letter)
      }
    }
  }
}

/** Where a message is in the source: the positions before and after it. */
export interface Place {
  readonly before: string
  readonly position: string
}

/** A message of a queue. */
interface Entry<M, L> extends Delivery {
  readonly message: M
  /** Set if it is delivered again. */
  readonly letter?: L
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

/**
 * The messages of a queue that are not settled, in the order of its source. Invariant: the watermark is the position
 * before the oldest of them. What is behind it, settled or not, is in memory within a window, and comes from the source
 * again in another process.
 */
export class Queue<R extends QueueRecord, M, L = never> {
  #record: R
  #entries: Entry<M, L>[] = []
  readonly #byId = new Map<string, Entry<M, L>>()
  #next: string
  readonly #settledBefore: ReadonlySet<string>
  #isEnding = false
  /** Whether there is something to write; `movedAt` for a watermark that passed messages of others only. */
  isDirty = false
  movedAt: number | undefined
  /** When its record was read or written last, on the monotonic clock. */
  renewedAt = Number.NEGATIVE_INFINITY
  /** When this process was its owner last, in milliseconds since 1970. */
  #ownedAt = Number.NEGATIVE_INFINITY

  constructor(record: R) {
    this.#record = record
    this.#next = record.watermark
    this.#settledBefore = new Set(record.settled)
  }

  /** The record as it was read or written last. */
  get record(): R {
    return this.#record
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
  find(id: string): { readonly message: M; readonly letter?: L } | undefined {
    return this.#byId.get(id)
  }

  /** The last message, if it is not settled. */
  get last(): M | undefined {
    const last = this.#entries.at(-1)
    return last && !last.isSettled ? last.message : undefined
  }

  /** Adds a message of the source, in its order. */
  add(id: string, message: M, place: Place): void {
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

  /** Adds a dead letter to be delivered again; false if it is on its way. */
  addAgain(id: string, message: M, letter: L): boolean {
    if (this.#isEnding || this.#byId.has(id)) return false
    this.#push({ ...newEntry(id, message), letter })
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
    const index = this.#entries.findIndex((entry) => entry.id === id)
    const earlier = this.#entries.slice(0, index).find(({ isSettled, before }) => !isSettled && before)
    return earlier?.before ?? this.#entries[index]?.position ?? this.watermark
  }

  /** Records a failed attempt; the message, unless it was settled. */
  retry({ id, attempts, firstAt, notBefore }: FailedAttempt): { readonly message: M } | undefined {
    const entry = this.#byId.get(id)
    if (entry) Object.assign(entry, { attempts, firstAt, notBefore })
    this.isDirty = true
    return entry
  }

  /** Settles a message; undefined if it was before. */
  settle(id: string): { readonly message: M; readonly letter?: L } | undefined {
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

  /** Takes the record as it was read or written: at this time, this process was the owner. */
  renew(record: R, ownedAt: number): void {
    this.#record = record
    this.renewedAt = world.monotonic()
    this.#ownedAt = ownedAt
  }

  /** Whether no other process can have taken it over. A clock that was set back does not say. */
  isOwnedAt(now: number): boolean {
    return now >= this.#ownedAt && now - this.#ownedAt < OWNED_MS
  }

  /** What is to be written. */
  takeProgress(): Progress {
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
  get #oldest(): Entry<M, L> | undefined {
    return this.#entries.find(({ isSettled, before }) => !isSettled && before !== undefined)
  }

  #push(entry: Entry<M, L>): void {
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

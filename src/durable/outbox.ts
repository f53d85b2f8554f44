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
import type { Queue, QueueProgress, Redelivery } from './queue.ts'

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
/**
 * For how long a process may send after it read that it owns a queue, in milliseconds: three polls. Others take over 7 s
 * after a process stopped at the earliest, when its last heartbeat has expired (`members.ts`).
 */
const OWNED_MS = 6000
/** How long an owner counts as alive after it last said so, in milliseconds. */
const OWNER_TTL_MS = 30_000

/** The record of a queue in the store; users add what they need. */
interface QueueRecord extends QueueProgress {
  readonly id: string
  /** Which process delivers it; it has no owner once that process has ended. */
  readonly owner?: string
}

/** What delivers one queue while this process owns it: its source, its sink, and what else its record has. */
export interface Consumer<R, M> {
  /** That of its queue. */
  readonly id: string
  readonly queue: Queue<M>
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
  /** Writes the dead letter of a message, if it is worth one. @throws SERVER_UNAVAILABLE */
  addLetter(message: M, failure: string, at: number): Promise<void>
  /** Takes a record that others may have changed. */
  renewed(record: R): void
  /** Does what is due now and then, also without messages. */
  maintain(now: number): Promise<void>
  /** Writes the record; resolves with whether it is there, and has this owner. @throws SERVER_UNAVAILABLE */
  write(owner: string, progress: QueueProgress): Promise<boolean>
  /** Removes the record, after the last message. @throws SERVER_UNAVAILABLE */
  remove(): Promise<unknown>
}

/** Whose messages an outbox delivers, and how. */
interface Delivering<R extends QueueRecord, M, C extends Consumer<R, M>> extends Dispatching {
  readonly store: Store
  /** The first part of the keys by which owners say that they are alive, such as `event-owner:`. */
  readonly ownerPrefix: string
  readonly membership: Membership
  /** The records of all queues. @throws SERVER_UNAVAILABLE */
  records(): Promise<readonly R[]>
  /** Whether this process can deliver a queue at present; if not, it is left to others. */
  isDeliverable(record: R): boolean
  /**
   * Makes a process the owner of a queue, if its record still has the owner that was read, which has ended; resolves with the
   * record if it is. @throws SERVER_UNAVAILABLE
   */
  claim(record: R, owner: string): Promise<R | undefined>
  /** Begins to deliver a queue; undefined if that is not possible yet. */
  consume(record: R): C | undefined
  /** The dead letters that are to be delivered again. @throws SERVER_UNAVAILABLE */
  redeliveries(): Promise<readonly Redelivery<M>[]>
  /** A dead letter cannot be delivered again: its queue has ended, or it cannot be read. */
  onUndeliverable(redelivery: Redelivery<M>): void
  /** The records could not be polled. */
  onPollFailed(reason: string): void
  /** After each poll. */
  onPolled(): void
}

/** A queue that this process owns. */
interface Held<C> {
  readonly consumer: C
  /** When its record was read or written last, on the monotonic clock. */
  renewedAt: number
  /** When this process was its owner last, in milliseconds since 1970. */
  ownedAt: number
}

/** The queues that this process delivers. */
export class Outbox<R extends QueueRecord, M, C extends Consumer<R, M>> implements Queues {
  readonly #options: Delivering<R, M, C>
  readonly #clock: Clock
  readonly #dispatcher: Dispatcher
  /**
   * This process as an owner: one key in the store, so the lease of any number of queues costs one write. It registers by
   * the clock of the outbox, since the key also expires while the machine sleeps, when the monotonic clock stands still.
   */
  readonly #owner: Instance
  readonly #held = new Map<string, Held<C>>()
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

  constructor(options: Delivering<R, M, C>) {
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
    return this.#held.get(id)?.consumer
  }

  /** What delivers the queues of this process. */
  get consumers(): readonly C[] {
    return [...this.#held.values()].map(({ consumer }) => consumer)
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
    if (held?.consumer.queue.isDirty) await this.#write(held)
  }

  /** Ends a queue without waiting for its messages: its record is removed. @throws SERVER_UNAVAILABLE */
  async end(id: string): Promise<void> {
    const held = this.#held.get(id)
    if (held) await this.#end(held)
  }

  async #end(held: Held<C>): Promise<void> {
    if (this.#drop(held)) await held.consumer.remove()
  }

  /** Forgets a queue, unless one of the same id has begun meanwhile. */
  #drop(held: Held<C>): boolean {
    const { id } = held.consumer
    return this.#held.get(id) === held && this.#held.delete(id)
  }

  /** Whether no other process can have taken a queue over. A clock that was set back does not say. */
  #isOwned({ ownedAt }: Held<C>): boolean {
    const elapsed = this.#clock.now() - ownedAt
    return elapsed >= 0 && elapsed < OWNED_MS
  }

  // What the dispatcher asks

  limits(id: string): readonly Limit[] | undefined {
    const held = this.#held.get(id)
    return held && this.#isOwned(held) ? held.consumer.limits : undefined
  }

  async open(id: string, limit: number): Promise<readonly Delivery[]> {
    const consumer = this.find(id)
    if (!consumer) return []
    await consumer.fill(limit)
    return consumer.queue.open(limit)
  }

  async send(id: string, delivery: Delivery, signal: AbortSignal): Promise<Sent> {
    const held = this.#held.get(id)
    const entry = held?.consumer.queue.find(delivery.id)
    if (!held || !entry) return { kind: 'dropped', reason: 'settled' }
    // The source was read since `limits`, and this process may have been stopped meanwhile.
    if (!this.#isOwned(held)) return { kind: 'postponed' }
    return held.consumer.send(entry.message, delivery, signal)
  }

  retry(id: string, failed: FailedAttempt): void {
    const consumer = this.find(id)
    const entry = consumer?.queue.retry(failed)
    if (!consumer || !entry) return
    consumer.retried(entry.message, failed)
    // The failure suspended the queue, which others have to know. Attempts alone are not written.
    if (!consumer.limits) this.#writeLater(WRITE_DELAY_MS)
  }

  settle(id: string, delivery: Delivery, settlement: Settlement): void {
    const held = this.#held.get(id)
    const entry = held?.consumer.queue.settle(delivery.id)
    if (!held || !entry) return
    const { consumer } = held
    const { message, redelivery } = entry
    consumer.settled(message, delivery, settlement, redelivery !== undefined)
    if (consumer.queue.isEnding) return background(this.#end(held), this.#options.log)
    if (settlement.kind === 'refused' || settlement.kind === 'abandoned')
      this.#letterWrites.push(() => consumer.addLetter(message, settlement.failure, settlement.at))
    if (redelivery) this.#endRedelivery(redelivery, settlement.kind === 'delivered')
    this.#writeLater(WRITE_DELAY_MS)
  }

  #endRedelivery(redelivery: Redelivery<M>, isDelivered: boolean): void {
    this.#settledLetters.add(redelivery.id)
    this.#letterWrites.push(async () => {
      await redelivery.end(isDelivered)
      this.#settledLetters.delete(redelivery.id)
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
  #write(only?: Held<C>): Promise<void> {
    const writing = this.#writing
      .catch(() => undefined)
      .then(() => this.#writeDirty(only ? [only] : [...this.#held.values()]))
    this.#writing = writing
    return writing
  }

  /** Dead letters come before each batch of records, since nothing repeats what a watermark has passed. */
  async #writeDirty(all: readonly Held<C>[]): Promise<void> {
    try {
      const dirty = all.filter(({ consumer }) => consumer.queue.isDirty)
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

  async #writeOne(held: Held<C>): Promise<void> {
    const { consumer } = held
    const { queue } = consumer
    // Another queue of its id may have begun while it waited.
    if (queue.isEnding || this.#held.get(consumer.id) !== held) return
    try {
      const now = this.#clock.now()
      if (await consumer.write(this.#owner.id, queue.takeProgress()))
        Object.assign(held, { renewedAt: world.monotonic(), ownedAt: now })
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
    const records = await this.#options.records()
    if (this.#isClosed) return
    if (records.length > 0) await this.#owner.register(now)
    const byId = new Map(records.map((record) => [record.id, record]))
    for (const [id, held] of [...this.#held]) {
      // What was read before the last write of this process, or before it took the queue over, says nothing.
      if (held.renewedAt >= startedAt) continue
      const record = byId.get(id)
      if (record) this.#renew(held, record, now)
      else this.#held.delete(id)
    }
    await this.#claim(records.filter(({ id }) => !this.#held.has(id)))
    if (this.#isClosed) return
    this.#maintain(now)
    await this.#redeliver(byId)
    this.#options.onPolled()
    this.#skips = records.length === 0 ? IDLE_SKIPS : 0
  }

  /** Does what is due of all queues, unless an earlier poll still does. */
  #maintain(now: number): void {
    this.#maintaining ??= this.#maintainAll(now)
      .catch((error: unknown) => this.#options.onPollFailed(asGatewayError(error).message))
      .finally(() => {
        this.#maintaining = undefined
      })
  }

  async #maintainAll(now: number): Promise<void> {
    for (const consumer of this.consumers) {
      await consumer.maintain(now)
      const { queue } = consumer
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
    for (const record of records) {
      if (this.#isClosed) return
      if (record.owner !== undefined && alive.has(record.owner)) continue
      if (!this.#options.isDeliverable(record)) continue
      const now = this.#clock.now()
      await this.#owner.register(now)
      const claimed = await this.#options.claim(record, this.#owner.id)
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

  #hold(record: R, ownedAt: number): void {
    const consumer = this.#options.consume(record)
    // It changed since it was found deliverable: it is claimed again at the next poll.
    if (!consumer) return
    this.#held.set(record.id, { consumer, renewedAt: world.monotonic(), ownedAt })
    this.wake(record.id)
  }

  /** Takes the record of a queue as it was at a time, or drops the queue if another process took it over. */
  #renew(held: Held<C>, record: R, now: number): void {
    if (record.owner !== undefined && record.owner !== this.#owner.id) {
      this.#held.delete(record.id)
      return
    }
    const wasActive = this.limits(record.id) !== undefined
    held.consumer.renewed(record)
    Object.assign(held, { renewedAt: world.monotonic(), ownedAt: now })
    if (!wasActive) this.wake(record.id)
  }

  /** Delivers dead letters again that were requested. */
  async #redeliver(records: ReadonlyMap<string, R>): Promise<void> {
    for (const redelivery of await this.#options.redeliveries()) {
      const { id, queue, message } = redelivery
      if (this.#settledLetters.has(id)) continue
      const consumer = this.find(queue)
      if (consumer && message) {
        if (consumer.queue.addAgain(redelivery)) this.wake(queue)
      } else if (!records.has(queue) || !message) {
        this.#options.onUndeliverable(redelivery)
        await redelivery.end(false)
      }
    }
  }
}

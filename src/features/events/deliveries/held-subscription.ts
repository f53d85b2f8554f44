/**
 * A subscription that this process delivers: the events it is owed, in the order of the log, and how its receiver fares.
 *
 * Invariant: the watermark is the position before the oldest event that is not settled. What is behind it, settled or
 * not, is in memory within a window, and comes from the log again in another process.
 */
import { world } from '../../../core/world.ts'
import type { Call } from '../../../core/call.ts'
import type { GatewayError } from '../../../core/error.ts'
import { type DeadLetter, DeadLetters } from '../../../records/dead-letters.ts'
import type { LogPage } from '../../../durable/log.ts'
import type { Progress, SubscriptionRecord, WebhookState } from '../../../records/event-subscriptions.ts'
import type { Column } from '../errors.ts'
import { marksGap } from '../follower.ts'
import { asEvent, type LoggedEvent } from '../server-events.ts'
import type { NamedType } from '../types.ts'
import type { FailureCategory } from '../webhooks/attempts.ts'
import type { Delivery, FailedAttempt } from '../webhooks/delivery-queue.ts'
import { FailureRate } from './failure-rate.ts'
import type { Receiver } from '../webhooks/verification.ts'

/** How many events behind the watermark are in memory: one that is not accepted holds up those behind the last of them. */
const MAX_WINDOW_EVENTS = 500

/** What is sent: an event, again if it is a dead letter, or something about the subscription. */
export type Content =
  | { readonly kind: 'event'; readonly event: LoggedEvent; readonly letter?: DeadLetter }
  | { readonly kind: 'gap' }
  | { readonly kind: 'terminated'; readonly error: unknown }

/** Something to deliver. */
interface Entry extends Delivery {
  readonly content: Content
  attempts: number
  firstAt?: number
  notBefore: number
  isSettled: boolean
  /** The positions in the log before and after it; absent for what is not in the log. */
  readonly before?: string
  position?: string
}

/** What changed since it was written. */
interface Health {
  lastDeliveryAt?: number
  lastError?: FailureCategory
  failedSince?: number
  /** Set by this process; a subscriber may have ended it meanwhile. */
  suspendedAt?: number
}

/** A subscription and its deliveries. Times are in milliseconds since 1970. */
export class HeldSubscription {
  /** Where it is delivered; its secrets can change. */
  receiver: Receiver
  /** For checks of the subscriber's rights. */
  readonly call: Call
  /** What it subscribes to, as it was found last, and when. */
  type: NamedType | undefined
  typeFoundAt = 0
  /** When its source was kept open last. */
  keptAt = 0
  /** The cursor that was made last, and its position. */
  cursor: { readonly position: string; readonly text: string } | undefined
  /** The record as it was read or written last. */
  #record: SubscriptionRecord
  #entries: Entry[] = []
  readonly #byId = new Map<string, Entry>()
  /** The position up to which the log was read. */
  #next: string
  #settledBefore: ReadonlySet<string>
  readonly #rate = new FailureRate()
  readonly #health: Health
  #isEnding = false
  /** The error that ended its events, before the log goes on at `#next`. */
  #ended: GatewayError | undefined
  #isSuspensionWritten = true
  /** Whether there is something to write; `movedAt` for a watermark that passed events of others only. */
  isDirty = false
  movedAt: number | undefined
  /** When it was written last, by `performance.now()`. */
  writtenAt = 0

  constructor(record: SubscriptionRecord, receiver: Receiver, call: Call) {
    this.#record = record
    this.receiver = receiver
    this.call = call
    this.#next = record.watermark
    this.#settledBefore = new Set(record.settled)
    const { lastDeliveryAt, failedSince, suspendedAt } = record.webhook ?? {}
    this.#health = {
      ...(lastDeliveryAt !== undefined && { lastDeliveryAt }),
      ...(failedSince !== undefined && { failedSince }),
      ...(suspendedAt !== undefined && { suspendedAt }),
    }
  }

  get record(): SubscriptionRecord {
    return this.#record
  }

  /** The column of codes that its client expects. */
  get column(): Column {
    return this.#record.delivery.codes === 'sketch' ? 'sketch' : 'sep'
  }

  /** The position up to which the log was read. */
  get next(): string {
    return this.#next
  }

  /** The position up to which everything is settled. */
  get watermark(): string {
    const first = this.#entries.find(({ isSettled, before }) => !isSettled && before !== undefined)
    return first?.before ?? this.#next
  }

  get isSuspended(): boolean {
    return this.#health.suspendedAt !== undefined
  }

  /** Whether its last message is on its way. */
  get isEnding(): boolean {
    return this.#isEnding
  }

  /** The error that ended its events, once all events before are settled. */
  get endedBy(): GatewayError | undefined {
    return this.#ended && this.open(1).length === 0 ? this.#ended : undefined
  }

  /** Since when nothing was accepted. */
  get failedSince(): number | undefined {
    return this.#health.failedSince
  }

  /** Whether another event of the log has a place, before so many are waiting. */
  hasRoom(limit: number): boolean {
    return (
      !this.#isEnding &&
      !this.#ended &&
      this.#entries.length < MAX_WINDOW_EVENTS &&
      this.open(limit).length < limit
    )
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

  /** What a delivery is about; undefined if it was settled. */
  contentOf(id: string): Content | undefined {
    return this.#byId.get(id)?.content
  }

  /** Takes the requested events of a page of the log, which follows what was read before. */
  take({ entries, start, cursor, isGap }: LogPage, { type }: NamedType, now: number): void {
    const { arguments: wanted } = this.#record
    if (isGap) this.#addGap(start)
    let before = start
    for (const { value, cursor: position } of entries) {
      const event = asEvent(value)
      this.#ended = event && type.endOf?.(wanted, event)
      if (this.#ended) break
      if (event && marksGap(event, { type, arguments: wanted })) this.#addGap(position)
      const isRequested = event?.name === type.name && type.isRequested(wanted, event)
      if (event && isRequested) this.#addEvent(event, before, position)
      before = position
    }
    // An end stays ahead until its message is accepted: another process finds it again.
    const position = this.#ended ? before : cursor
    if (position !== this.#next) this.movedAt ??= now
    this.#next = position
    this.#dropSettled()
  }

  /** Adds a dead letter to be delivered again; false if it is on its way. */
  addLetter(letter: DeadLetter, event: LoggedEvent): boolean {
    if (this.#isEnding || this.#byId.has(event.id)) return false
    this.#add({ ...newDelivery(event.id), content: { kind: 'event', event, letter } })
    return true
  }

  /** An event of it as a dead letter, without its failure. */
  letterOf(event: LoggedEvent): Omit<DeadLetter, 'failure' | 'at'> {
    const { id: subscription, name, upstream } = this.#record
    const id = DeadLetters.idOf(subscription, event.id)
    const { owner } = this.receiver
    return { id, subscription, owner, name, event: { ...event }, ...(upstream !== undefined && { upstream }) }
  }

  /** The position that a gap may tell: everything before it is settled or lost. */
  positionAfterGap(id: string): string {
    const index = this.#entries.findIndex((entry) => entry.id === id)
    const earlier = this.#entries.slice(0, index).find(({ isSettled, before }) => !isSettled && before)
    return earlier?.before ?? this.#entries[index]?.position ?? this.watermark
  }

  /** Replaces everything by a last message. */
  end(error: unknown): void {
    if (this.#isEnding) return
    this.#isEnding = true
    this.#entries = []
    this.#byId.clear()
    this.#add({ ...newDelivery(controlId('terminated')), content: { kind: 'terminated', error } })
  }

  /** Records a failed attempt that is followed by another one. */
  retry({ id, attempts, firstAt, notBefore, failure }: FailedAttempt, now: number): void {
    const entry = this.#byId.get(id)
    if (entry) Object.assign(entry, { attempts, firstAt, notBefore })
    this.#failed(failure, now)
  }

  /** Records the end of a delivery; the content of what was delivered, or undefined if it ended before. */
  settle(id: string, failure: FailureCategory | undefined, now: number): Content | undefined {
    const entry = this.#byId.get(id)
    if (!entry) return undefined
    entry.isSettled = true
    this.#byId.delete(id)
    if (failure) this.#failed(failure, now)
    this.isDirty = true
    this.#dropSettled()
    return entry.content
  }

  /** Records that the receiver accepted something. */
  accepted(now: number): void {
    this.#rate.count(false, now)
    this.#health.lastDeliveryAt = now
    delete this.#health.lastError
    delete this.#health.failedSince
  }

  /** Whether almost all attempts fail, and this was not noticed before; then it is suspended. */
  suspendIfFailing(now: number): boolean {
    if (this.isSuspended || !this.#rate.isTooHigh) return false
    this.#health.suspendedAt = now
    this.#isSuspensionWritten = false
    this.isDirty = true
    return true
  }

  /** Takes the record as it is now; its subscriber may have activated it. */
  renew(record: SubscriptionRecord, now: number): void {
    this.#record = record
    const { suspendedAt } = this.#health
    if (suspendedAt === undefined || !this.#isSuspensionWritten || record.webhook?.suspendedAt !== undefined)
      return
    delete this.#health.suspendedAt
    this.#rate.reset()
    // The time while nothing was tried does not count.
    for (const entry of this.#entries)
      if (entry.firstAt !== undefined) entry.firstAt += Math.max(0, now - suspendedAt)
  }

  /** What is to be written. */
  progress(): Progress {
    this.isDirty = false
    this.movedAt = undefined
    const first = this.#entries.findIndex(({ isSettled, before }) => !isSettled && before !== undefined)
    const behind = first === -1 ? [] : this.#entries.slice(first)
    return {
      watermark: this.watermark,
      settled: behind.flatMap(({ isSettled, content, position }) =>
        isSettled && content.kind === 'event' ? (position ?? []) : [],
      ),
      webhook: (before) => this.#stateAfter(before),
    }
  }

  /** The record after what `progress` returned was written. */
  written(record: SubscriptionRecord): void {
    this.#record = record
    this.writtenAt = world.monotonic()
    if (record.webhook?.suspendedAt !== undefined) this.#isSuspensionWritten = true
  }

  #stateAfter({ lastDeliveryAt: _at, lastError, failedSince: _since, ...rest }: WebhookState): WebhookState {
    const { suspendedAt, ...health } = this.#health
    const isNew = suspendedAt !== undefined && !this.#isSuspensionWritten
    const error = health.failedSince === undefined ? undefined : (health.lastError ?? lastError)
    return { ...rest, ...health, ...(error && { lastError: error }), ...(isNew && { suspendedAt }) }
  }

  #failed(failure: FailureCategory, now: number): void {
    this.#rate.count(true, now)
    this.#health.lastError = failure
    this.#health.failedSince ??= now
    this.isDirty = true
  }

  #addEvent(event: LoggedEvent, before: string, position: string): void {
    // Logged twice by a process that ended before it knew that the first time succeeded.
    if (this.#byId.has(event.id)) return
    const isSettled = this.#settledBefore.has(position)
    const entry = { ...newDelivery(event.id), content: { kind: 'event', event } as const }
    if (isSettled) this.#entries.push({ ...entry, before, position, isSettled })
    else this.#add({ ...entry, before, position })
  }

  #addGap(position: string): void {
    const last = this.#entries.at(-1)
    if (last?.content.kind === 'gap' && !last.isSettled) {
      last.position = position
      return
    }
    const before = this.watermark
    this.#add({ ...newDelivery(controlId('gap')), content: { kind: 'gap' }, before, position })
  }

  #add(entry: Entry): void {
    this.#entries.push(entry)
    this.#byId.set(entry.id, entry)
  }

  #dropSettled(): void {
    const first = this.#entries.findIndex(({ isSettled }) => !isSettled)
    if (first !== 0) this.#entries.splice(0, first === -1 ? this.#entries.length : first)
  }
}

function newDelivery(id: string): Pick<Entry, 'id' | 'attempts' | 'notBefore' | 'isSettled'> {
  return { id, attempts: 0, notBefore: 0, isSettled: false }
}

function controlId(type: string): string {
  return `msg_${type}_${world.randomBytes(12).toString('hex')}`
}

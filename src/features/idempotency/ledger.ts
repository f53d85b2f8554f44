/**
 * The write-ahead log of keyed calls in the store, and the limits on keys for each caller. No outcome is
 * reported before it is durable, or marked as unrecorded.
 */
import { LRUCache } from 'lru-cache'
import { randomUUID } from 'node:crypto'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { background } from '../../core/log.ts'
import { pause, within } from '../../core/time/waiting.ts'
import {
  callCollection,
  expiryOf,
  type CallRecord,
  encodeCall,
  findCall,
  type StoredCall,
  decodeCall,
} from '../../records/calls.ts'
import type { Store } from '../../store/store.ts'
import type { Services } from '../feature.ts'
import type { Completion } from './completion.ts'
import { exhausted, type KeyedRequest, lost, notKept, storeAway } from './keyed-request.ts'

type Deps = Pick<Services, 'log' | 'store' | 'identity' | 'gateway'>

/** How much may be remembered for one caller. */
export interface Quota {
  readonly keys: number
  readonly bytes: number
}

/** What is remembered for one caller: how many records, and how long they are together. */
interface Tally {
  keys: number
  bytes: number
  /** When it was counted in the store last, and when the first of them is over. */
  countedAt: number
  firstOver: number | undefined
}

/** How many callers are stored count of, and how often the store is counted anew for one of them, in milliseconds. */
const MAX_CALLERS = 10_000
const RECOUNT_INTERVAL_MS = 10_000

/** Keeps count of what is remembered for each caller. Nearly every question is answered at once. */
class QuotaTracker {
  readonly #store: Store
  readonly #tallies = new LRUCache<string, Tally | Promise<Tally>>({ max: MAX_CALLERS })

  constructor(store: Store) {
    this.#store = store
  }

  /** Whether there is room for one more key of a caller. @throws what the store throws */
  hasRoom(principal: string, most: Quota): boolean | Promise<boolean> {
    const tally = this.#tally(principal)
    return isTally(tally) && isBelow(tally, most) ? true : this.#makeSure(principal, most)
  }

  /** Whether a record may become so much longer; it may where that cannot be known. */
  mayGrow(principal: string, by: number, most: Quota): boolean | Promise<boolean> {
    const tally = this.#tally(principal)
    const fits = ({ bytes }: Tally): boolean => bytes + by <= most.bytes
    return isTally(tally) ? fits(tally) : tally.then(fits, () => true)
  }

  /**
   * Takes note of records that came or went, of how much longer they are, and of when one that came is over, in
   * milliseconds since 1970.
   */
  add(principal: string, keys: number, bytes: number, endsAt?: number): void {
    const grow = (tally: Tally): void => {
      tally.keys += keys
      tally.bytes += bytes
      if (endsAt !== undefined) tally.firstOver = Math.min(tally.firstOver ?? endsAt, endsAt)
    }
    const tally = this.#tallies.get(principal)
    // Who is not counted will be, with these.
    if (tally === undefined) return
    if (isTally(tally)) grow(tally)
    else tally.then(grow, () => undefined)
  }

  /** Why a key is refused. */
  async refusal(principal: string, most: Quota): Promise<Error> {
    const { keys, firstOver } = await this.#tally(principal)
    const wait = firstOver === undefined ? undefined : Math.max(1, (firstOver - Date.now()) / 1000)
    return exhausted(keys >= most.keys ? `${most.keys} calls` : `${most.bytes} bytes`, wait)
  }

  async #makeSure(principal: string, most: Quota): Promise<boolean> {
    const tally = await this.#tally(principal)
    if (isBelow(tally, most)) return true
    if (Date.now() - tally.countedAt < RECOUNT_INTERVAL_MS) return false
    this.#tallies.delete(principal)
    return isBelow(await this.#tally(principal), most)
  }

  #tally(principal: string): Tally | Promise<Tally> {
    const known = this.#tallies.get(principal)
    if (known) return known
    const counting = this.#count(principal)
    this.#tallies.set(principal, counting)
    counting.then(
      (tally) => {
        if (this.#tallies.get(principal) === counting) this.#tallies.set(principal, tally)
      },
      () => this.#tallies.delete(principal),
    )
    return counting
  }

  async #count(principal: string): Promise<Tally> {
    const records = [...(await this.#store.scan(callCollection(principal))).values()]
    const ends = records.map(expiryOf).filter((each) => each !== undefined)
    return {
      keys: records.length,
      bytes: records.reduce((sum, { length }) => sum + length, 0),
      countedAt: Date.now(),
      firstOver: ends.reduce<number | undefined>((least, end) => Math.min(least ?? end, end), undefined),
    }
  }
}

function isTally(tally: Tally | Promise<Tally>): tally is Tally {
  return !(tally instanceof Promise)
}

function isBelow({ keys, bytes }: Tally, most: Quota): boolean {
  return keys < most.keys && bytes < most.bytes
}

/** The record is ours, so the call may be made; or how the call ends without being made here. */
export type Claim =
  | { readonly kind: 'own'; readonly stored: StoredCall }
  | Extract<Completion, { readonly kind: 'held_elsewhere' | 'abandoned' }>

/** How a record of ours changes; `released` deletes it, as nothing was done. */
export type Change = Partial<CallRecord> | 'released'

/** How long the record of a call under way is stored at least, in milliseconds. */
const MIN_IN_FLIGHT_TTL_MS = 86_400_000
/** How long the answer waits for its record, and how long a record is tried to be written whole, in milliseconds. */
const WRITE_TIMEOUT_MS = 5000
const WRITE_RETRY_PERIOD_MS = 600_000
/** How often a record is tried to be written after that, without its result, in milliseconds, and how many are. */
const LATE_RETRY_MS = 30_000
const MAX_LATE_RECORDS = 10_000

/** Write-ahead log of keyed calls: every outcome is durable before it is reported. */
export class Ledger {
  readonly #deps: Deps
  readonly #quota: QuotaTracker
  #late = 0

  constructor(deps: Deps) {
    this.#deps = deps
    this.#quota = new QuotaTracker(deps.store)
  }

  /** The record of a key. @throws SERVER_UNAVAILABLE where the store is away */
  find({ id }: KeyedRequest): Promise<StoredCall | undefined> {
    return orAway(findCall(this.#deps.store, id))
  }

  /** Begins a call under an unused key. @throws QUOTA_EXHAUSTED, SERVER_UNAVAILABLE */
  claim(keyed: KeyedRequest, most: Quota): Promise<Claim> {
    return orAway(this.#claim(keyed, most))
  }

  /** Makes a record ours whose call may be made again. */
  takeOver({ id }: KeyedRequest, stored: StoredCall): Promise<Claim> {
    const { openUntil: _until, lostAt: _lostAt, ...rest } = stored.record
    return orAway(this.#swap(id, stored, { ...rest, ...this.#attempt(), state: 'executing' }))
  }

  /** Records when a call was found abandoned; it is ours until that is durable. */
  markLost({ id }: KeyedRequest, stored: StoredCall): Promise<Claim> {
    const { openUntil: _until, ...rest } = stored.record
    return orAway(this.#swap(id, stored, { ...rest, state: 'unknown', lostAt: Date.now() }))
  }

  /**
   * Goes on with a call of ours whose server asked something in the middle of it; nothing where that was done
   * already, or is being done. It is over here where another process holds the call, or none does.
   */
  async reopen(keyed: KeyedRequest, attempt: string): Promise<Claim | undefined> {
    const stored = await this.find(keyed)
    if (!stored) return { kind: 'abandoned' }
    const { openUntil, ...rest } = stored.record
    if (rest.state !== 'executing' || rest.attempt !== attempt || openUntil === undefined) return undefined
    if (rest.owner !== this.#deps.identity.membership.id) return { kind: 'abandoned' }
    const begun = await orAway(this.#swap(keyed.id, stored, rest))
    return begun.kind === 'own' ? begun : undefined
  }

  /** Settles a record that is not ours: it was found out what came of its call. */
  async settle(keyed: KeyedRequest, stored: StoredCall, result: CallRecord['result']): Promise<Claim> {
    const done = { ...stored.record, state: 'done', ...(result && { result }) } as const
    const begun = await orAway(this.#swap(keyed.id, stored, done))
    return begun.kind === 'own' ? { kind: 'held_elsewhere', stored: begun.stored } : begun
  }

  /** Removes a record whose time is over. */
  async forget({ id, call }: KeyedRequest, { text }: StoredCall): Promise<void> {
    const isDropped = await orAway(this.#deps.store.compareAndDelete(id, text))
    if (isDropped) this.#quota.add(call.principal.id, -1, -text.length)
  }

  /**
   * Writes down what became of a call of ours. Resolves once that is durable; where it takes too long, with what
   * goes on to be tried. `isShort`: that it was done is on record, but not what it gave.
   */
  async write(
    keyed: KeyedRequest,
    stored: StoredCall,
    change: Change,
    most: Quota,
  ): Promise<{ readonly writing?: Promise<unknown>; readonly isShort?: true }> {
    const after = change === 'released' ? undefined : await this.#changed(keyed, stored, change, most)
    const writing = this.#persist(keyed, stored, after)
    const written = await within(writing, WRITE_TIMEOUT_MS, undefined)
    if (written === 'whole') return {}
    const { upstream } = keyed.call.target
    this.#deps.log.error('idempotency.unrecorded', { upstream, request_id: keyed.call.requestId })
    return written === 'short' ? { isShort: true } : { writing }
  }

  async #claim({ call, id, ttl, ...keyed }: KeyedRequest, most: Quota): Promise<Claim> {
    const {
      store,
      identity: { membership },
    } = this.#deps
    const { id: principal } = call.principal
    if (store.unavailableReason !== undefined && !call.internal) {
      // What there is no room for any more is not begun.
      const stored = await findCall(store, id)
      if (stored) return { kind: 'held_elsewhere', stored }
      throw storeAway(new Error(store.unavailableReason))
    }
    await membership.register()
    // What was done can be undone, however much its caller has remembered.
    if (!call.internal && !(await this.#quota.hasRoom(principal, most))) {
      const stored = await findCall(store, id)
      if (stored) return { kind: 'held_elsewhere', stored }
      throw await this.#quota.refusal(principal, most)
    }
    const attempt = this.#attempt()
    const { fingerprint, tool } = keyed
    const startedAt = attempt.attemptedAt
    const expiresAt = startedAt + ttl
    const record: CallRecord = { expiresAt, fingerprint, tool, state: 'executing', startedAt, ...attempt }
    const text = encodeCall(record)
    this.#quota.add(principal, 1, text.length, expiresAt)
    const made: StoredCall = { record, text }
    const there = await store
      .setIfAbsent(id, text, Math.max(ttl, MIN_IN_FLIGHT_TTL_MS))
      .catch((error: unknown) => {
        // The write may have reached the store all the same, and the call would stay abandoned.
        background(this.#persist({ ...keyed, call, id, ttl }, made, undefined), this.#deps.log)
        throw error
      })
    if (there === undefined) return { kind: 'own', stored: made }
    this.#quota.add(principal, -1, -text.length)
    const stored = decodeCall(there)
    if (!stored) throw lost({ ...keyed, call, id, ttl }, undefined)
    return { kind: 'held_elsewhere', stored }
  }

  async #swap(id: string, before: StoredCall, record: CallRecord): Promise<Claim> {
    const { store, log } = this.#deps
    const text = encodeCall(record)
    const isSwapped = await store
      .compareAndSwap(id, before.text, text, remaining(record))
      .catch((error: unknown) => {
        const back = () => store.compareAndSwap(id, text, before.text, remaining(before.record))
        background(this.#insist(back), log)
        throw error
      })
    return isSwapped ? { kind: 'own', stored: { record, text } } : { kind: 'abandoned' }
  }

  #attempt(): Pick<CallRecord, 'owner' | 'attempt' | 'attemptedAt'> {
    return { owner: this.#deps.identity.membership.id, attempt: randomUUID(), attemptedAt: Date.now() }
  }

  /** The record as it is from now on; without its result where there is no room for it. */
  async #changed(
    keyed: KeyedRequest,
    { record, text }: StoredCall,
    change: Partial<CallRecord>,
    most: Quota,
  ): Promise<StoredCall> {
    const whole = { ...record, ...change }
    const long = encodeCall(whole)
    const { id } = keyed.call.principal
    const isFit = await this.#quota.mayGrow(id, long.length - text.length, most)
    return isFit ? { record: whole, text: long } : shortened(whole)
  }

  #persist(
    keyed: KeyedRequest,
    before: StoredCall,
    after: StoredCall | undefined,
  ): Promise<'whole' | 'short' | undefined> {
    // Where there is no room for it all, there may be for that it was done.
    const short = after?.record.result ? shortened(after.record) : after
    const writeShort = () => this.#put(keyed, before, short)
    return this.#insist(async () => {
      try {
        await this.#put(keyed, before, after)
        return 'whole'
      } catch (error) {
        if (short === after) throw error
        await writeShort()
        return 'short'
      }
    }, writeShort)
  }

  /** Writes until the store takes it; nothing once that took too long: from then on `late` is tried alone. */
  async #insist<Value>(
    write: () => Promise<Value>,
    late: () => Promise<unknown> = write,
  ): Promise<Value | undefined> {
    const until = Date.now() + WRITE_RETRY_PERIOD_MS
    for (let delay = 50; ; delay = Math.min(delay * 2, 5000)) {
      try {
        return await write()
      } catch (error) {
        if (Date.now() > until) {
          this.#deps.log.error('idempotency.given_up', { error: asGatewayError(error).message })
          background(this.#writeLate(late), this.#deps.log)
          return undefined
        }
        await pause(delay)
      }
    }
  }

  /** Without an end in the store a call would be under way there for as long as this gateway lives. */
  async #writeLate(write: () => Promise<unknown>): Promise<void> {
    const {
      gateway: { closing },
    } = this.#deps
    if (this.#late >= MAX_LATE_RECORDS) return
    this.#late++
    for (let isWritten = false; !isWritten && !closing.aborted;) {
      await pause(LATE_RETRY_MS)
      isWritten = await write().then(
        () => true,
        () => false,
      )
    }
    this.#late--
  }

  async #put({ id, call }: KeyedRequest, before: StoredCall, after: StoredCall | undefined): Promise<void> {
    const { store, log } = this.#deps
    const { length } = before.text
    if (!after) {
      if (await store.compareAndDelete(id, before.text)) this.#quota.add(call.principal.id, -1, -length)
      return
    }
    const isSwapped = await store.compareAndSwap(id, before.text, after.text, remaining(after.record))
    if (isSwapped) return this.#quota.add(call.principal.id, 0, after.text.length - length)
    // Its time was over while it ran, or others took this gateway for dead.
    const there = await store.setIfAbsent(id, after.text, remaining(after.record))
    if (there !== undefined && there !== after.text)
      log.warn('idempotency.taken_over', { request_id: call.requestId })
  }
}

/** A record without its result. */
function shortened({ result: _result, ...bare }: CallRecord): StoredCall {
  const short = { ...bare, failure: notKept() }
  return { record: short, text: encodeCall(short) }
}

/** How long a record is stored from now on, in milliseconds. */
function remaining({ state, expiresAt }: CallRecord): number {
  const left = Math.max(expiresAt - Date.now(), 1)
  return state === 'executing' ? Math.max(left, MIN_IN_FLIGHT_TTL_MS) : left
}

/** Without its record no keyed call is made. */
async function orAway<Value>(done: Promise<Value>): Promise<Value> {
  try {
    return await done
  } catch (error) {
    throw error instanceof GatewayError ? error : storeAway(error)
  }
}

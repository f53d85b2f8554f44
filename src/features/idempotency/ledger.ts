/**
 * The write-ahead log of keyed calls in the store. No outcome is reported before it is durable, or marked as
 * unrecorded.
 */
import { acceptsTaskSlot } from '../../core/slot.ts'
import { world } from '../../core/world.ts'
import type { Call } from '../../core/call.ts'
import { operationSlot } from '../../records/operations.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { background } from '../../core/log.ts'
import { type Backoff, delayBefore } from '../../core/time/backoff.ts'
import { pause, within } from '../../core/time/waiting.ts'
import {
  callCollection,
  type CallRecord,
  doneCall,
  encodeCall,
  findCall,
  startedCall,
  type StoredCall,
  decodeCall,
} from '../../records/calls.ts'
import { type CallerQuota, QuotaTracker } from '../../durable/bounds.ts'
import { presentTerm } from '../../durable/members.ts'
import type { Services } from '../feature.ts'
import type { Completion } from './completion.ts'
import {
  exhausted,
  type KeyedRequest,
  outcomeLost,
  resultNotKept,
  storeUnavailable,
} from './keyed-request.ts'

type Deps = Pick<Services, 'log' | 'store' | 'identity' | 'gateway'>

/** The record is ours, so the call may be made as long as the term lasts in which it was claimed. */
export interface OwnClaim {
  readonly kind: 'own'
  readonly stored: StoredCall
  readonly term: number | undefined
}

/** The record is ours, or how the call ends without being made here. */
export type Claim = OwnClaim | Extract<Completion, { readonly kind: 'held_elsewhere' | 'abandoned' }>

/** How a record of ours changes: it is done, with an outcome, or continues; `released` deletes it, because nothing was done. */
export type Change =
  | { readonly done: Pick<CallRecord, 'result' | 'failure'> }
  | { readonly open: Partial<CallRecord> }
  | 'released'

/** The minimum TTL of the record of an in-flight call, in milliseconds. */
const MIN_IN_FLIGHT_TTL_MS = 86_400_000
/** How long a response waits for its record, and how long writing the complete record is retried, in milliseconds. */
const WRITE_TIMEOUT_MS = 5000
const WRITE_RETRY_PERIOD_MS = 600_000
const WRITE_RETRIES: Backoff = { firstMs: 50, maxMs: 5000 }
/** The retry interval after that, without the result, in milliseconds, and how many records are retried. */
const LATE_RETRY_MS = 30_000
const MAX_LATE_RECORDS = 10_000

/** Write-ahead log of keyed calls: every outcome is durable before it is reported. */
export class Ledger {
  readonly #deps: Deps
  readonly #quota: QuotaTracker
  #late = 0

  constructor(deps: Deps) {
    this.#deps = deps
    this.#quota = new QuotaTracker(deps.store, callCollection)
  }

  /** The record of a key. @throws SERVER_UNAVAILABLE if the store is unavailable */
  find({ id }: KeyedRequest): Promise<StoredCall | undefined> {
    return orUnavailable(findCall(this.#deps.store, id))
  }

  /** Starts a call under an unused key. @throws QUOTA_EXHAUSTED, SERVER_UNAVAILABLE */
  claim(keyed: KeyedRequest, quota: CallerQuota): Promise<Claim> {
    return orUnavailable(this.#claim(keyed, quota))
  }

  /** Checks that a call could begin under an unused key; nothing is written. @throws QUOTA_EXHAUSTED, SERVER_UNAVAILABLE */
  async check({ call }: KeyedRequest, quota: CallerQuota): Promise<void> {
    await orUnavailable(this.#checking(call, quota) ?? Promise.resolve())
  }

  /** Takes over a record whose call may be repeated. */
  takeOver({ id, call }: KeyedRequest, stored: StoredCall): Promise<Claim> {
    const { openUntil: _until, lostAt: _lostAt, canLast: _canLast, ...rest } = stored.record
    return orUnavailable(this.#swap(id, stored, { ...rest, ...this.#attempt(call), state: 'executing' }))
  }

  /** Records when a call was found abandoned; the record is ours until that is durable. */
  markLost({ id }: KeyedRequest, stored: StoredCall): Promise<Claim> {
    const { openUntil: _until, ...rest } = stored.record
    return orUnavailable(this.#swap(id, stored, { ...rest, state: 'unknown', lostAt: world.now() }))
  }

  /**
   * Continues a call of ours whose server requested input; undefined if that was done already, or is in progress. It is
   * abandoned if another process holds the call, or none does.
   */
  async reopen(keyed: KeyedRequest, attempt: string): Promise<Claim | undefined> {
    const stored = await this.find(keyed)
    if (!stored) return { kind: 'abandoned' }
    const { openUntil, ...rest } = stored.record
    if (rest.state !== 'executing' || rest.attempt !== attempt) return undefined
    const { membership } = this.#deps.identity
    // A task of the server continues after the process that followed it.
    const isLeft = operationSlot.of(keyed.call) !== undefined && !(await membership.isAlive(rest.owner))
    if (openUntil === undefined && !isLeft) return undefined
    if (rest.owner !== membership.id && !isLeft) return { kind: 'abandoned' }
    const claim = await orUnavailable(this.#swap(keyed.id, stored, { ...rest, owner: membership.id }))
    return claim.kind === 'own' ? claim : undefined
  }

  /**
   * Records, as soon as the store takes it, that an attempt is lost which is open at its server, unless it was continued; `opening`
   * is a write that recorded that it is open.
   */
  async lose({ id }: KeyedRequest, attempt: string, opening: Promise<unknown> | undefined): Promise<void> {
    const { store } = this.#deps
    await opening
    const write = async (): Promise<void> => {
      const stored = await findCall(store, id)
      if (stored?.record.openUntil === undefined || stored.record.attempt !== attempt) return
      const { openUntil: _until, ...rest } = stored.record
      const lost: CallRecord = { ...rest, state: 'unknown', lostAt: world.now() }
      await store.compareAndSwap(id, stored.text, encodeCall(lost), remaining(lost))
    }
    await this.#retry(write)
  }

  /** Records that a call without a record was lost; a record that is there stays. */
  async recordLost({ id, fingerprint, tool, ttl, call }: KeyedRequest, startedAt: number): Promise<void> {
    const now = world.now()
    const attempt = { ...this.#attempt(call), attemptedAt: startedAt }
    const record: CallRecord = {
      expiresAt: now + ttl,
      fingerprint,
      tool,
      state: 'unknown',
      startedAt,
      ...attempt,
      lostAt: now,
    }
    const text = encodeCall(record)
    const existing = await orUnavailable(this.#deps.store.setIfAbsent(id, text, ttl))
    // What was lost has to be known, whatever the caller's quota; it counts like any other record.
    if (existing === undefined) this.#quota.add(call.principal.id, 1, text.length, record.expiresAt)
  }

  /** Settles the record of a lost call after its outcome was verified. */
  async settle(keyed: KeyedRequest, stored: StoredCall, result: CallRecord['result']): Promise<Claim> {
    const done = { ...stored.record, state: 'done', ...(result && { result }) } as const
    const claim = await orUnavailable(this.#swap(keyed.id, stored, done))
    return claim.kind === 'own' ? { kind: 'held_elsewhere', stored: claim.stored } : claim
  }

  /** Removes an expired record. */
  async forget({ id, call }: KeyedRequest, { text }: StoredCall): Promise<void> {
    const isDropped = await orUnavailable(this.#deps.store.compareAndDelete(id, text))
    if (isDropped) this.#quota.add(call.principal.id, -1, -text.length)
  }

  /**
   * Records the outcome of a call of ours. Resolves once that is durable; if it takes too long, with the write that
   * continues. `isShort`: it is recorded that the call was executed, but not its result.
   */
  async write(
    keyed: KeyedRequest,
    stored: StoredCall,
    change: Change,
    quota: CallerQuota,
  ): Promise<{ readonly writing?: Promise<unknown>; readonly isShort?: true }> {
    const after = change === 'released' ? undefined : this.#changed(keyed, stored, change, quota)
    const writing = this.#persist(keyed, stored, after instanceof Promise ? await after : after)
    const written = await within(writing, WRITE_TIMEOUT_MS, undefined)
    if (written === 'whole') return {}
    const { upstream } = keyed.call.target
    this.#deps.log.error('idempotency.unrecorded', { upstream, request_id: keyed.call.requestId })
    return written === 'short' ? { isShort: true } : { writing }
  }

  async #claim({ call, id, ttl, ...keyed }: KeyedRequest, quota: CallerQuota): Promise<Claim> {
    const { store } = this.#deps
    const { id: principal } = call.principal
    const checking = this.#checking(call, quota)
    if (checking) {
      try {
        await checking
      } catch (error) {
        const stored = await findCall(store, id)
        if (stored) return { kind: 'held_elsewhere', stored }
        throw error
      }
    }
    const term = await presentTerm(this.#deps.identity.membership)
    const attempt = this.#attempt(call)
    const { fingerprint, tool } = keyed
    const startedAt = attempt.attemptedAt
    const expiresAt = startedAt + ttl
    const made = startedCall({ expiresAt, fingerprint, tool, state: 'executing', startedAt, ...attempt })
    const { text } = made
    this.#quota.add(principal, 1, text.length, expiresAt)
    const existing = await store
      .setIfAbsent(id, text, Math.max(ttl, MIN_IN_FLIGHT_TTL_MS))
      .catch((error: unknown) => {
        // The write may still have reached the store, and the call would stay abandoned.
        background(this.#persist({ ...keyed, call, id, ttl }, made, undefined), this.#deps.log)
        throw error
      })
    if (existing === undefined) return { kind: 'own', stored: made, term }
    this.#quota.add(principal, -1, -text.length)
    const stored = decodeCall(existing)
    if (!stored) throw outcomeLost(keyed, undefined)
    return { kind: 'held_elsewhere', stored }
  }

  /** Rejects with why no call of a caller may begin; undefined if it is known without asking the store that one may. */
  #checking({ principal: { id }, internal }: Call, quota: CallerQuota): Promise<void> | undefined {
    // Compensations are always possible, whatever the caller's quota.
    if (internal) return undefined
    const { unavailableReason } = this.#deps.store
    // No new calls are started while the store accepts no writes.
    if (unavailableReason !== undefined) return Promise.reject(storeUnavailable(new Error(unavailableReason)))
    const fits = this.#quota.fits(id, quota)
    return fits === true ? undefined : this.#mustFit(id, quota, fits)
  }

  async #mustFit(id: string, quota: CallerQuota, fits: boolean | Promise<boolean>): Promise<void> {
    if (await fits) return
    const { keys, firstExpiry } = await this.#quota.usage(id)
    const wait = firstExpiry === undefined ? undefined : Math.max(1, (firstExpiry - world.now()) / 1000)
    throw exhausted(keys >= quota.keys ? `${quota.keys} calls` : `${quota.bytes} bytes`, wait)
  }

  async #swap(id: string, before: StoredCall, record: CallRecord): Promise<Claim> {
    const { store, log } = this.#deps
    const term = await presentTerm(this.#deps.identity.membership)
    const text = encodeCall(record)
    const isSwapped = await store
      .compareAndSwap(id, before.text, text, remaining(record))
      .catch((error: unknown) => {
        const revert = () => store.compareAndSwap(id, text, before.text, remaining(before.record))
        background(this.#retry(revert), log)
        throw error
      })
    return isSwapped ? { kind: 'own', stored: { record, text }, term } : { kind: 'abandoned' }
  }

  #attempt(call: Call): Pick<CallRecord, 'owner' | 'attempt' | 'attemptedAt' | 'canLast'> {
    const { id: owner } = this.#deps.identity.membership
    const canLast = acceptsTaskSlot.of(call) && { canLast: true as const }
    return { owner, attempt: world.randomUUID(), attemptedAt: world.now(), ...canLast }
  }

  /** The record after a change; without its result if that exceeds the quota. */
  #changed(
    { call }: KeyedRequest,
    stored: StoredCall,
    change: Exclude<Change, 'released'>,
    quota: CallerQuota,
  ): StoredCall | Promise<StoredCall> {
    const complete = 'done' in change ? doneCall(stored, change.done) : opened(stored, change.open)
    const fits = this.#quota.mayGrow(call.principal.id, complete.text.length - stored.text.length, quota)
    const fitting = (isFit: boolean): StoredCall => (isFit ? complete : shortened(complete.record))
    return typeof fits === 'boolean' ? fitting(fits) : fits.then(fitting)
  }

  #persist(
    keyed: KeyedRequest,
    before: StoredCall,
    after: StoredCall | undefined,
  ): Promise<'whole' | 'short' | undefined> {
    return this.#put(keyed, before, after).then(
      () => 'whole',
      () => this.#persistLater(keyed, before, after),
    )
  }

  #persistLater(
    keyed: KeyedRequest,
    before: StoredCall,
    after: StoredCall | undefined,
  ): Promise<'whole' | 'short' | undefined> {
    // If the complete record does not fit, a short one may: that the call was executed.
    const short = after?.record.result === undefined ? after : shortened(after.record)
    const writeShort = () => this.#put(keyed, before, short)
    return this.#retry(async () => {
      try {
        await this.#put(keyed, before, after)
        return 'whole'
      } catch (error) {
        if (!short || short === after) throw error
        await writeShort()
        // The store may have come back in between.
        return this.#put(keyed, short, after).then(
          () => 'whole',
          () => 'short',
        )
      }
    }, writeShort)
  }

  /** Retries a write until it succeeds; undefined once that took too long: then only `late` is retried. */
  async #retry<Value>(
    write: () => Promise<Value>,
    late: () => Promise<unknown> = write,
  ): Promise<Value | undefined> {
    const until = world.now() + WRITE_RETRY_PERIOD_MS
    for (let repetition = 0; ; repetition++) {
      try {
        return await write()
      } catch (error) {
        if (world.now() > until) {
          this.#deps.log.error('idempotency.given_up', { error: asGatewayError(error).message })
          background(this.#writeLate(late), this.#deps.log)
          return undefined
        }
        await pause(delayBefore(repetition, WRITE_RETRIES))
      }
    }
  }

  /** Without a recorded end, a call would count as in flight for as long as this gateway lives. */
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
    // It expired while it ran, or others considered this gateway dead.
    const existing = await store.setIfAbsent(id, after.text, remaining(after.record))
    if (existing !== undefined && existing !== after.text)
      log.warn('idempotency.taken_over', { request_id: call.requestId })
  }
}

function opened({ record }: StoredCall, change: Partial<CallRecord>): StoredCall {
  const changed = { ...record, ...change }
  return { record: changed, text: encodeCall(changed) }
}

/** A record without its result. */
function shortened({ result: _result, ...bare }: CallRecord): StoredCall {
  const short = { ...bare, failure: resultNotKept() }
  return { record: short, text: encodeCall(short) }
}

/** The remaining TTL of a record, in milliseconds. */
function remaining({ state, expiresAt }: CallRecord): number {
  const ttl = Math.max(expiresAt - world.now(), 1)
  return state === 'executing' ? Math.max(ttl, MIN_IN_FLIGHT_TTL_MS) : ttl
}

/** Without a record, no keyed call is made. */
async function orUnavailable<Value>(done: Promise<Value>): Promise<Value> {
  try {
    return await done
  } catch (error) {
    throw error instanceof GatewayError ? error : storeUnavailable(error)
  }
}

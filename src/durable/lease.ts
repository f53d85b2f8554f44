/**
 * Leases: of the processes that share a store, one at a time holds a name, such as the one that polls a server.
 *
 * A lease has two keys. `lease:NAME` is the claim: the holder and its token. It outlasts the lease and changes by
 * compare-and-swap only, so tokens grow from holder to holder. `lease-alive:ID` is the sign of life of one claim: it expires
 * after the TTL, and its holder renews it. Who claims a lease writes its own sign of life first, and then the claim. The
 * lease is free when the sign of life of its claim is gone, or the process that made it has ended.
 *
 *   free -- sign of life, swap of the claim --> held -- no renewal for the TTL, or release --> free
 *
 * Invariants: a sign of life that is gone is never renewed. A holder counts the TTL from before its last renewal, on the
 * monotonic clock and on the wall clock, and stops before another can begin (`lost`, `isHeld`). Where a process is
 * stopped just before it writes, or a clock jumps, two may believe that they hold it: `update` refuses the write of the
 * older one once the newer one wrote, so no record goes back to what an earlier holder knew.
 */
import { GatewayError } from '../core/error.ts'
import { isObject, readJson } from '../core/json/json.ts'
import { elapsedSince, moment } from '../core/time/moment.ts'
import { pause } from '../core/time/waiting.ts'
import { type Timer, world } from '../core/world.ts'
import type { Store } from '../store/store.ts'
import { casUpdate, type CasUpdate } from './cas-update.ts'
import type { Membership } from './members.ts'

/** A name that this process holds. */
export interface Lease {
  /** The fencing token: larger than those of all holders before. */
  readonly token: number
  /** Aborted when the work under the lease has to end, before another process can hold it. */
  readonly lost: AbortSignal
  /** Whether it is still held. By the clock: a process that was stopped for too long gets `false` before `lost` is aborted. */
  readonly isHeld: boolean
  /** Reads a record that `update` changes. @throws SERVER_UNAVAILABLE as `update` does */
  get(key: string): Promise<string | undefined>
  /**
   * Changes a record, whose text is a JSON object: `decide` runs again after a lost race, as in `casUpdate`. The record gets
   * the token as its last member, which readers ignore. @throws SERVER_UNAVAILABLE if the lease is lost, or a later holder
   * has written the record
   */
  update<Result>(key: string, decide: (text: string | undefined) => LeasedUpdate<Result>): Promise<Result>
  /** Lets others have it. Never rejects: a lease that cannot be released expires. */
  release(): Promise<void>
}

/** A decision about a record under a lease. A record is not removed: its token would go with it. */
interface LeasedUpdate<Result> extends CasUpdate<Result> {
  readonly write?: Exclude<CasUpdate<Result>['write'], 'remove'>
}

/** What a claim came to: the lease, or whose it is. */
export interface Claimed {
  readonly lease?: Lease
  /** `Membership.id` of the holder; absent if that is not known, because another claim was faster. */
  readonly holder?: string
}

/** Work that is done by one process at a time. */
export interface LeasedWork {
  /** Resolves once the work is stopped; never rejects. */
  readonly ended: Promise<void>
  /** Aborts the job, waits for its end, and releases the lease. */
  stop(): Promise<void>
}

/** A job that one process at a time does. */
interface LeasedJob {
  /** Works until the lease is lost. If it ends before, or fails, it is started again with the next renewal. */
  run(lease: Lease): Promise<void>
  /** Another process has the lease. Not called if that is not known, because the store cannot be used. */
  onHeldElsewhere?(): void
  /** Called under the lease when the work is stopped, if this process has it then. */
  onStop?(): Promise<void>
  /** Gets the errors of `run` and `onStop`. */
  onFailed?(error: unknown): void
}

/** How often a lease is polled that a process waits for, in milliseconds. */
const POLL_INTERVAL_MS = 50
/** How long a claim is kept after its lease, in milliseconds. Later, tokens grow with the clock. */
const CLAIM_TTL_MS = 30 * 86_400_000
/** When a holder renews its lease, and when it tries again after a failure, as parts of the TTL. */
const RENEWAL_PART = 1 / 3
const RETRY_PART = 1 / 10
/** The part of the TTL that a holder leaves unused, because clocks of machines do not run alike. */
const SAFETY_PART = 1 / 10

/** What leases need of a store. */
export type LeaseStore = Pick<
  Store,
  'get' | 'put' | 'setIfAbsent' | 'compareAndSwap' | 'delete' | 'compareAndDelete'
>

/** What leases need to know of the processes that share the store. */
export type LeaseMembers = Pick<Membership, 'id' | 'hasEnded'>

/** The leases in a store. */
export class Leases {
  readonly #store: LeaseStore
  readonly #membership: LeaseMembers | undefined

  /** Without a membership, it is not known whether the process of a holder has ended: its leases have to expire. */
  constructor(store: LeaseStore, membership?: LeaseMembers) {
    this.#store = store
    this.#membership = membership
  }

  /** Claims a lease, once; undefined if it is held. @throws SERVER_UNAVAILABLE */
  async acquire(name: string, ttlMs: number): Promise<Lease | undefined> {
    return (await this.claim(name, ttlMs)).lease
  }

  /** The same; a lease that is held comes with its holder. @throws SERVER_UNAVAILABLE */
  claim(name: string, ttlMs: number): Promise<Claimed> {
    return this.#claim(name, ttlMs)
  }

  /** Who holds a lease: `Membership.id`; undefined if it is free, or that is not known. @throws SERVER_UNAVAILABLE */
  async holder(name: string): Promise<string | undefined> {
    const claim = readClaim(await this.#store.get(claimKey(name)))
    return claim && !(await this.#isFree(claim)) ? claim.holder : undefined
  }

  /** Claims a lease as soon as it is free; undefined if that takes too long. @throws SERVER_UNAVAILABLE */
  async acquireWithin(name: string, ttlMs: number, timeoutMs: number): Promise<Lease | undefined> {
    for (const end = world.monotonic() + timeoutMs; ; await pause(POLL_INTERVAL_MS)) {
      const { lease } = await this.#claim(name, ttlMs)
      if (lease || world.monotonic() >= end) return lease
    }
  }

  async #claim(
    name: string,
    ttlMs: number,
  ): Promise<{ readonly lease?: HeldLease; readonly holder?: string }> {
    const before = await this.#store.get(claimKey(name))
    const previous = readClaim(before)
    if (previous && !(await this.#isFree(previous))) return heldBy(previous)
    const id = world.randomBytes(12).toString('base64url')
    const token = Math.max(world.now(), (previous?.token ?? 0) + 1)
    const claim = JSON.stringify({ token, id, holder: this.#membership?.id } satisfies Claim)
    const lease = new HeldLease(this.#store, { key: aliveKey(id), token, ttlMs })
    let isOurs = false
    try {
      await this.#store.put(aliveKey(id), ALIVE, ttlMs)
      isOurs =
        before === undefined
          ? (await this.#store.setIfAbsent(claimKey(name), claim, CLAIM_TTL_MS)) === undefined
          : await this.#store.compareAndSwap(claimKey(name), before, claim, CLAIM_TTL_MS)
    } finally {
      if (!isOurs || !lease.isHeld) await lease.release()
    }
    return lease.isHeld ? { lease } : {}
  }

  /** Does a job whenever this process can have the lease, until it is stopped. */
  whileHeld(name: string, ttlMs: number, job: LeasedJob): LeasedWork {
    const stopped = new AbortController()
    const ended = this.#repeat({ name, ttlMs, job, stopped: stopped.signal })
    return {
      ended,
      stop: async () => {
        stopped.abort(new GatewayError('CANCELLED', 'This work is not requested any more.'))
        await ended.catch(() => undefined)
      },
    }
  }

  async #repeat(work: RepeatedWork): Promise<void> {
    const { name, ttlMs, job, stopped } = work
    while (!stopped.aborted) {
      try {
        const { lease } = await this.#claim(name, ttlMs)
        if (lease) await workUnder(lease, work)
        else job.onHeldElsewhere?.()
      } catch {
        // The store cannot be used: the holder is unknown.
      }
      await pause(ttlMs * RENEWAL_PART, stopped).catch(() => undefined)
    }
  }

  /** Whether a claim is over. The sign of life of a process that has ended is removed, so that a late renewal finds none. */
  async #isFree({ id, holder }: Claim): Promise<boolean> {
    if ((await this.#store.get(aliveKey(id))) === undefined) return true
    if (holder === undefined || this.#membership?.hasEnded(holder) !== true) return false
    await this.#store.delete(aliveKey(id))
    return true
  }
}

interface RepeatedWork {
  readonly name: string
  readonly ttlMs: number
  readonly job: LeasedJob
  readonly stopped: AbortSignal
}

/** Does a job until the lease is lost or the work is stopped, and releases the lease. */
async function workUnder(lease: HeldLease, { ttlMs, job, stopped }: RepeatedWork): Promise<void> {
  const stop = (): void => lease.abort(stopped.reason)
  stopped.addEventListener('abort', stop)
  try {
    while (lease.isHeld && !stopped.aborted) {
      await reported(job.run(lease), job)
      await pause(ttlMs * RENEWAL_PART, lease.lost).catch(() => undefined)
    }
    if (lease.isHeld) await reported(job.onStop?.(), job)
  } finally {
    stopped.removeEventListener('abort', stop)
    await lease.release()
  }
}

/** Waits for a step of a job, which may fail. */
async function reported(step: Promise<void> | undefined, job: LeasedJob): Promise<void> {
  try {
    await step
  } catch (error) {
    job.onFailed?.(error)
  }
}

/** A lease of this process, which renews its sign of life until it is released or lost. */
class HeldLease implements Lease {
  readonly token: number
  readonly #store: LeaseStore
  readonly #key: string
  readonly #ttlMs: number
  readonly #validMs: number
  readonly #lost = new AbortController()
  #deadline: Timer
  #renewal: Timer
  #renewedAt = moment()
  #isOver = false

  /** Counts from now: `key`, its sign of life, must not be written before. */
  constructor(store: LeaseStore, { key, token, ttlMs }: { key: string; token: number; ttlMs: number }) {
    this.token = token
    this.#store = store
    this.#key = key
    this.#ttlMs = ttlMs
    this.#validMs = ttlMs * (1 - SAFETY_PART)
    this.#deadline = this.#loseIn(this.#validMs)
    this.#renewal = this.#renewIn(ttlMs * RENEWAL_PART)
  }

  get lost(): AbortSignal {
    return this.#lost.signal
  }

  get isHeld(): boolean {
    return !this.#isOver && elapsedSince(this.#renewedAt) < this.#validMs
  }

  /** Asks the work to end, while the lease is still held for what it has to write. */
  abort(reason: unknown): void {
    this.#lost.abort(reason)
  }

  get(key: string): Promise<string | undefined> {
    return this.update(key, (text) => ({ result: text }))
  }

  async update<Result>(
    key: string,
    decide: (text: string | undefined) => LeasedUpdate<Result>,
  ): Promise<Result> {
    const decideUnder = (before: string | undefined): CasUpdate<Result> => {
      const [text, token] = withoutToken(before)
      if (token > this.token || !this.isHeld) {
        this.#lose()
        throw lostLease()
      }
      const { result, write } = decide(text)
      return { result, write: write && { ...write, text: withToken(write.text, this.token) } }
    }
    return casUpdate(this.#store, key, decideUnder, () => {
      throw new GatewayError('OVERLOADED', 'Too many changes of one record at a time.')
    })
  }

  async release(): Promise<void> {
    this.#lose()
    await this.#store.delete(this.#key).catch(() => false)
  }

  #lose(): void {
    this.#isOver = true
    world.clearTimeout(this.#deadline)
    world.clearTimeout(this.#renewal)
    this.#lost.abort(lostLease())
  }

  #loseIn(delayMs: number): Timer {
    return world.setTimeout(() => this.#lose(), delayMs).unref()
  }

  #renewIn(delayMs: number): Timer {
    return world.setTimeout(() => void this.#renew(), delayMs).unref()
  }

  async #renew(): Promise<void> {
    if (!this.isHeld) return this.#lose()
    const at = moment()
    // Undefined if the store is unavailable: then it is attempted again, until the lease is over.
    const isRenewed = await this.#store
      .compareAndSwap(this.#key, ALIVE, ALIVE, this.#ttlMs)
      .catch(() => undefined)
    if (isRenewed === false || !this.isHeld) return this.#lose()
    if (isRenewed) {
      this.#renewedAt = at
      world.clearTimeout(this.#deadline)
      this.#deadline = this.#loseIn(this.#validMs - elapsedSince(at))
    }
    this.#renewal = this.#renewIn(this.#ttlMs * (isRenewed ? RENEWAL_PART : RETRY_PART))
  }
}

/** The value of a sign of life. */
const ALIVE = '1'

function lostLease(): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'This process does not hold the lease of this work any more.')
}

/** Who holds a lease, or held it last. */
interface Claim {
  readonly token: number
  /** Identifies the sign of life. */
  readonly id: string
  /** `Membership.id` of its process. */
  readonly holder?: string | undefined
}

function heldBy({ holder }: Claim): { readonly holder?: string } {
  return holder === undefined ? {} : { holder }
}

/** A claim that cannot be read counts as none: its name would not be free for as long as claims are kept. */
function readClaim(text: string | undefined): Claim | undefined {
  const value = text === undefined ? undefined : readJson(text)
  if (!isObject(value)) return undefined
  const { token, id, holder } = value
  if (typeof token !== 'number' || typeof id !== 'string') return undefined
  return { token, id, ...(typeof holder === 'string' && { holder }) }
}

/** The token of a record: the last member of its JSON object. */
const recordToken = /,?"lease_token":(\d+)\}$/

/** The text of a record as its writer made it, and the token of the lease it was written under; 0 if there was none. */
function withoutToken(text: string | undefined): readonly [text: string | undefined, token: number] {
  const [member, token] = recordToken.exec(text ?? '') ?? []
  if (text === undefined || member === undefined) return [text, 0]
  return [`${text.slice(0, -member.length)}}`, Number(token)]
}

/** @throws TypeError if the text is no JSON object */
function withToken(text: string, token: number): string {
  const value = readJson(text)
  if (!isObject(value) || !text.endsWith('}')) throw new TypeError('A record under a lease is a JSON object.')
  const separator = Object.keys(value).length === 0 ? '' : ','
  return `${text.slice(0, -1)}${separator}"lease_token":${token}}`
}

function claimKey(name: string): string {
  return `lease:${name}`
}

function aliveKey(id: string): string {
  return `lease-alive:${id}`
}

/** Whoever tries a little before its interval is over still gets the next turn. */
const TURN_SHARE = 0.9

/**
 * Whether it is the turn of this process to do some work that is enough if one does it for all: in each interval of so many
 * milliseconds, whoever asks first has the turn. Nothing keeps two from doing it at once. @throws SERVER_UNAVAILABLE
 */
export async function takeTurn(store: Store, work: string, intervalMs: number): Promise<boolean> {
  return (await store.setIfAbsent(`turn:${work}`, '1', intervalMs * TURN_SHARE)) === undefined
}

/**
 * Writes the records of the operations that this process runs, within bounds for each caller and in all, and notifies
 * observers of every change.
 *
 * Invariant: observers see an end only once it is durable. The write of an end is retried until it succeeds, as long as
 * the process lives; an outcome that is too large is left out of the record, which says so.
 */
import { world } from '../../core/world.ts'
import type { Call, Outcome } from '../../core/call.ts'
import { asGatewayError, GatewayError, invalidParam } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { background } from '../../core/log.ts'
import { Payload } from '../../core/payload.ts'
import { type Principal, shareOf } from '../../core/principal.ts'
import { isStoreShared } from '../../core/settings.ts'
import { pause } from '../../core/time/waiting.ts'
import { whenChanged } from '../../durable/when-changed.ts'
import { REFERENCE_KEY, REFERENCES_KEY, STREAM_KEY } from '../../protocol/meta-keys.ts'
import {
  expiryOf,
  isEnded,
  type OperationRecord,
  type OperationState,
  Operations,
  operationsOf,
  type OperationRequest,
} from '../../records/operations.ts'
import { type CallerQuota, QuotaTracker, WrittenRecords } from '../../durable/bounds.ts'
import { keepReferences, whyNotKept } from '../../records/references.ts'
import type { End } from './running-call.ts'
import type { Services } from '../feature.ts'
import { otherCall } from '../own-calls.ts'

/** How many operations of one caller are kept, running or ended, and how many bytes they take in the store. */
const CALLER_QUOTA: CallerQuota = { keys: 2500, bytes: 64 * 1024 ** 2 }
/** The same for all operations that this process has written; anonymous callers share it. */
const PROCESS_QUOTA: CallerQuota = { keys: 100_000, bytes: 1024 ** 3 }
/** How many bytes they take where the store is the memory of the process. */
const MEMORY_BYTES = 64 * 1024 ** 2
/** The largest outcome that is kept, in characters. */
const MAX_OUTCOME_LENGTH = 8 * 1024 ** 2
/** How long the write of an end is retried with its result, before the result is left out, in milliseconds. */
const WHOLE_PERIOD_MS = 60_000
/** The delay before the next attempt, at first and at most, in milliseconds. */
const RETRY_DELAY_MS = { first: 250, last: 30_000 }

type Observer = (key: string, record: OperationRecord) => void
type Change = (before: OperationRecord) => OperationRecord | undefined

type Deps = Pick<Services, 'store' | 'log' | 'identity' | 'gateway'>

/** Writes the records of operations. */
export class OperationJournal {
  readonly operations: Operations
  readonly #deps: Deps
  readonly #onChange: Observer
  readonly #quota: QuotaTracker
  readonly #written: WrittenRecords
  /** The failures since a record was written last. */
  #failures = 0
  readonly #observers = new Set<Observer>()
  /** The observers of single records, by key. */
  readonly #followers = new Map<string, Set<(record: OperationRecord) => void>>()

  /** `onChange` is called with every changed record, before the observers. */
  constructor(deps: Deps, onChange: Observer) {
    this.#deps = deps
    this.#onChange = onChange
    const bytes = isStoreShared(deps.gateway.settings) ? PROCESS_QUOTA.bytes : MEMORY_BYTES
    this.#written = new WrittenRecords({ keys: PROCESS_QUOTA.keys, bytes })
    this.operations = new Operations(deps.store, world.now)
    this.#quota = new QuotaTracker(deps.store, operationsOf)
  }

  /** Calls an observer with every record that this process changes, until the returned function is called. */
  observe(observer: Observer): () => void {
    this.#observers.add(observer)
    return () => void this.#observers.delete(observer)
  }

  /** Calls a follower with a record that this or another process changed, until the returned function is called. */
  follow(key: string, follower: (record: OperationRecord) => void): () => void {
    const followers = this.#followers.get(key) ?? new Set()
    this.#followers.set(key, followers.add(follower))
    const unwatch = whenChanged(this.#deps.store, key, async () => {
      const found = await this.operations.find(key)
      if (found && followers.has(follower)) follower(found.record)
    })
    return () => {
      unwatch()
      followers.delete(follower)
      if (followers.size === 0) this.#followers.delete(key)
    }
  }

  /** Whether a caller may have one more operation. @throws what the store throws */
  async fits(principal: Pick<Principal, 'id' | 'isEverybody'>): Promise<boolean> {
    return this.#written.fits() && (await this.#quota.fits(principal.id, this.#quotaOf(principal)))
  }

  /** Writes a new record. Resolves with false if the caller has too many, or the store is unavailable. */
  async create(key: string, record: OperationRecord): Promise<boolean> {
    const { principal } = record
    try {
      await this.#deps.identity.membership.register()
      if (!(await this.fits(principal))) return false
    } catch (error) {
      this.warn(error)
      return false
    }
    try {
      const length = await this.operations.create(key, record)
      this.#worked()
      this.#written.add(principal.id, key, length, record.expiresAt)
      this.#quota.add(principal.id, 1, length, record.expiresAt)
      return true
    } catch (error) {
      this.warn(error)
      // The write may still have reached the store: another process would take the operation over.
      background(
        this.#insist(() => this.operations.delete(key)),
        this.#deps.log,
      )
      return false
    }
  }

  /** Changes a record, and notifies observers. Resolves with the record after the change. @throws what the store throws */
  async change(key: string, change: Change): Promise<OperationRecord | undefined> {
    let grownBy: number | undefined
    const decide: Change = (before) => {
      grownBy = undefined
      const after = change(before)
      return after && { ...after, updatedAt: world.now() }
    }
    const record = await this.operations.change(key, decide, (by) => {
      grownBy = by
    })
    if (grownBy === undefined || !record) return record
    this.#worked()
    this.#quota.add(record.principal.id, 0, grownBy)
    this.#written.resize(record.principal.id, key, grownBy, record.expiresAt)
    this.#notify(key, record)
    return record
  }

  /** Changes a record of this process that has not ended. @throws what the store throws */
  changeOwn(
    key: string,
    change: (before: OperationRecord) => OperationRecord,
  ): Promise<OperationRecord | undefined> {
    return this.change(key, (before) => (this.#isOurs(before) ? change(before) : undefined))
  }

  /** The same, retried while the store is unavailable, for a minute. Never fails. */
  async insist(key: string, change: (before: OperationRecord) => OperationRecord): Promise<void> {
    await this.#insist(() => this.changeOwn(key, change))
  }

  /** Logs that a record could not be written: once, however often that is tried. */
  warn(error: unknown): void {
    if (this.#failures++ === 0)
      this.#deps.log.warn('operation.unrecorded', { error: asGatewayError(error).message })
  }

  /** Logs that records can be written again. */
  #worked(): void {
    if (this.#failures === 0) return
    this.#deps.log.info('operation.recorded', { failures: this.#failures })
    this.#failures = 0
  }

  /** Deletes a record whose id no caller has. */
  async delete(key: string, { id }: Pick<Principal, 'id'>): Promise<void> {
    await this.operations.delete(key)
    this.#quota.add(id, -1, -this.#written.delete(id, key))
  }

  /**
   * Writes the end of an operation, kept for `keep` milliseconds. Resolves with the record after that; undefined if it
   * has expired, or the process ends first.
   */
  async end(key: string, end: End, { call, keep }: { readonly call: Call; readonly keep: number }) {
    const wholeUntil = world.now() + WHOLE_PERIOD_MS
    let whole: EndFields | undefined = endFields(end, call)
    for (let delay = RETRY_DELAY_MS.first; ;) {
      if (whole && !(await this.#mayKeep(whole, call.principal))) whole = undefined
      const fields = whole ?? withoutOutcome(end)
      try {
        const record = await this.changeOwn(key, (before) => {
          const { request, input: _input, approval: _approval, ...rest } = before
          return {
            ...rest,
            ...keptRequest(request, fields.result),
            ...fields,
            expiresAt: expiryOf(before, keep),
          }
        })
        if (record) await this.#keepData(record)
        return record
      } catch (error) {
        this.warn(error)
        if (this.#deps.gateway.closing.aborted) return undefined
        await pause(delay)
        if (world.now() <= wholeUntil) continue
        // The store may accept a small record although it refuses a large one.
        whole = undefined
        delay = Math.min(delay * 2, RETRY_DELAY_MS.last)
      }
    }
  }

  /** Keeps the data that a result refers to as long as the result. */
  async #keepData({ result, principal, requestId, expiresAt: until }: OperationRecord): Promise<void> {
    const { store, log } = this.#deps
    const ids = result ? referencesIn(result) : []
    const error = await whyNotKept(keepReferences(store, principal, { ids, until }))
    if (error !== undefined) log.warn('operation.references_not_kept', { request_id: requestId, error })
  }

  /** Whether an outcome may be kept for its caller. */
  async #mayKeep({ result, failure }: EndFields, principal: Principal): Promise<boolean> {
    const length = result?.text.length ?? failure?.extra.relayed?.text.length ?? 0
    if (length > MAX_OUTCOME_LENGTH || !this.#written.fits(length)) return false
    return this.#quota.mayGrow(principal.id, length, this.#quotaOf(principal))
  }

  async #insist(write: () => Promise<unknown>): Promise<void> {
    const until = world.now() + WHOLE_PERIOD_MS
    while (!this.#deps.gateway.closing.aborted) {
      try {
        await write()
        return
      } catch (error) {
        this.warn(error)
        if (world.now() > until) return
        await pause(RETRY_DELAY_MS.first)
      }
    }
  }

  #quotaOf(principal: Pick<Principal, 'isEverybody'>): CallerQuota {
    const { keys, bytes } = principal.isEverybody ? PROCESS_QUOTA : CALLER_QUOTA
    return isStoreShared(this.#deps.gateway.settings)
      ? { keys, bytes }
      : { keys, bytes: Math.min(bytes, shareOf(principal, MEMORY_BYTES)) }
  }

  #isOurs(record: OperationRecord): boolean {
    return !isEnded(record) && record.owner === this.#deps.identity.membership.id
  }

  #notify(key: string, record: OperationRecord): void {
    this.#onChange(key, record)
    const followers = [...(this.#followers.get(key) ?? [])].map((follower) => () => follower(record))
    const observers = [...this.#observers].map((observer) => () => observer(key, record))
    for (const tell of [...observers, ...followers]) {
      try {
        tell()
      } catch (error) {
        // An observer that fails must not undo the write.
        background(Promise.reject(error), this.#deps.log)
      }
    }
  }
}

/** The ids of the kept data that a result refers to. */
function referencesIn(result: Payload): readonly string[] {
  const [first, all] = [result.meta(REFERENCE_KEY), result.meta(REFERENCES_KEY)]
  const facts: readonly unknown[] = Array.isArray(all) ? all : [first]
  return facts.flatMap((each) => (isObject(each) && typeof each.ref_id === 'string' ? [each.ref_id] : []))
}

type EndFields = Pick<OperationRecord, 'state' | 'result' | 'failure'>

/** The fields of an end: the result as its caller gets it, an unforeseen error without its text. */
function endFields(end: End, call: Call): EndFields {
  if (end.kind === 'error') {
    const failure = asGatewayError(end.error)
    return { state: stateOf(failure), failure }
  }
  if (end.outcome.kind !== 'result') throw new TypeError('an operation ends with a result or an error')
  const { result } = end.outcome
  return { state: 'completed', result: call.rewriteResult?.(result) ?? result }
}

/** The fields of an end whose outcome is not kept. */
function withoutOutcome(end: End): EndFields {
  if (end.kind === 'outcome') return { state: 'completed', failure: outcomeNotKept() }
  const failure = asGatewayError(end.error)
  const { code, message, category } = failure
  const short = new GatewayError(code, message.slice(0, MAX_MESSAGE_LENGTH), { category })
  return { state: stateOf(failure), failure: short }
}

/** How much of a message is kept of a failure that is too large, in characters. */
const MAX_MESSAGE_LENGTH = 1000

/** The state of an operation that failed. */
function stateOf(failure: GatewayError): OperationState {
  if (isInDoubt(failure)) return 'unknown'
  return failure.code === 'CANCELLED' ? 'cancelled' : 'failed'
}

/** Whether a call that failed may have taken effect: its response was lost, or did not come in time. */
function isInDoubt({ code, extra: { relayed, isUnsent } }: GatewayError): boolean {
  if (relayed || isUnsent) return false
  return code === 'OUTCOME_UNKNOWN' || code === 'OPERATION_TIMEOUT'
}

/** The result of an operation that was too large to keep. */
function outcomeNotKept(): GatewayError {
  return new GatewayError(
    'PAYLOAD_TOO_LARGE',
    'The call was executed, but its result was too large to keep.',
    {
      category: 'permanent',
      isResult: true,
      suggestion: 'Do not make the call again; read its effect with another tool.',
    },
  )
}

/*
 * Operations whose pages were collected (the feature `stream`): their record keeps the request, so that the id and a
 * checkpoint token are enough to get the remaining pages.
 */

/** What the record of an ended operation keeps of its request: tool and arguments, if its pages were collected. */
function keptRequest(
  request: OperationRequest | undefined,
  result: Payload | undefined,
): Pick<OperationRecord, 'request'> {
  if (!request || result?.meta(STREAM_KEY) === undefined) return {}
  return { request: { ...request, params: request.params.with({ _meta: undefined }), meta: {} } }
}

/** Makes the call of an operation again from a checkpoint on, for the caller who resumes it. @throws what the call fails with */
export function remainingPages(
  call: Call,
  { request, upstream, tool }: OperationRecord,
  { token, invoker }: { readonly token: unknown } & Pick<Services, 'invoker'>,
): Promise<Outcome> | undefined {
  if (!request) return undefined
  if (typeof token !== 'string') throw invalidParam('checkpoint_token', 'must be a string')
  const meta = { ...call.meta, [STREAM_KEY]: { checkpoint_token: token } }
  const target = { upstream, method: 'tools/call', name: tool }
  const params = request.params.with({ _meta: Payload.of(meta) })
  return invoker.relay({ ...otherCall(call, target, params), meta, requestState: {} })
}

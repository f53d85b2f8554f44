/**
 * Runs keyed calls once. A call claims its key in the ledger before it is sent; callers with the same key share the
 * call in flight, get the recorded response, or learn that its outcome is unknown.
 *
 *     claim ──▶ completed | failed | input_required        the caller gets it
 *       │ ◀──── abandoned                                  wait until the record is written, then claim
 *       └─────▶ held_elsewhere ──▶ done: replay; lost: settle, which ends like claim
 *
 * A retry that brings input responses starts at `resume` instead. The states of the record are in ARCHITECTURE.md.
 */
import { alsoBeforeSend, beforeSendSlot } from '../../core/exchange.ts'
import { deadlineSlot } from '../../core/slot.ts'
import { world, type Timer } from '../../core/world.ts'
import { type Call, type Handler, type Outcome, SERVER_TASK_KEY } from '../../core/call.ts'
import { keepsResultSlot, referencesSlot } from '../../core/used-reference.ts'
import { type KeyForecast, withFinding } from '../../core/dry-run.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import type { Rule } from '../../core/failure.ts'
import { asCalled } from '../../core/judgement/call.ts'
import { background } from '../../core/log.ts'
import { Registry } from '../../core/registry.ts'
import { pause, untilAborted, within, MAX_TIMER_MS } from '../../core/time/waiting.ts'
import type { CallRecord, StoredCall } from '../../records/calls.ts'
import { keepUsed, whyNotKept } from '../../records/references.ts'
import type { Services } from '../feature.ts'
import {
  annotateReplay,
  annotateFailure,
  UNRECORDED,
  type Completion,
  type NextState,
  classifyCompletion,
  classifyFailure,
  verifiedResult,
  verify,
} from './completion.ts'
import { withKeyArgument, idempotencyKeySlot } from '../../core/tool-call.ts'
import {
  isStep,
  type KeyedRequest,
  conflict,
  inProgress,
  isTimeout,
  outcomeLost,
  overloaded,
  repeatable,
} from './keyed-request.ts'
import type { CallerQuota } from '../../durable/bounds.ts'
import { mustLast } from '../../durable/members.ts'
import { type Claim, type Change, Ledger, type OwnClaim } from './ledger.ts'
import { isObject } from '../../core/json/json.ts'
import type { Payload } from '../../core/payload.ts'
import { LOST_ANSWER_KEY, REFERENCE_KEY, REFERENCES_KEY } from '../../protocol/meta-keys.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'identity' | 'gateway'>

/** How calls of one tool are executed once. */
export interface ToolPolicy {
  readonly upstream: string
  readonly next: Handler
  readonly rules: readonly Rule[]
  readonly quota: CallerQuota
  readonly compat: boolean
  readonly verify?: string | undefined
  readonly keyArgument?: string | false | undefined
  readonly forwardsKey: boolean
}

/** The request state key with the attempt whose server requests input. */
const STATE_KEY = 'idempotency'

/** How many keyed calls may be in flight. */
const MAX_IN_FLIGHT_CALLS = 10_000
/** How often the record of another gateway's call is polled: at first, and at most, in milliseconds. */
const POLL_INTERVAL_MS = { first: 20, last: 250 }
/** How long input responses can be awaited, in milliseconds. */
const INPUT_TIMEOUT_MS = 330_000
/** How long closing waits for pending writes, in milliseconds. */
const CLOSE_TIMEOUT_MS = 2000

/** How a caller obtains the record of its key. */
type Step =
  | { readonly kind: 'claim' }
  /** The caller brings input responses for a call of this gateway that is open at its server. */
  | { readonly kind: 'resume'; readonly claim: OwnClaim }
  /** The response of the recorded call is lost; a read may determine its outcome. */
  | { readonly kind: 'settle'; readonly stored: StoredCall }

/** Executes keyed calls once, however often they are requested. */
export class IdempotentExecutor {
  readonly #deps: Deps
  readonly #ledger: Ledger
  readonly #shared = new Registry<string, InFlightCall>()

  constructor(deps: Deps) {
    this.#deps = deps
    this.#ledger = new Ledger(deps)
  }

  /** Executes a call, or returns the outcome of an earlier execution. */
  async run(keyed: KeyedRequest, policy: ToolPolicy): Promise<Outcome> {
    const reopening = this.#reopen(keyed)
    const reopened = reopening && (await reopening)
    // The holder of the open call reports its outcome.
    if (reopened?.kind === 'abandoned') return policy.next(keyed.call)
    let step: Step = reopened?.kind === 'own' ? { kind: 'resume', claim: reopened } : { kind: 'claim' }
    for (;;) {
      const { completion, shared } = await this.#share(keyed, policy, step)
      const isFirst = shared.isFirst(keyed.call)
      if (step.kind === 'resume' && !isFirst) {
        // Another caller holds the key briefly, while it reads our record.
        await waitWithCaller(shared.gone, keyed, shared.startedAt)
        continue
      }
      step = { kind: 'claim' }
      switch (completion.kind) {
        case 'completed':
          return answer(completion, { keyed, policy, wasReplay: !isFirst })
        case 'failed':
          throw failure(completion, keyed, !isFirst)
        case 'held_elsewhere': {
          const stored = await this.#pollRecord(completion.stored, keyed)
          if (stored?.record.state === 'done') return replay(stored.record, keyed, policy)
          if (stored) step = { kind: 'settle', stored }
          break
        }
        case 'input_required':
          if (isFirst) return completion.outcome
          await waitWithCaller(shared.gone, keyed, shared.startedAt)
          break
        case 'abandoned':
          await waitWithCaller(shared.gone, keyed, shared.startedAt)
      }
    }
  }

  /**
   * Like `run`, but waits as long as a lost attempt may still take effect. For tasks, and for operations whose process
   * ended: a call without a key of its own counts as lost since `lostSince`, in milliseconds since 1970.
   * @throws OUTCOME_UNKNOWN
   */
  async repeat(keyed: KeyedRequest, plan: ToolPolicy, lostSince?: number): Promise<Outcome> {
    if (lostSince !== undefined) await this.#ledger.recordLost(keyed, lostSince)
    for (;;) {
      try {
        return await this.run(keyed, plan)
      } catch (error) {
        const isWaitedFor = error instanceof GatewayError && error.code === 'IDEMPOTENCY_IN_PROGRESS'
        if (!isWaitedFor || keyed.call.signal.aborted) throw error
        // The lost request may still take effect. The wait does not count against the deadline of this call.
        const resumeDeadline = deadlineSlot.of(keyed.call)?.pause()
        await pause((error.extra.retryAfterSeconds ?? 1) * 1000, keyed.call.signal)
        resumeDeadline?.()
      }
    }
  }

  /** Settles a call without a record whose response was lost. @throws OUTCOME_UNKNOWN, IDEMPOTENCY_IN_PROGRESS */
  async settle(keyed: KeyedRequest, policy: ToolPolicy, startedAt: number): Promise<Outcome> {
    await this.#ledger.recordLost(keyed, startedAt)
    return this.run(keyed, policy)
  }

  /**
   * What would become of a call, and the call as its server would get it. Reads the record only.
   * @throws IDEMPOTENCY_CONFLICT, OUTCOME_UNKNOWN, QUOTA_EXHAUSTED, SERVER_UNAVAILABLE
   */
  async preview(keyed: KeyedRequest, policy: ToolPolicy): Promise<Call> {
    const { call, key } = keyed
    const stored = await this.#ledger.find(keyed)
    const about = { ...(key !== undefined && { key }), ...(stored && { since: stored.record.startedAt }) }
    const outcome = stored ? await this.#forecast(stored.record, keyed, policy) : 'would_run'
    if (outcome === 'would_run') await this.#ledger.check(keyed, policy.quota)
    return withFinding(this.#prepare(call, keyed, policy), { idempotency: { outcome, ...about } })
  }

  /** @throws IDEMPOTENCY_CONFLICT, OUTCOME_UNKNOWN */
  async #forecast(
    record: CallRecord,
    keyed: KeyedRequest,
    { verify: verifyExpression }: ToolPolicy,
  ): Promise<KeyForecast['outcome']> {
    const { state, expiresAt, fingerprint, tool, startedAt } = record
    if (state !== 'executing' && expiresAt <= world.now()) return 'would_run'
    if (fingerprint !== keyed.fingerprint) throw conflict(keyed, tool, startedAt)
    if (state === 'done') return 'would_replay'
    if (!(await this.#isLost(record))) return 'would_wait'
    if (mayRepeat(keyed)) return 'would_run'
    if (verifyExpression === undefined || isStep(keyed.call)) throw outcomeLost(keyed, startedAt)
    return 'would_verify'
  }

  /** Waits until every in-flight call is recorded. */
  async close(): Promise<void> {
    const all = Promise.all(this.#shared.values().map(({ gone }) => gone))
    await within(all, CLOSE_TIMEOUT_MS, undefined)
  }

  /**
   * The open call of the server that a retry brings responses for; undefined if there is none, or if it was resumed
   * already.
   */
  #reopen(keyed: KeyedRequest): Promise<Claim | undefined> | undefined {
    const attempt = keyed.call.requestState[STATE_KEY]
    return typeof attempt === 'string' ? this.#reopenAttempt(keyed, attempt) : undefined
  }

  async #reopenAttempt(keyed: KeyedRequest, attempt: string): Promise<Claim | undefined> {
    // Another caller holds the key while it reads the record, or the call was resumed already.
    for (let held = this.#shared.get(keyed.id); held; held = this.#shared.get(keyed.id))
      await waitWithCaller(held.gone, keyed, held.startedAt)
    return this.#ledger.reopen(keyed, attempt)
  }

  /** Starts a call, or joins the one in flight. */
  async #share(
    keyed: KeyedRequest,
    policy: ToolPolicy,
    step: Step,
  ): Promise<{ readonly completion: Completion; readonly shared: InFlightCall }> {
    const inFlight = this.#shared.get(keyed.id)
    if (inFlight) {
      if (inFlight.keyed.fingerprint !== keyed.fingerprint)
        throw conflict(keyed, inFlight.keyed.tool, inFlight.startedAt)
      const completion = await inFlight.wait(keyed.call).catch((error: unknown) => {
        throw isTimeout(error) ? inProgress(keyed, inFlight.startedAt) : error
      })
      return { completion, shared: inFlight }
    }
    if (this.#shared.size >= MAX_IN_FLIGHT_CALLS) throw overloaded()
    const shared = new InFlightCall(keyed)
    this.#shared.set(keyed.id, shared)
    const waiting = shared.wait(keyed.call)
    background(this.#perform(shared, policy, step), this.#deps.log)
    return { completion: await waiting, shared }
  }

  async #perform(shared: InFlightCall, policy: ToolPolicy, step: Step): Promise<void> {
    let writing: Promise<unknown> | undefined
    try {
      const claim = await this.#obtain(step, shared, policy)
      if (claim.kind !== 'own') return shared.end(claim)
      const made = await this.#make(shared, policy, claim)
      writing = made.writing
      shared.end(made.completion)
    } catch (error) {
      shared.end({ kind: 'failed', error })
    } finally {
      // Callers that arrive before the record is written get the result from here.
      if (writing) await writing
      this.#shared.delete(shared.keyed.id)
      shared.leave()
    }
  }

  /** Obtains the record of a key. @throws if the call may not be made */
  #obtain(step: Step, shared: InFlightCall, policy: ToolPolicy): Promise<Claim> {
    switch (step.kind) {
      case 'claim':
        return this.#ledger.claim(shared.keyed, policy.quota)
      case 'resume':
        return Promise.resolve(step.claim)
      case 'settle':
        return this.#settle(step.stored, shared, policy)
    }
  }

  /** Makes the call under our own record. */
  async #make(
    shared: InFlightCall,
    policy: ToolPolicy,
    claim: OwnClaim,
  ): Promise<{ readonly completion: Completion; readonly writing?: Promise<unknown> }> {
    const { keyed } = shared
    const { stored } = claim
    const { startedAt } = stored.record
    const { rules, quota } = policy
    if (!shared.isWanted) {
      // The server continues a task that is not followed any more.
      const next = keyed.call.requestState[SERVER_TASK_KEY] === undefined ? 'released' : 'unknown'
      const write = await this.#ledger.write(keyed, stored, changeTo(next, {}), quota)
      return { completion: { kind: 'abandoned' }, ...write }
    }
    try {
      const outcome = await this.#execute(shared, policy, claim)
      const next = classifyCompletion(outcome, rules)
      const end = outcome.kind === 'result' ? { result: recordedResult(outcome.result) } : {}
      const write = await this.#write(keyed, stored, changeTo(next, end), quota)
      if (outcome.kind === 'task') this.#loseIfTimedOut(keyed, stored.record.attempt, write.writing)
      if (outcome.kind !== 'result') {
        const state = {
          ...outcome.requestState,
          ...(next === 'executing' && { [STATE_KEY]: stored.record.attempt }),
        }
        return {
          completion: { kind: 'input_required', outcome: { ...outcome, requestState: state } },
          ...write,
        }
      }
      const isReleased = next === 'released'
      const isWritten = write.writing === undefined && !write.isShort
      const isUnrecorded = !isWritten && !isReleased
      const completed = { kind: 'completed', result: outcome.result, startedAt } as const
      const more = { ...(isReleased && { isReleased }), ...(isUnrecorded && { isUnrecorded }) }
      return { completion: { ...completed, ...more }, ...write }
    } catch (error) {
      const next = stateAfterFailure(error, keyed, policy)
      const failed = error instanceof GatewayError ? { failure: error } : {}
      const write = await this.#write(keyed, stored, changeTo(next, failed), quota)
      return { completion: { kind: 'failed', error, ...(next === 'done' && { startedAt }) }, ...write }
    }
  }

  /** A task of the server whose call takes too long is not followed any more, so the key need not wait for it. */
  #loseIfTimedOut(keyed: KeyedRequest, attempt: string, opening: Promise<unknown> | undefined): void {
    const { signal } = keyed.call
    const lose = (): void => {
      if (isTimeout(signal.reason)) background(this.#ledger.lose(keyed, attempt, opening), this.#deps.log)
    }
    if (signal.aborted) lose()
    else signal.addEventListener('abort', lose)
  }

  /** Records the end of a call. The server has responded, so the call does not run out of time while the store is slow. */
  async #write(...given: Parameters<Ledger['write']>): ReturnType<Ledger['write']> {
    const resume = deadlineSlot.of(given[0].call)?.pause()
    try {
      return await this.#ledger.write(...given)
    } finally {
      resume?.()
    }
  }

  /** The response of the call; if it is lost, the result of a verifying read instead. */
  async #execute(shared: InFlightCall, policy: ToolPolicy, { stored, term }: OwnClaim): Promise<Outcome> {
    const { keyed } = shared
    const { record } = stored
    const { upstream, verify: verifyExpression } = policy
    const { total } = this.#deps.servers.callBounds(upstream, keyed.tool)
    if (referencesSlot.of(keyed.call)) await this.#keepReferences(keyed, record)
    try {
      return await shared.within(total, record.expiresAt, (call) =>
        policy.next(this.#prepare(this.#sentIn(term, call), keyed, policy)),
      )
    } catch (thrown) {
      if (stateAfterFailure(thrown, keyed, policy) !== 'unknown') throw thrown
      // A caller that waits longer than a call may take gets OUTCOME_UNKNOWN.
      const error = shared.isOverdue ? outcomeLost(keyed, shared.startedAt) : thrown
      // A step with a lost response also has an unknown outcome in its transaction.
      if (verifyExpression === undefined || isStep(keyed.call) || !shared.isWanted) throw error
      const call = shared.verificationCall
      const found = await verify(call, upstream, verifyExpression, this.#deps).catch(() => undefined)
      if (!found) throw keyed.key === undefined ? error : repeatable(error)
      return { kind: 'result', result: verifiedResult(found.value, call.tool) }
    }
  }

  /** A retry needs the data in its arguments again: it is kept as long as the key is remembered. */
  async #keepReferences({ call }: KeyedRequest, { expiresAt: until }: CallRecord): Promise<void> {
    const error = await whyNotKept(keepUsed(this.#deps.store, call, until))
    if (error === undefined) return
    this.#deps.log.warn('idempotency.references_not_kept', { request_id: call.requestId, error })
  }

  /** The call, which is sent only in this term: after it, another gateway may make the call. */
  #sentIn(term: number | undefined, call: Call): Call {
    const { membership } = this.#deps.identity
    return beforeSendSlot.set(
      call,
      alsoBeforeSend(call, () => mustLast(term, membership)),
    )
  }

  /** The call for the server: with the key, if the server accepts one. */
  #prepare(call: Call, { key }: KeyedRequest, { keyArgument, forwardsKey }: ToolPolicy): Call {
    if (key === undefined) return call
    const entry = keyArgument === false ? undefined : call.tool
    const filled = withKeyArgument(call, key, keyArgument, entry)
    return forwardsKey ? idempotencyKeySlot.set(filled, key) : filled
  }

  /** Polls the record of another gateway's call until it ended or is lost; undefined if the record is gone. */
  async #pollRecord(first: StoredCall, keyed: KeyedRequest): Promise<StoredCall | undefined> {
    let stored = first
    for (let delay = POLL_INTERVAL_MS.first; ; delay = Math.min(delay * 1.5, POLL_INTERVAL_MS.last)) {
      const { record } = stored
      if (record.state !== 'executing' && record.expiresAt <= world.now()) {
        await this.#ledger.forget(keyed, stored)
        return undefined
      }
      if (record.fingerprint !== keyed.fingerprint) throw conflict(keyed, record.tool, record.startedAt)
      if (record.state === 'done') return stored
      const isLost = await this.#isLost(record)
      if (!isLost) await waitWithCaller(pause(delay), keyed, record.startedAt)
      if (this.#shared.has(keyed.id)) return undefined
      const found = await this.#ledger.find(keyed)
      // Its process may have recorded the outcome after the record was read, and then have ended.
      if (isLost && found?.text === stored.text) return found
      if (!found) return undefined
      stored = found
    }
  }

  /** Whether a call without a recorded end is abandoned. */
  async #isLost({ state, openUntil, owner }: CallRecord): Promise<boolean> {
    if (state === 'unknown') return true
    if (openUntil !== undefined && openUntil <= world.now()) return true
    return !(await this.#deps.identity.membership.isAlive(owner))
  }

  /** Determines whether a lost call may be repeated. @throws OUTCOME_UNKNOWN, IDEMPOTENCY_IN_PROGRESS */
  async #settle(
    stored: StoredCall,
    shared: InFlightCall,
    { upstream, verify: verifyExpression }: ToolPolicy,
  ): Promise<Claim> {
    const { keyed } = shared
    const { startedAt, lostAt, state, attemptedAt, canLast } = stored.record
    if (mayRepeat(keyed)) return this.#ledger.takeOver(keyed, stored)
    // A step with a lost response also has an unknown outcome in its transaction.
    if (verifyExpression === undefined || isStep(keyed.call)) throw outcomeLost(keyed, startedAt)
    let found
    try {
      found = await verify(shared.call, upstream, verifyExpression, this.#deps)
    } catch (error) {
      // Another gateway may have found the outcome meanwhile.
      const present = await this.#ledger.find(keyed)
      if (present?.record.state === 'done') return { kind: 'held_elsewhere', stored: present }
      throw outcomeLost(keyed, startedAt, reasonOf(error))
    }
    if (found) return this.#ledger.settle(keyed, stored, verifiedResult(found.value, keyed.call.tool))
    const now = world.now()
    // The earlier request may still take effect for as long as a server may be silent, from its last sign of life on.
    // A gateway that ended is noticed only now.
    const { silence, total } = this.#deps.servers.callBounds(upstream, keyed.tool)
    const silentUntil = (lostAt ?? (state === 'executing' ? now : attemptedAt)) + silence
    // The server of a task may be silent to its end.
    const until = canLast && Number.isFinite(total) ? Math.max(silentUntil, attemptedAt + total) : silentUntil
    if (until <= now) return this.#ledger.takeOver(keyed, stored)
    if (state === 'executing') {
      const marked = await this.#ledger.markLost(keyed, stored)
      if (marked.kind !== 'own') return marked
    }
    throw inProgress(keyed, startedAt, (until - now) / 1000)
  }
}

/** Whether a call whose outcome is lost has the same effect if it is made again. */
function mayRepeat({ call }: KeyedRequest): boolean {
  const { op, idempotent } = (call.tool && asCalled(call.tool, call))?.classification ?? {}
  return op === 'read' || idempotent === true
}

function changeTo(next: NextState, end: Pick<Partial<CallRecord>, 'result' | 'failure'>): Change {
  switch (next) {
    case 'released':
      return 'released'
    case 'unknown':
      return { open: { state: 'unknown', lostAt: world.now() } }
    case 'executing':
      return { open: { openUntil: world.now() + INPUT_TIMEOUT_MS } }
    case 'done':
      return { done: end }
  }
}

/** Why a verifying read was inconclusive, in at most 300 characters. */
function reasonOf(error: unknown): string {
  return (error instanceof Error ? error.message : asGatewayError(error).message).slice(0, 300)
}

function stateAfterFailure(error: unknown, { call }: KeyedRequest, { rules }: ToolPolicy): NextState {
  return classifyFailure(error, { rules, isResumed: call.requestState[STATE_KEY] !== undefined })
}

interface ResponseContext {
  readonly keyed: KeyedRequest
  readonly policy: ToolPolicy
  readonly wasReplay: boolean
}

function answer(
  ended: Completion & { kind: 'completed' },
  { keyed, policy, ...context }: ResponseContext,
): Outcome {
  // A repetition with a new key got the outcome of a call whose answer was lost.
  const isRepetition = ended.result.meta(LOST_ANSWER_KEY) !== undefined
  const wasReplay = (context.wasReplay || isRepetition) && !ended.isReleased
  if (wasReplay) keyed.call.logFields.set('replayed', true)
  const { startedAt, isUnrecorded } = ended
  const result = isUnrecorded ? ended.result.withMeta({ [UNRECORDED]: true }) : ended.result
  return { kind: 'result', result: annotateReplay(result, { key: keyed.key, wasReplay, startedAt }, policy) }
}

function failure(
  { error, startedAt }: Completion & { kind: 'failed' },
  { call, key }: KeyedRequest,
  wasReplay: boolean,
) {
  if (startedAt === undefined) return error
  if (wasReplay) call.logFields.set('replayed', true)
  return annotateFailure(error, { key, wasReplay, startedAt })
}

/** Returns the recorded outcome again. */
function replay(
  { result, failure: error, startedAt }: CallRecord,
  keyed: KeyedRequest,
  policy: ToolPolicy,
): Outcome {
  if (result) return answer({ kind: 'completed', result, startedAt }, { keyed, policy, wasReplay: true })
  throw failure({ kind: 'failed', error, startedAt }, keyed, true)
}

/** Waits as long as the caller does. @throws IDEMPOTENCY_IN_PROGRESS, or the reason why the call ended */
async function waitWithCaller(promise: Promise<void>, keyed: KeyedRequest, startedAt: number): Promise<void> {
  try {
    await untilAborted(promise, keyed.call.signal)
  } catch (error) {
    throw isTimeout(error) ? inProgress(keyed, startedAt) : error
  }
}

/** The member of the facts of kept data that is a credential, and expires long before the record. */
const URL_MEMBER = 'access_url'

/** A result without the URLs of kept data. */
function recordedResult(result: Payload): Payload {
  if (result.meta(REFERENCE_KEY) === undefined) return result
  return withoutUrls(result).withItems('content', withoutUrls)
}

/** A result or a content block. */
function withoutUrls(given: Payload): Payload {
  const changes = [REFERENCE_KEY, REFERENCES_KEY].flatMap((key) => {
    const facts = given.meta(key)
    const short = Array.isArray(facts) ? facts.map(withoutUrl) : withoutUrl(facts)
    return facts === undefined ? [] : [[key, short] as const]
  })
  return changes.length === 0 ? given : given.withMeta(Object.fromEntries(changes))
}

function withoutUrl(facts: unknown): unknown {
  if (!isObject(facts)) return facts
  const { [URL_MEMBER]: _url, ...rest } = facts
  return rest
}

/** How long a call continues without a waiting caller, in milliseconds. */
const ORPHAN_GRACE_MS = 5000
/** How long an aborted call may take to end, in milliseconds. */
const ABORT_TIMEOUT_MS = 1000

/**
 * An in-flight call and the callers coalesced onto it. It ends when it completes, when no caller waits any more, or when
 * it exceeds the maximum duration of a call.
 */
class InFlightCall {
  readonly keyed: KeyedRequest
  readonly startedAt = world.now()
  readonly #first: Call
  readonly #controller = new AbortController()
  readonly #completion = Promise.withResolvers<Completion>()
  /** Set once somebody waits for it. */
  #gone: PromiseWithResolvers<void> | undefined
  #isGone = false
  /** Why the call is no longer awaited, once it was aborted and did not end in time. */
  #abandoned: { readonly reason: unknown } | undefined
  /** Ends the wait for the call that is made. */
  #abandon: ((reason: unknown) => void) | undefined
  #waiting = 0
  #isFirstWaiting = false
  #hasEnded = false
  #timer: Timer | undefined
  #total = Number.POSITIVE_INFINITY
  #pauses = 0
  #deadline: Timer | undefined
  #isOverdue = false

  constructor(keyed: KeyedRequest) {
    this.keyed = keyed
    this.#first = keyed.call
  }

  /** Resolves once the call is over and its outcome is recorded. */
  get gone(): Promise<void> {
    if (this.#isGone) return Promise.resolve()
    return (this.#gone ??= Promise.withResolvers<void>()).promise
  }

  /** Whether any caller waits. */
  get isWanted(): boolean {
    return this.#waiting > 0
  }

  /** Whether it was aborted because it exceeded the maximum duration. */
  get isOverdue(): boolean {
    return this.#isOverdue
  }

  /** The call that is made on behalf of all callers. Notifications go to the first caller only. */
  get call(): Call {
    const { signal } = this.#controller
    const pause = (): (() => void) => this.#pauseDeadline()
    const deadline = { pause, renew: () => deadlineSlot.of(this.#first)?.renew() }
    return {
      ...this.#first,
      signal,
      abort: (reason) => this.#abort(reason),
      slots: deadlineSlot.put(deadline, this.#first.slots),
      emit: (notification) => {
        if (this.#isFirstWaiting) this.#first.emit(notification)
      },
    }
  }

  /** The same; what is kept of its result stays as long as its record, which has references to it. */
  #callKept(until: number): Call {
    const { call } = this
    const slots = keepsResultSlot.put(Math.max(keepsResultSlot.of(call) ?? 0, until), call.slots)
    return Object.assign(call, { slots })
  }

  /** A call for a verifying read on behalf of all callers, usable after the original was aborted. */
  get verificationCall(): Call {
    const controller = new AbortController()
    const { signal } = controller
    return { ...this.#first, signal, abort: (reason) => controller.abort(reason), emit: () => undefined }
  }

  /**
   * Runs the call, at most for `total` milliseconds; what is kept of its result stays until a time, in milliseconds since
   * 1970. @throws errors of the call, or why it was aborted
   */
  async within(total: number, keptUntil: number, make: Handler): Promise<Outcome> {
    this.#total = total
    this.#start()
    try {
      return await this.#unlessAbandoned(make(this.#callKept(keptUntil)))
    } finally {
      world.clearTimeout(this.#deadline)
      this.#total = Number.POSITIVE_INFINITY
    }
  }

  #unlessAbandoned(made: Promise<Outcome>): Promise<Outcome> {
    return new Promise((resolve, reject) => {
      this.#abandon = reject
      if (this.#abandoned) reject(this.#abandoned.reason)
      made.then(resolve, reject)
    })
  }

  isFirst(call: Call): boolean {
    return call === this.#first
  }

  /** The completion of the call. @throws the reason of the caller's signal, if that is aborted first */
  async wait(call: Call): Promise<Completion> {
    const isFirst = this.isFirst(call)
    this.#waiting++
    if (isFirst) this.#isFirstWaiting = true
    world.clearTimeout(this.#timer)
    try {
      return await untilAborted(this.#completion.promise, call.signal)
    } finally {
      if (isFirst) this.#isFirstWaiting = false
      if (--this.#waiting === 0 && !this.#hasEnded) this.#abortIfOrphaned(call.signal)
    }
  }

  /** Delivers the completion to all waiting callers. */
  end(ended: Completion): void {
    this.#hasEnded = true
    world.clearTimeout(this.#timer)
    this.#completion.resolve(ended)
    // The server continues for as long as the caller that was asked for input is connected.
    const { signal } = this.#first
    if (ended.kind !== 'input_required') return
    const stop = (): void => this.#abort(signal.reason)
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop)
  }

  leave(): void {
    this.#isGone = true
    this.#gone?.resolve()
  }

  #abortIfOrphaned({ reason }: AbortSignal): void {
    world.clearTimeout(this.#timer)
    const abortReason =
      reason instanceof GatewayError ? reason : new GatewayError('CANCELLED', 'No caller waits for it.')
    this.#timer = world.setTimeout(() => this.#abort(abortReason), ORPHAN_GRACE_MS).unref()
  }

  /** Aborts the call; if it does not end in time, it is no longer awaited. */
  #abort(reason: unknown): void {
    this.#controller.abort(reason)
    world
      .setTimeout(() => {
        this.#abandoned ??= { reason }
        this.#abandon?.(reason)
      }, ABORT_TIMEOUT_MS)
      .unref()
  }

  #start(): void {
    world.clearTimeout(this.#deadline)
    if (this.#pauses > 0 || this.#total > MAX_TIMER_MS) return
    this.#deadline = world
      .setTimeout(() => {
        this.#isOverdue = true
        this.#abort(tooLong(this.#total))
      }, this.#total)
      .unref()
  }

  /** Stops the deadline while a person is awaited; it starts again after that. */
  #pauseDeadline(): () => void {
    const first = deadlineSlot.of(this.#first)?.pause()
    this.#pauses++
    world.clearTimeout(this.#deadline)
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      first?.()
      this.#pauses--
      this.#start()
    }
  }
}

function tooLong(total: number): GatewayError {
  return new GatewayError('OPERATION_TIMEOUT', `The server did not respond within ${total / 1000} s.`)
}

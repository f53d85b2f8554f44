/**
 * Runs keyed calls once. A call claims its key in the ledger before it is sent; callers with the same key
 * share the call in flight, get the recorded response, or learn that its outcome is unknown. See the state
 * machine in ARCHITECTURE.md.
 */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import type { Rule } from '../../core/failure.ts'
import { asCalled } from '../../core/judgement/judge.ts'
import { background } from '../../core/log.ts'
import { Registry } from '../../core/registry.ts'
import { pause, untilAborted, within } from '../../core/time/waiting.ts'
import type { CallRecord, StoredCall } from '../../records/calls.ts'
import type { Services } from '../services.ts'
import {
  annotateReplay,
  annotateFailure,
  UNRECORDED,
  type CompletionClass,
  classifyCompletion,
  classifyFailure,
  verifiedResult,
  verify,
} from './completion.ts'
import { withKeyArgument } from '../../core/tool-call.ts'
import {
  isStep,
  type KeyedRequest,
  conflict,
  inProgress,
  lost,
  overloaded,
  repeatable,
} from './keyed-request.ts'
import { type Claim, type Change, Ledger, type Quota } from './ledger.ts'
import { type Completion, InFlightCall } from './in-flight.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'invoker' | 'identity' | 'gateway'>

/** How the calls of one tool are made once. */
export interface ToolPolicy {
  readonly upstream: string
  readonly next: Handler
  readonly rules: readonly Rule[]
  readonly quota: Quota
  readonly compat: boolean
  readonly verify?: string | undefined
  readonly keyArgument?: string | false | undefined
  readonly forwardsKey: boolean
}

/** The slot of a call's state that names the attempt its server asks for. */
const STATE_KEY = 'idempotency'

/** How many keyed calls may be under way. */
const MAX_IN_FLIGHT_CALLS = 10_000
/** How often a call of another gateway is looked after: at first, and at last, in milliseconds. */
const POLL_INTERVAL_MS = { first: 20, last: 250 }
/** How long the answers to a question of a server can be awaited by whoever holds its call, in milliseconds. */
const INPUT_TIMEOUT_MS = 330_000
/** How long closing waits for what is being written, in milliseconds. */
const CLOSING = 2000

type Begin = (shared: InFlightCall) => Promise<Claim>

/** Makes keyed calls once, however often they are asked for. */
export class IdempotentExecutor {
  readonly #deps: Deps
  readonly #ledger: Ledger
  readonly #shared = new Registry<string, InFlightCall>()

  constructor(deps: Deps) {
    this.#deps = deps
    this.#ledger = new Ledger(deps)
  }

  /** Makes a call, or tells what came of it when it was made before. */
  async run(keyed: KeyedRequest, plan: ToolPolicy): Promise<Outcome> {
    const claim: Begin = () => this.#ledger.claim(keyed, plan.quota)
    const reopening = this.#reopened(keyed)
    const reopened = reopening && (await reopening)
    // Whoever holds the open call says what became of it.
    if (reopened?.kind === 'over') return plan.next(keyed.call)
    let begin = reopened ? async () => reopened : claim
    for (;;) {
      const { ended, shared } = await this.#share(keyed, plan, begin)
      const isFirst = shared.isFirst(keyed.call)
      const isOurs = reopened !== undefined && begin !== claim
      if (!isFirst && isOurs) {
        // Another process was just reading our record.
        await heeding(shared.gone, keyed, shared.startedAt)
        continue
      }
      begin = claim
      if (ended.kind === 'result') return answer(ended, { keyed, plan, wasReplay: !isFirst })
      if (ended.kind === 'failed') throw failure(ended, keyed, !isFirst)
      if (ended.kind === 'input_required' && isFirst) return ended.outcome
      if (ended.kind === 'found') {
        const found = await this.#look(ended.kept, keyed)
        if (found?.record.state === 'done') return replay(found.record, keyed, plan)
        if (found) begin = (other) => this.#settle(found, other, plan)
      } else await heeding(shared.gone, keyed, shared.startedAt)
    }
  }

  /** Waits until no call is under way any more that has to be written down. */
  async close(): Promise<void> {
    const all = Promise.all(this.#shared.values().map(({ gone }) => gone))
    await within(all, CLOSING, undefined)
  }

  /** The open call of the server that a retry brings answers for; nothing where it is none, or goes on already. */
  #reopened(keyed: KeyedRequest): Promise<Claim | undefined> | undefined {
    const asked = keyed.call.requestState[STATE_KEY]
    if (typeof asked !== 'string' || this.#shared.has(keyed.id)) return undefined
    return this.#ledger.reopen(keyed, asked)
  }

  /** Begins a call, or joins the one that has begun. */
  async #share(
    keyed: KeyedRequest,
    plan: ToolPolicy,
    begin: Begin,
  ): Promise<{ ended: Completion; shared: InFlightCall }> {
    const there = this.#shared.get(keyed.id)
    if (there) {
      if (there.keyed.fingerprint !== keyed.fingerprint)
        throw conflict(keyed, there.keyed.tool, there.startedAt)
      const ended = await there.wait(keyed.call).catch((error: unknown) => {
        throw isTimeout(error) ? inProgress(keyed, there.startedAt) : error
      })
      return { ended, shared: there }
    }
    if (this.#shared.size >= MAX_IN_FLIGHT_CALLS) throw overloaded()
    const shared = new InFlightCall(keyed)
    this.#shared.set(keyed.id, shared)
    const waiting = shared.wait(keyed.call)
    background(this.#perform(shared, plan, begin), this.#deps.log)
    return { ended: await waiting, shared }
  }

  async #perform(shared: InFlightCall, plan: ToolPolicy, begin: Begin): Promise<void> {
    let writing: Promise<unknown> | undefined
    try {
      const begun = await begin(shared)
      if (begun.kind !== 'own') return shared.end(begun)
      const made = await this.#make(shared, plan, begun.kept)
      writing = made.writing
      shared.end(made.ended)
    } catch (error) {
      shared.end({ kind: 'failed', error })
    } finally {
      // Whoever comes until it is written down learns of it here.
      if (writing) await writing
      this.#shared.delete(shared.keyed.id)
      shared.leave()
    }
  }

  /** Makes the call under a record of ours. */
  async #make(
    shared: InFlightCall,
    plan: ToolPolicy,
    kept: StoredCall,
  ): Promise<{ readonly ended: Completion; readonly writing?: Promise<unknown> }> {
    const { keyed } = shared
    const { startedAt } = kept.record
    const { rules, quota: most } = plan
    if (!shared.isWanted) {
      return { ended: { kind: 'over' }, ...(await this.#ledger.write(keyed, kept, 'dropped', most)) }
    }
    try {
      const outcome = await this.#answered(shared, plan)
      const verdict = classifyCompletion(outcome, rules)
      const end = outcome.kind === 'result' ? { result: outcome.result } : {}
      const written = await this.#ledger.write(keyed, kept, changeOf(verdict, end), most)
      if (outcome.kind === 'input_required') {
        const state = {
          ...outcome.requestState,
          ...(verdict === 'open' && { [STATE_KEY]: kept.record.attempt }),
        }
        return { ended: { kind: 'input_required', outcome: { ...outcome, requestState: state } }, ...written }
      }
      const isReleased = verdict === 'released'
      const isWritten = written.writing === undefined && !written.isShort
      const isUnrecorded = !isWritten && !isReleased
      const ended = { kind: 'result', result: outcome.result, startedAt } as const
      const more = { ...(isReleased && { isReleased }), ...(isUnrecorded && { isUnrecorded }) }
      return { ended: { ...ended, ...more }, ...written }
    } catch (error) {
      const verdict = failureVerdict(error, keyed, plan)
      const failed = error instanceof GatewayError ? { failure: error } : {}
      const written = await this.#ledger.write(keyed, kept, changeOf(verdict, failed), most)
      return { ended: { kind: 'failed', error, ...(verdict === 'done' && { startedAt }) }, ...written }
    }
  }

  /** What the call gives; where its answer is lost, what a read finds of it stands in its place. */
  async #answered(shared: InFlightCall, plan: ToolPolicy): Promise<Outcome> {
    const { keyed } = shared
    const { upstream, verify: written } = plan
    const { total } = this.#deps.servers.callBounds(upstream, keyed.tool)
    try {
      return await shared.within(total, async (call) => plan.next(await this.#prepared(call, keyed, plan)))
    } catch (thrown) {
      if (failureVerdict(thrown, keyed, plan) !== 'unknown') throw thrown
      // A caller that waits longer than a call may take gets OUTCOME_UNKNOWN.
      const error = shared.isOverdue ? lost(keyed, shared.startedAt) : thrown
      // A step is in doubt in its transaction, too.
      if (written === undefined || isStep(keyed.call) || !shared.isWanted) throw error
      const call = shared.afterwards
      const finding = await verify(call, upstream, written, this.#deps)
      if (finding.kind !== 'found') throw keyed.key === undefined ? error : repeatable(error)
      return { kind: 'result', result: verifiedResult(finding.value, call.tool) }
    }
  }

  /** The call as the server gets it: with the key where it wants one. */
  async #prepared(
    call: Call,
    { key }: KeyedRequest,
    { keyArgument, forwardsKey }: ToolPolicy,
  ): Promise<Call> {
    if (key === undefined) return call
    const entry = keyArgument === false ? undefined : call.tool
    const filled = withKeyArgument(call, key, keyArgument, entry)
    return forwardsKey ? { ...filled, idempotencyKey: key } : filled
  }

  /** Looks after a call of another gateway until that is over, or lost; nothing where its record is gone. */
  async #look(first: StoredCall, keyed: KeyedRequest): Promise<StoredCall | undefined> {
    let kept = first
    for (let delay = POLL_INTERVAL_MS.first; ; delay = Math.min(delay * 1.5, POLL_INTERVAL_MS.last)) {
      const { record } = kept
      if (record.state !== 'executing' && record.expiresAt <= Date.now()) {
        await this.#ledger.forget(keyed, kept)
        return undefined
      }
      if (record.fingerprint !== keyed.fingerprint) throw conflict(keyed, record.tool, record.startedAt)
      if (record.state === 'done' || (await this.#isLost(record))) return kept
      await heeding(pause(delay), keyed, record.startedAt)
      if (this.#shared.has(keyed.id)) return undefined
      const found = await this.#ledger.find(keyed)
      if (!found) return undefined
      kept = found
    }
  }

  /** Whether a call without a known end is abandoned. */
  async #isLost({ state, openUntil, owner }: CallRecord): Promise<boolean> {
    if (state === 'unknown') return true
    if (openUntil !== undefined && openUntil <= Date.now()) return true
    return !(await this.#deps.identity.membership.isAlive(owner))
  }

  /** Finds out whether a lost call may be made again. @throws OUTCOME_UNKNOWN, IDEMPOTENCY_IN_PROGRESS */
  async #settle(
    kept: StoredCall,
    shared: InFlightCall,
    { upstream, verify: written }: ToolPolicy,
  ): Promise<Claim> {
    const { keyed } = shared
    const { startedAt, lostAt, state, attemptedAt } = kept.record
    const listed = keyed.call.tool
    const entry = listed && asCalled(listed, keyed.call)
    if (entry && (entry.classification.op === 'read' || entry.classification.idempotent))
      return this.#ledger.takeOver(keyed, kept)
    if (written === undefined) throw lost(keyed, startedAt)
    const finding = await verify(shared.call, upstream, written, this.#deps)
    if (finding.kind === 'failed') throw lost(keyed, startedAt, finding.reason)
    if (finding.kind === 'found')
      return this.#ledger.settle(keyed, kept, verifiedResult(finding.value, entry))
    // What was sent before may act for as long as a server may be silent, from its last sign of life on.
    const { silence } = this.#deps.servers.callBounds(upstream, keyed.tool)
    if (state === 'executing' && silence > 0) {
      // Its gateway ended, and that is known just now.
      const marked = await this.#ledger.markLost(keyed, kept)
      if (marked.kind !== 'own') return marked
      throw inProgress(keyed, startedAt, silence / 1000)
    }
    const left = silence - (Date.now() - (lostAt ?? attemptedAt))
    if (left > 0) throw inProgress(keyed, startedAt, left / 1000)
    return this.#ledger.takeOver(keyed, kept)
  }
}

function changeOf(verdict: CompletionClass, end: Pick<Partial<CallRecord>, 'result' | 'failure'>): Change {
  if (verdict === 'released') return 'dropped'
  if (verdict === 'unknown') return { state: 'unknown', lostAt: Date.now() }
  if (verdict === 'open') return { openUntil: Date.now() + INPUT_TIMEOUT_MS }
  return { ...end, state: 'done' }
}

function failureVerdict(error: unknown, { call }: KeyedRequest, { rules }: ToolPolicy): CompletionClass {
  return classifyFailure(error, { rules, isResumed: call.requestState[STATE_KEY] !== undefined })
}

interface Telling {
  readonly keyed: KeyedRequest
  readonly plan: ToolPolicy
  readonly wasReplay: boolean
}

function answer(ended: Completion & { kind: 'result' }, { keyed, plan, ...telling }: Telling): Outcome {
  const wasReplay = telling.wasReplay && !ended.isReleased
  if (wasReplay) keyed.call.logFields.set('replayed', true)
  const { startedAt, isUnrecorded } = ended
  const result = isUnrecorded ? ended.result.withMeta({ [UNRECORDED]: true }) : ended.result
  return { kind: 'result', result: annotateReplay(result, { key: keyed.key, wasReplay, startedAt }, plan) }
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

/** What came of a call, once more. */
function replay(
  { result, failure: error, startedAt }: CallRecord,
  keyed: KeyedRequest,
  plan: ToolPolicy,
): Outcome {
  if (result) return answer({ kind: 'result', result, startedAt }, { keyed, plan, wasReplay: true })
  throw failure({ kind: 'failed', error, startedAt }, keyed, true)
}

/** Waits, as long as the caller does. @throws IDEMPOTENCY_IN_PROGRESS, or why the call ended */
async function heeding(promise: Promise<void>, keyed: KeyedRequest, startedAt: number): Promise<void> {
  try {
    await untilAborted(promise, keyed.call.signal)
  } catch (error) {
    throw isTimeout(error) ? inProgress(keyed, startedAt) : error
  }
}

function isTimeout(error: unknown): boolean {
  return error instanceof GatewayError && error.code === 'OPERATION_TIMEOUT'
}

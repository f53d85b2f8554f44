/**
 * Repetitions of calls whose answers were lost: they do not run, but get the outcome of the call that they repeat, with a
 * notice that a model understands. `lost-answers.ts` finds that call.
 */
import { NS } from '../../core/identity.ts'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import type { Payload } from '../../core/payload.ts'
import { acceptsTaskSlot, deliverySlot } from '../../core/slot.ts'
import { isoTime, untilAborted } from '../../core/time/waiting.ts'
import { world } from '../../core/world.ts'
import { LOST_ANSWER_KEY, RUN_AGAIN } from '../../protocol/meta-keys.ts'
import type { Services } from '../feature.ts'
import { annotateFailure, annotateReplay, META_KEY } from './completion.ts'
import type { IdempotentExecutor, ToolPolicy } from './executor.ts'
import {
  answerNotKept,
  fingerprintOfCall,
  inProgress,
  isTimeout,
  type KeyedRequest,
  type KeyTerms,
  lostRecord,
  ofServer,
  outcomeLost,
  repeating,
} from './keyed-request.ts'
import {
  type LostAnswer,
  type LostAnswers,
  type LostEnd,
  makeWatched,
  type Watching,
  whenLost,
} from './lost-answers.ts'

interface Options {
  readonly lost: LostAnswers
  readonly executor: IdempotentExecutor
  readonly policy: ToolPolicy
  readonly terms: KeyTerms
  /** How long a lost answer is remembered, in milliseconds. */
  readonly window: number
}

/** The calls of one tool that repeat others. */
export class Repetitions {
  readonly #options: Options
  readonly #watching: Watching

  constructor(
    options: Options,
    { servers, gateway, invoker }: Pick<Services, 'servers' | 'gateway' | 'invoker'>,
  ) {
    const { lost, policy, window } = options
    this.#options = options
    this.#watching = {
      lost,
      policy,
      window,
      bounds: (tool) => servers.callBounds(policy.upstream, tool),
      closing: gateway.closing,
      observe: (call, rest) => invoker.observeRest(call, rest),
    }
  }

  /** The call that this one repeats, unless no answer of its caller is lost. */
  find(call: Call): LostAnswer | undefined {
    const { lost, policy } = this.#options
    return lost.has(call) ? lost.find(call, fingerprintOfCall(call, policy.upstream)) : undefined
  }

  /** Makes a call without a key. `isMeant`: it has to run, whatever it equals. */
  unkeyed(call: Call, isMeant: boolean): Promise<Outcome> {
    const answer = isMeant ? undefined : this.find(call)
    const make: Handler = (own) => makeWatched(own, this.#options.policy.next, this.#watching)
    return answer ? this.#repeat(answer, call, make) : make(call)
  }

  /** How a call with a key is made, if no call had that key before; an answer to it that is lost is remembered. */
  keyed({ call, id, fingerprint }: KeyedRequest, isMeant: boolean): ToolPolicy {
    const { lost, policy, window } = this.#options
    const delivery = deliverySlot.of(call)
    const compared = ofServer(policy.upstream, fingerprint)
    const own: LostAnswer | undefined = delivery && {
      fingerprint: compared,
      startedAt: world.now(),
      requestState: call.params.fields.requestState,
      record: id,
      delivery,
      lostAt: 0,
      taken: 0,
      window,
      isRunning: () => false,
      end: async () => ({ kind: 'recorded', id }),
    }
    let isRepetition = false
    if (delivery && own)
      whenLost(delivery, () => {
        if (!isRepetition) this.#lose(call, own)
      })
    if (isMeant || !lost.has(call)) return policy
    const next: Handler = (given) => {
      const answer = lost.find(call, compared)
      if (!answer || answer.record === id) return policy.next(given)
      isRepetition = true
      return this.#repeat(answer, given, policy.next)
    }
    return { ...policy, next }
  }

  /** The outcome of the call that another one repeats. `make` makes it, if its server did nothing. */
  async #repeat(answer: LostAnswer, call: Call, make: Handler): Promise<Outcome> {
    const delivery = deliverySlot.of(call)
    let isUndone = false
    if (delivery)
      whenLost(delivery, () => {
        answer.delivery = delivery
        if (!isUndone) this.#lose(call, answer)
      })
    answer.taken++
    const end = await untilAborted(answer.end(), call.signal).catch((error: unknown) => {
      throw isTimeout(error) ? inProgress({}, answer.startedAt) : error
    })
    if (end.kind === 'undone') {
      isUndone = true
      this.#options.lost.forget(answer)
      return make(call)
    }
    try {
      const outcome = await this.#outcomeOf(end, answer, call)
      if (outcome.kind !== 'result') return outcome
      return { kind: 'result', result: this.#noticed(outcome.result, answer, call) }
    } catch (error) {
      throw this.#failure(error, answer, call)
    }
  }

  /** @throws what the call failed with; OUTCOME_UNKNOWN, IDEMPOTENCY_IN_PROGRESS */
  async #outcomeOf(
    end: Exclude<LostEnd, { kind: 'undone' }>,
    answer: LostAnswer,
    call: Call,
  ): Promise<Outcome> {
    const { lost, executor, policy, terms } = this.#options
    const { startedAt } = answer
    switch (end.kind) {
      case 'recorded':
        return executor.run(repeating(call, end.id, terms), policy)
      case 'unknown':
        answer.record ??= lostRecord(call, policy.upstream)
        return executor.settle(repeating(call, answer.record, terms), policy, startedAt)
      case 'not_kept':
        throw answerNotKept(startedAt)
      case 'failed':
        throw end.error
      case 'outcome': {
        const { outcome } = end
        if (outcome.kind === 'result')
          return {
            kind: 'result',
            result: annotateReplay(outcome.result, { wasReplay: true, startedAt }, policy),
          }
        // Responses can be given once, so no one else gets these requests.
        lost.forget(answer)
        if (outcome.kind === 'task' && !acceptsTaskSlot.of(call)) throw outcomeLost(terms, startedAt)
        return outcome
      }
    }
  }

  #lose(call: Call, answer: LostAnswer): void {
    answer.lostAt = world.now()
    this.#options.lost.add(call, answer)
  }

  #noticed(result: Payload, answer: LostAnswer, call: Call): Payload {
    // A call that was settled by running it again is no repetition.
    if (result.meta(META_KEY) === undefined) return result
    call.logFields.set('replayed', true)
    return result
      .withMeta({ [LOST_ANSWER_KEY]: factsOf(answer) })
      .withItem('content', { type: 'text', text: this.#notice(answer) })
  }

  #failure(error: unknown, answer: LostAnswer, call: Call): unknown {
    if (!(error instanceof GatewayError) || call.signal.aborted) return error
    if (error.code === 'IDEMPOTENCY_IN_PROGRESS') return error
    call.logFields.set('replayed', true)
    const annotated = annotateFailure(error, { wasReplay: true, startedAt: answer.startedAt, isLost: true })
    if (!(annotated instanceof GatewayError)) return annotated
    const { meta, suggestion = this.#notice(answer) } = annotated.extra
    return annotated.with({ meta: { ...meta, [LOST_ANSWER_KEY]: factsOf(answer) }, suggestion })
  }

  /** What a model has to know of an outcome that it gets instead of running a call. */
  #notice({ startedAt }: LostAnswer): string {
    const { runAgain = '' } = this.#options.terms
    const seconds = Math.round((world.now() - startedAt) / 1000)
    return `Gatehouse: this call was not run again. It equals your call of ${isoTime(startedAt)} (${seconds} s ago), whose answer was lost; this is the outcome of that call. If you mean to do it a second time, repeat the call with ${runAgain}.`
  }
}

function factsOf({ startedAt, lostAt }: LostAnswer): Readonly<Record<string, unknown>> {
  return { original_timestamp: isoTime(startedAt), lost_at: isoTime(lostAt), run_again: `${NS}/${RUN_AGAIN}` }
}

/**
 * Calls whose answer was lost, by caller: the client cancelled them, or its connection ended first. A call that equals one
 * of them is taken for a repetition: it gets the outcome of that call, and does not run. For tools that change something and
 * are not idempotent; in this process only.
 *
 *     in flight ──▶ answered                                     nothing is kept
 *         │ ◀──── its client is back (it resumed the stream)
 *         └─────▶ lost ──▶ ended: the outcome is kept for `window` after the loss or the end, whichever is later
 *
 * Nothing is compared before a caller has lost an answer, so calls in flight need no fingerprint. A call at its server
 * continues without its client once it was sent, within `MAX_DETACHED_CALLS` and the longest silence and duration of a call.
 */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { onSentSlot } from '../../core/exchange.ts'
import { bytesOf, HeldMemory, Holdings } from '../../core/holdings.ts'
import { type AnswerDelivery, deliverySlot, detachedSlot } from '../../core/slot.ts'
import { MAX_TIMER_MS } from '../../core/time/waiting.ts'
import { type Timer, world } from '../../core/world.ts'
import { WrittenRecords } from '../../durable/bounds.ts'
import { classifyCompletion, classifyFailure } from './completion.ts'
import type { ToolPolicy } from './executor.ts'
import { fingerprintOfCall, isTimeout } from './keyed-request.ts'

/** How many lost answers are remembered, of all callers and of each; the oldest ones give way. */
const MAX_LOST_ANSWERS = { all: 10_000, each: 2_500 }
/** How many calls continue without their client. One caller may have a quarter of them. */
const MAX_DETACHED_CALLS = 1000
/** The longest result that is kept, in characters. */
const MAX_RESULT_LENGTH = 4 * 1024 * 1024

/** How a call with a lost answer ended. */
export type LostEnd =
  | { readonly kind: 'outcome'; readonly outcome: Outcome }
  | { readonly kind: 'failed'; readonly error: unknown }
  /** The server may have executed it or not. */
  | { readonly kind: 'unknown' }
  /** It was executed, but its result was too large to keep. */
  | { readonly kind: 'not_kept' }
  /** The server did nothing. */
  | { readonly kind: 'undone' }
  /** The record of its key has its outcome. */
  | { readonly kind: 'recorded'; readonly id: string }

/** A call whose answer was lost. */
export interface LostAnswer {
  readonly fingerprint: string
  readonly startedAt: number
  /** The state with which its client continued it; undefined if it was the beginning of a call. */
  readonly requestState: unknown
  /** The key of the record that settles a call with an unknown outcome, if there is one. */
  record?: string
  /** The answer that was lost last, and when, in milliseconds since 1970. */
  delivery: AnswerDelivery
  lostAt: number
  /** How many repetitions have got its outcome. */
  taken: number
  /** How long it is kept after its loss or its end, in milliseconds. */
  readonly window: number
  /** Whether the call still runs. */
  isRunning(): boolean
  /** Resolves when it has ended. */
  end(): Promise<LostEnd>
  /** Called when it is forgotten. */
  forgotten?(): void
}

/** Calls a listener when an answer is lost; at once if it is lost already, while the call was on its way. */
export function whenLost(delivery: AnswerDelivery, listener: () => void): void {
  delivery.onLost(listener)
  if (delivery.isLost()) listener()
}

/** Who counts as the same caller; undefined where callers cannot be told apart. */
function callerOf({ principal, client }: Call): string | undefined {
  if (!principal.isEverybody) return `caller ${principal.id}`
  return client.session === undefined ? undefined : `session ${client.session}`
}

interface Remembered {
  readonly answer: LostAnswer
  readonly caller: string
  readonly key: string
  timer?: Timer
}

/** The lost answers of a gateway. */
export class LostAnswers {
  /** The memory that the gateway may hold for callers; set before the first one. */
  held = new HeldMemory()
  /** The calls that continue without their client. */
  readonly detached = new Holdings()
  readonly #records = new WrittenRecords(
    { keys: MAX_LOST_ANSWERS.all, bytes: Infinity },
    { keys: MAX_LOST_ANSWERS.each, bytes: Infinity },
  )
  readonly #byCaller = new Map<string, Map<string, Remembered>>()
  readonly #byAnswer = new Map<LostAnswer, Remembered>()
  readonly #byKey = new Map<string, Remembered>()
  #lastKey = 0

  /** Whether a caller has any. */
  has(call: Call): boolean {
    if (this.#byCaller.size === 0) return false
    const caller = callerOf(call)
    return caller !== undefined && this.#byCaller.has(caller)
  }

  /** Adds one, or keeps one longer whose repetition was lost too. */
  add(call: Call, answer: LostAnswer): void {
    const caller = callerOf(call)
    if (caller === undefined) return
    const known = this.#byAnswer.get(answer)
    const remembered = known ?? { answer, caller, key: `${++this.#lastKey}` }
    if (!known) {
      const own = this.#byCaller.get(caller) ?? new Map<string, Remembered>()
      this.#byCaller.set(caller, own)
      own.set(remembered.key, remembered)
      this.#byAnswer.set(answer, remembered)
      this.#byKey.set(remembered.key, remembered)
      for (const dropped of this.#records.replace(caller, remembered.key, 1, Infinity)) this.#drop(dropped)
    }
    this.schedule(answer)
  }

  /** Forgets it once its time is over: counted from its loss, and not before its call has ended. */
  schedule(answer: LostAnswer): void {
    const remembered = this.#byAnswer.get(answer)
    // It gave way to others before its call ended.
    if (!remembered) return answer.forgotten?.()
    world.clearTimeout(remembered.timer)
    if (answer.isRunning()) return
    const ms = Math.min(answer.window, MAX_TIMER_MS)
    remembered.timer = world.setTimeout(() => this.forget(answer), ms).unref()
  }

  /** The one that a call repeats: of equal ones, the one that was repeated least. */
  find(call: Call, fingerprint: string): LostAnswer | undefined {
    const caller = callerOf(call)
    const own = caller === undefined ? undefined : this.#byCaller.get(caller)
    if (!own) return undefined
    const { requestState } = call.params.fields
    // A call that is continued was compared at its beginning; only the same continuation repeats it.
    if (isContinuation(call) && requestState === undefined) return undefined
    let found: LostAnswer | undefined
    for (const { answer } of own.values()) {
      if (answer.fingerprint !== fingerprint || !answer.delivery.isLost()) continue
      if (requestState !== undefined && answer.requestState !== requestState) continue
      if (!found || answer.taken < found.taken) found = answer
    }
    return found
  }

  forget(answer: LostAnswer): void {
    const remembered = this.#byAnswer.get(answer)
    if (!remembered) return
    this.#records.delete(remembered.caller, remembered.key)
    this.#drop(remembered.key)
  }

  close(): void {
    for (const answer of [...this.#byAnswer.keys()]) this.forget(answer)
  }

  #drop(key: string): void {
    const remembered = this.#byKey.get(key)
    if (!remembered) return
    const { answer, caller } = remembered
    world.clearTimeout(remembered.timer)
    this.#byKey.delete(key)
    this.#byAnswer.delete(answer)
    const own = this.#byCaller.get(caller)
    own?.delete(key)
    if (own?.size === 0) this.#byCaller.delete(caller)
    answer.forgotten?.()
  }
}

/** Whether a call carries responses to requests for input. */
function isContinuation({ inputResponses, requestState }: Call): boolean {
  return inputResponses !== undefined || Object.keys(requestState).length > 0
}

/** What watching the calls of a tool needs. */
export interface Watching {
  readonly lost: LostAnswers
  readonly policy: Pick<ToolPolicy, 'upstream' | 'rules'>
  readonly window: number
  /** The longest silence and duration of a call that continues without its client, in milliseconds. */
  readonly bounds: (tool: string) => { readonly silence: number; readonly total: number }
  /** Aborted when the gateway closes: then no call continues. */
  readonly closing: AbortSignal
  /** Reports the end of a call that continues without its client. */
  readonly observe: (call: Call, rest: Promise<Outcome>) => void
}

/** Makes a call without a key, whose outcome is kept if its answer is lost. */
export function makeWatched(call: Call, next: Handler, watching: Watching): Promise<Outcome> {
  const delivery = deliverySlot.of(call)
  // What is not delivered to a client cannot be lost, and callers that are not told apart cannot repeat.
  if (!delivery || callerOf(call) === undefined) return next(call)
  return new WatchedCall(call, delivery, watching).make(next)
}

/** A call in flight, and its outcome until the answer is written. */
class WatchedCall implements LostAnswer {
  readonly startedAt = world.now()
  readonly window: number
  delivery: AnswerDelivery
  lostAt = 0
  taken = 0
  readonly #call: Call
  readonly #watching: Watching
  readonly #controller = new AbortController()
  /** Whether its server may have begun: responses to the server's requests for input are no requests to it. */
  #isSent: boolean
  #isLost = false
  #isDetached = false
  #activeAt = this.startedAt
  #deadline: Timer | undefined
  #end: LostEnd | undefined
  #ended: PromiseWithResolvers<LostEnd> | undefined
  #fingerprint: string | undefined
  #heldBytes = 0

  constructor(call: Call, delivery: AnswerDelivery, watching: Watching) {
    this.#call = call
    this.delivery = delivery
    this.#watching = watching
    this.window = watching.window
    this.#isSent = isContinuation(call)
  }

  get fingerprint(): string {
    return (this.#fingerprint ??= fingerprintOfCall(this.#call, this.#watching.policy.upstream))
  }

  get requestState(): unknown {
    return this.#call.params.fields.requestState
  }

  isRunning(): boolean {
    return this.#end === undefined
  }

  async end(): Promise<LostEnd> {
    if (this.#end) return this.#end
    this.#ended ??= Promise.withResolvers<LostEnd>()
    return this.#ended.promise
  }

  forgotten(): void {
    this.#hold(0)
    // Its server may still wait for input that no one will give.
    if (this.taken === 0 && this.#end?.kind === 'outcome' && this.#end.outcome.kind !== 'result')
      this.#controller.abort(left())
  }

  /** Makes it. Fails with the reason of the caller's signal if the call continues without the caller. */
  make(next: Handler): Promise<Outcome> {
    const { signal } = this.#call
    return new Promise((resolve, reject) => {
      const stop = (): void => this.#stop(signal.reason, made, reject)
      whenLost(this.delivery, () => this.#lose())
      const made = next(this.#inner())
      signal.addEventListener('abort', stop)
      if (signal.aborted) stop()
      const ended = (end: LostEnd): void => {
        signal.removeEventListener('abort', stop)
        this.#finish(end)
      }
      made.then(
        (outcome) => {
          ended({ kind: 'outcome', outcome })
          resolve(outcome)
        },
        (error: unknown) => {
          ended({ kind: 'failed', error })
          reject(error)
        },
      )
    })
  }

  #inner(): Call {
    const call = this.#call
    const isDetached = detachedSlot.of(call)
    const reported = onSentSlot.of(call)
    const slots = onSentSlot.put((request) => {
      this.#isSent = true
      reported?.(request)
    }, call.slots)
    return {
      ...call,
      signal: this.#controller.signal,
      abort: (reason) => this.#controller.abort(reason),
      emit: (note) => {
        this.#activeAt = world.now()
        if (!this.#isDetached) call.emit(note)
      },
      slots: detachedSlot.put(() => this.#isDetached || isDetached?.() === true, slots),
    }
  }

  /** Ends the call at its server, unless its answer is lost and it may have had an effect. */
  #stop(reason: unknown, made: Promise<Outcome>, reject: (reason: unknown) => void): void {
    if (this.delivery.isLost()) this.#lose()
    const isLeft = this.#isLost && !isTimeout(reason)
    if (!isLeft || !this.#isSent || !this.#mayGoOn()) return this.#controller.abort(reason)
    this.#isDetached = true
    this.#watching.lost.detached.change(this.#call.principal, 1)
    this.#hold(bytesOf(this.#call))
    this.#activeAt = world.now()
    this.#setDeadline()
    this.#watching.observe(this.#call, made)
    reject(reason)
  }

  #mayGoOn(): boolean {
    const { lost, closing } = this.#watching
    const { principal } = this.#call
    if (closing.aborted || this.#end) return false
    return (
      lost.detached.fits(principal, MAX_DETACHED_CALLS, 1) && lost.held.fits(principal, bytesOf(this.#call))
    )
  }

  /** The limits of the request do not apply to it any more. */
  #setDeadline(): void {
    const { silence, total } = this.#watching.bounds(this.#call.target.name ?? '')
    const left = Math.min(this.#activeAt + silence, this.startedAt + total) - world.now()
    if (left <= 0)
      this.#controller.abort(new GatewayError('OPERATION_TIMEOUT', 'The server did not respond in time.'))
    else this.#deadline = world.setTimeout(() => this.#setDeadline(), Math.min(left, MAX_TIMER_MS)).unref()
  }

  #lose(): void {
    // Not sent, it had no effect and will not have one.
    if (this.#end && this.#meaning(this.#end).kind === 'undone') return
    if (!this.#isSent && this.#call.signal.aborted) return
    this.#isLost = true
    this.lostAt = world.now()
    if (this.#end) this.#keep(this.#end)
    this.#watching.lost.add(this.#call, this)
  }

  #finish(end: LostEnd): void {
    const { lost } = this.#watching
    world.clearTimeout(this.#deadline)
    if (this.#isDetached) lost.detached.change(this.#call.principal, -1)
    this.#hold(0)
    this.#end = end
    if (!this.#isLost) return
    this.#keep(end)
    if (this.#end.kind === 'undone') lost.forget(this)
    else lost.schedule(this)
    this.#ended?.resolve(this.#end)
  }

  /** Keeps the outcome of a call whose answer is lost, if there is memory for it. */
  #keep(ended: LostEnd): void {
    this.#end = this.#meaning(ended)
    const size = this.#end.kind === 'outcome' ? sizeOf(this.#end.outcome) : 0
    const more = size - this.#heldBytes
    const isFit = size <= MAX_RESULT_LENGTH && this.#watching.lost.held.fits(this.#call.principal, more)
    if (!isFit) this.#end = { kind: 'not_kept' }
    this.#hold(isFit ? size : 0)
  }

  /** What the end says about the effect. */
  #meaning(end: LostEnd): LostEnd {
    const { rules } = this.#watching.policy
    if (end.kind === 'failed') {
      if (!this.#isSent) return { kind: 'undone' }
      const state = classifyFailure(end.error, { rules, isResumed: isContinuation(this.#call) })
      if (state === 'done') return end
      return { kind: state === 'released' ? 'undone' : 'unknown' }
    }
    if (end.kind !== 'outcome') return end
    return classifyCompletion(end.outcome, rules) === 'released' ? { kind: 'undone' } : end
  }

  #hold(bytes: number): void {
    const by = bytes - this.#heldBytes
    this.#heldBytes = bytes
    if (by !== 0) this.#watching.lost.held.change(this.#call.principal, by)
  }
}

function sizeOf(outcome: Outcome): number {
  return outcome.kind === 'result' ? outcome.result.text.length : 0
}

function left(): GatewayError {
  return new GatewayError('CANCELLED', 'No caller waits for it.')
}

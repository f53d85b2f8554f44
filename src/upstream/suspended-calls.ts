/**
 * Calls whose server waits for input responses while no request of the client is open. The client's retry continues
 * them by a continuation token; otherwise they expire.
 */
import { type Timer, world } from '../core/world.ts'
import {
  type InputResponse,
  type Call,
  type Handler,
  type Notification,
  type Outcome,
  type InputRequest,
  type InputRequests,
  WAITING_CALL_KEY,
} from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { bytesOf, type HeldMemory } from '../core/holdings.ts'
import { Payload } from '../core/payload.ts'
import { hasReachedShare } from '../core/principal.ts'
import { method } from '../protocol/methods.ts'
import { progressTo } from '../protocol/legacy.ts'
import { canAnswer, canBeAsked } from '../protocol/input-requests.ts'
import { continuedTask, keptTaskState } from './protocol/tasks.ts'

/** What a server with open calls can do during a call. */
export interface UpstreamCall {
  /** The call as made in the latest round. */
  readonly call: Call
  /** Aborted when the outcome is no longer needed; not when a round ends with input requests. */
  readonly signal: AbortSignal
  notify(note: Notification): void
  progress(note: Notification): void
  /** Requests input from the caller; undefined if the call ended before the response. */
  requestInput(question: InputRequest, options?: InputRequestOptions): Promise<InputResponse | undefined>
}

interface InputRequestOptions {
  /** Cancels the request. */
  readonly withdrawn?: AbortSignal
  /** The server did not identify the call it asks for, so the request outlives this call. */
  readonly isAmbiguous?: boolean
}

/** Runs a call that stays open while it requests input. */
export type OpenCall = (working: UpstreamCall) => Promise<Outcome>

interface Options {
  /** How long requests are collected before they are sent together, in milliseconds. */
  readonly collectMs?: number
  /** How long a suspended call waits for responses, in milliseconds. */
  readonly answerTimeoutMs?: number
  /** The maximum number of suspended calls. */
  readonly limit?: number
  /** What suspended calls take of the memory of the gateway. */
  readonly held?: HeldMemory | undefined
  /** Whether calls are answered by another process, and wait for responses there. */
  isElsewhere?(): boolean
  /** Called with the number of suspended calls, whenever it changes. */
  onCount?(count: number): void
}

/**
 * Presents a server that requests input during a call like one that ends the call with input requests: the open call is
 * suspended under a continuation token, and the retry with the responses resumes it.
 */
export function suspendable(open: OpenCall, options: Options = {}): Handler {
  const { collectMs = 15, answerTimeoutMs = 300_000, limit = 1000, held } = options
  const kept = new Map<string, SuspendedCall>()

  return (call) => {
    const token = call.requestState[WAITING_CALL_KEY]
    const isUnknown = typeof token === 'string' && !kept.has(token)
    // A task outlives the process that asked for its input.
    const isLeft = isUnknown && (continuedTask(call) !== undefined || options.isElsewhere?.() === true)
    if (token === undefined || isLeft) {
      // A client that cannot respond needs no suspension.
      if (!canBeAsked(call.client.capabilities)) return open(unasked(call))
      if (isFull(call)) return Promise.reject(tooManyInputRequests())
      const suspended = new SuspendedCall(call, collectMs)
      suspended.onSuspend = (turn) => keep(turn)
      return suspended.start(open)
    }
    const suspended = typeof token === 'string' ? kept.get(token) : undefined
    if (!suspended || suspended.call.principal.id !== call.principal.id) return Promise.reject(expired())
    release(suspended)
    return suspended.resume(call)
  }

  function isFull(call: Call): boolean {
    const { principal } = call
    const hasFullShare = hasReachedShare(principal, kept, (each) => each.call.principal.id, limit)
    return hasFullShare || held?.fits(principal, bytesOf(call)) === false
  }

  function keep(suspended: SuspendedCall): boolean {
    const { call } = suspended
    if (kept.size >= limit || isFull(call)) return false
    suspended.continuationToken = world.randomUUID()
    kept.set(suspended.continuationToken, suspended)
    held?.change(call.principal, bytesOf(call))
    options.onCount?.(kept.size)
    suspended.timer = world.setTimeout(() => {
      release(suspended)
      suspended.giveUp()
    }, answerTimeoutMs)
    suspended.timer.unref()
    return true
  }

  function release({ call, continuationToken, timer }: SuspendedCall): void {
    world.clearTimeout(timer)
    kept.delete(continuationToken)
    held?.change(call.principal, -bytesOf(call))
    options.onCount?.(kept.size)
  }
}

interface PendingRequest {
  readonly question: InputRequest
  readonly isAmbiguous: boolean
  answer(answer: InputResponse | undefined): void
}

/** One open call of a server, through all its rounds with the caller. */
class SuspendedCall implements UpstreamCall {
  call: Call
  continuationToken = ''
  timer: Timer | undefined
  onSuspend: (suspended: SuspendedCall) => boolean = () => false
  readonly #collect: number
  readonly #controller = new AbortController()
  readonly #pending = new Map<string, PendingRequest>()
  #turn = Promise.withResolvers<Outcome>()
  #isOpen = true
  #ended: (() => void) | undefined
  #withdrawn: AbortController | undefined
  #flushing: Timer | undefined
  #questions = 0
  #progress: ((note: Notification) => void) | undefined
  readonly #abort = (): void => this.#controller.abort(this.call.signal.reason)

  constructor(call: Call, collectMs: number) {
    this.call = call
    this.#collect = collectMs
    this.#follow(call)
  }

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  start(open: OpenCall): Promise<Outcome> {
    open(this).then(
      (outcome) => this.#end(() => this.#turn.resolve(outcome)),
      (error: unknown) => this.#end(() => this.#turn.reject(error)),
    )
    return this.#turn.promise
  }

  /** Resumes the call for the caller's next round. */
  resume(call: Call): Promise<Outcome> {
    this.call.signal.removeEventListener('abort', this.#abort)
    this.call = call
    this.#progress = undefined
    this.#turn = Promise.withResolvers<Outcome>()
    this.#isOpen = true
    this.#withdrawn = undefined
    this.#follow(call)
    for (const [key, answer] of Object.entries(call.inputResponses ?? {}))
      this.#pending.get(key)?.answer(answer)
    if (this.#ended) {
      this.#drop()
      this.#settle(this.#ended)
    } else if (this.#pending.size > 0) this.#flushSoon()
    return this.#turn.promise
  }

  notify(note: Notification): void {
    this.call.emit(note)
  }

  readonly progress = (note: Notification): void => {
    this.#progress ??= progressTo(this.call)
    this.#progress(note)
  }

  requestInput(
    question: InputRequest,
    { withdrawn, isAmbiguous = false }: InputRequestOptions = {},
  ): Promise<InputResponse | undefined> {
    const { call } = this
    const isAskable =
      !call.client.nonInteractive && (method(call.method).asks === true || call.client.era === 'legacy')
    if (!isAskable || !canAnswer(call.client, question)) return Promise.resolve(refusal(question))
    return new Promise((resolve) => {
      const key = `q${++this.#questions}`
      const done = (answer: InputResponse | undefined): void => {
        this.#pending.delete(key)
        withdrawn?.removeEventListener('abort', takeBack)
        resolve(answer)
      }
      const takeBack = (): void => {
        done(refusal(question))
        if (this.#pending.size === 0) this.#withdrawn?.abort()
      }
      withdrawn?.addEventListener('abort', takeBack)
      this.#pending.set(key, { question, isAmbiguous, answer: done })
      this.#flushSoon()
    })
  }

  /** The client did not retry: the server is informed that its requests remain unanswered. */
  giveUp(): void {
    this.call.signal.removeEventListener('abort', this.#abort)
    for (const { question, answer } of [...this.#pending.values()]) answer(noAnswer(question))
    this.#controller.abort(new GatewayError('CANCELLED', 'The user did not respond in time.'))
  }

  #follow(call: Call): void {
    if (call.signal.aborted) this.#abort()
    else call.signal.addEventListener('abort', this.#abort)
  }

  #flushSoon(): void {
    if (!this.#isOpen || this.#flushing) return
    this.#flushing = world.setTimeout(() => {
      this.#flushing = undefined
      this.#flush()
    }, this.#collect)
  }

  #flush(): void {
    if (!this.#isOpen || this.#pending.size === 0) return
    const questions: InputRequests = Object.fromEntries(
      [...this.#pending].map(([key, { question }]) => [key, question]),
    )
    if (!this.onSuspend(this)) {
      for (const { question, answer } of [...this.#pending.values()]) answer(noAnswer(question))
      return
    }
    this.#isOpen = false
    this.#withdrawn = new AbortController()
    this.#turn.resolve({
      kind: 'input_required',
      inputRequests: questions,
      requestState: { ...keptTaskState(this.call), [WAITING_CALL_KEY]: this.continuationToken },
      withdrawn: this.#withdrawn.signal,
      isOpen: true,
    })
  }

  #end(settle: () => void): void {
    this.#ended = settle
    world.clearTimeout(this.#flushing)
    const ambiguous = [...this.#pending.values()].filter((item) => item.isAmbiguous)
    // Roots belong to no call, and short calls may be the only opportunity to request them.
    if (ambiguous.some(({ question }) => question.method === 'roots/list')) this.#flush()
    // A caller who is asked for another call still responds.
    if (!this.#isOpen && ambiguous.length > 0) return
    this.#drop()
    if (this.#isOpen) this.#settle(settle)
    else this.#withdrawn?.abort()
  }

  /** Rejects the remaining requests. */
  #drop(): void {
    if (this.#pending.size > 0) for (const { answer } of [...this.#pending.values()]) answer(undefined)
  }

  #settle(settle: () => void): void {
    this.#isOpen = false
    this.call.signal.removeEventListener('abort', this.#abort)
    settle()
  }
}

/** A call that cannot request input. */
function unasked(call: Call): UpstreamCall {
  let progress: ((note: Notification) => void) | undefined
  return {
    call,
    signal: call.signal,
    notify: call.emit,
    progress: (note) => {
      progress ??= progressTo(call)
      progress(note)
    },
    requestInput: (question) => Promise.resolve(refusal(question)),
  }
}

function tooManyInputRequests(): GatewayError {
  return new GatewayError('OVERLOADED', 'Too many calls of this caller wait for input.', {
    suggestion: 'Answer the pending questions, or wait until they expire.',
    retryAfterSeconds: 60,
    isUnsent: true,
  })
}

/** Whether a call waits at its server, and cannot be begun. */
export function isWaiting(call: Call): boolean {
  return call.requestState[WAITING_CALL_KEY] !== undefined && continuedTask(call) === undefined
}

/** The error of a call that does not wait any more. */
export function expired(): GatewayError {
  return new GatewayError('STATE_EXPIRED', 'This call no longer waits for input.', {
    suggestion: 'Make the call again without requestState.',
  })
}

/** The response to a request that the client does not support. */
function refusal(question: InputRequest): InputResponse {
  return {
    error: Payload.of({
      code: -32601,
      message: `The client does not support this input request: ${question.method}`,
    }),
  }
}

function noAnswer(question: InputRequest): InputResponse {
  if (question.method === 'elicitation/create') return { result: Payload.of({ action: 'cancel' }) }
  return { error: Payload.of({ code: -32603, message: 'The user did not respond in time.' }) }
}

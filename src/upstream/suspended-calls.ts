/**
 * Calls whose server waits for input responses while no request of the client is open. The client's retry
 * continues them by a continuation token; without one they end.
 */
import { randomUUID } from 'node:crypto'
import type {
  InputResponse,
  Call,
  Handler,
  Notification,
  Outcome,
  InputRequest,
  InputRequests,
} from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { Payload } from '../core/payload.ts'
import { hasReachedShare, type Principal } from '../core/principal.ts'
import { method } from '../protocol/methods.ts'
import { progressTo } from '../protocol/legacy.ts'
import { canAnswer, canBeAsked } from '../protocol/input-requests.ts'

/** What a server of an era with open calls may do while it works on one. */
export interface UpstreamCall {
  /** The caller as it is in the latest round. */
  readonly call: Call
  /** Aborted when the outcome is no longer wanted; not when a round ends with a question. */
  readonly signal: AbortSignal
  notify(note: Notification): void
  progress(note: Notification): void
  /** Asks the caller; nothing where the call ended before there was an answer. */
  requestInput(question: InputRequest, options?: InputRequestOptions): Promise<InputResponse | undefined>
}

interface InputRequestOptions {
  /** Takes the question back. */
  readonly withdrawn?: AbortSignal
  /** The server did not say which call it asks for, so the question outlives this one. */
  readonly isAmbiguous?: boolean
}

/** Does a call while it stays open, asking as it goes. */
export type OpenCall = (working: UpstreamCall) => Promise<Outcome>

interface Options {
  /** How long questions are collected before they are put together, in milliseconds. */
  readonly collectMs?: number
  /** How long a call waits for its answers, in milliseconds. */
  readonly answerTimeoutMs?: number
  /** How many calls may wait. */
  readonly limit?: number
  /** Hears how many calls wait, whenever that changes. */
  onCount?(parked: number): void
}

/** The slot of a call's state that names its ticket. */
const STATE_KEY = 'park'

/**
 * Makes a server that asks in the middle of a call look like one that ends the call with its questions: the open
 * call is parked under a ticket, and the retry that brings the answers takes it up again.
 */
export function suspendable(open: OpenCall, options: Options = {}): Handler {
  const { collectMs = 15, answerTimeoutMs = 300_000, limit = 1000 } = options
  const parked = new Map<string, SuspendedCall>()

  return (call) => {
    const token = call.requestState[STATE_KEY]
    if (token === undefined) {
      // Who cannot be asked anything needs no parking.
      if (!canBeAsked(call.client.capabilities)) return open(unasked(call))
      if (hasFullShare(call.principal)) return Promise.reject(tooManyQuestions())
      const suspended = new SuspendedCall(call, collectMs)
      suspended.onParked = (turn) => keep(turn)
      return suspended.start(open)
    }
    const suspended = typeof token === 'string' ? parked.get(token) : undefined
    if (!suspended || suspended.call.principal.id !== call.principal.id) return Promise.reject(expired())
    parked.delete(suspended.continuationToken)
    options.onCount?.(parked.size)
    clearTimeout(suspended.timer)
    return suspended.resume(call)
  }

  function hasFullShare(principal: Principal): boolean {
    return hasReachedShare(principal, parked, (suspended) => suspended.call.principal.id, limit)
  }

  function keep(suspended: SuspendedCall): boolean {
    if (parked.size >= limit || hasFullShare(suspended.call.principal)) return false
    suspended.continuationToken = randomUUID()
    parked.set(suspended.continuationToken, suspended)
    options.onCount?.(parked.size)
    suspended.timer = setTimeout(() => {
      parked.delete(suspended.continuationToken)
      options.onCount?.(parked.size)
      suspended.giveUp()
    }, answerTimeoutMs)
    suspended.timer.unref()
    return true
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
  timer: NodeJS.Timeout | undefined
  onParked: (suspended: SuspendedCall) => boolean = () => false
  readonly #collect: number
  readonly #controller = new AbortController()
  readonly #pending = new Map<string, PendingRequest>()
  #turn = Promise.withResolvers<Outcome>()
  #isOpen = true
  #ended: (() => void) | undefined
  #withdrawn: AbortController | undefined
  #flushing: NodeJS.Timeout | undefined
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

  /** Takes the call up again for the caller's next round. */
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

  /** The client did not come back: the server learns that its questions stay unanswered. */
  giveUp(): void {
    this.call.signal.removeEventListener('abort', this.#abort)
    for (const { question, answer } of [...this.#pending.values()]) answer(noAnswer(question))
    this.#controller.abort(new GatewayError('CANCELLED', 'The user did not answer in time.'))
  }

  #follow(call: Call): void {
    if (call.signal.aborted) this.#abort()
    else call.signal.addEventListener('abort', this.#abort)
  }

  #flushSoon(): void {
    if (!this.#isOpen || this.#flushing) return
    this.#flushing = setTimeout(() => {
      this.#flushing = undefined
      this.#flush()
    }, this.#collect)
  }

  #flush(): void {
    if (!this.#isOpen || this.#pending.size === 0) return
    const questions: InputRequests = Object.fromEntries(
      [...this.#pending].map(([key, { question }]) => [key, question]),
    )
    if (!this.onParked(this)) {
      for (const { question, answer } of [...this.#pending.values()]) answer(noAnswer(question))
      return
    }
    this.#isOpen = false
    this.#withdrawn = new AbortController()
    this.#turn.resolve({
      kind: 'input_required',
      inputRequests: questions,
      requestState: { [STATE_KEY]: this.continuationToken },
      withdrawn: this.#withdrawn.signal,
      isOpen: true,
    })
  }

  #end(settle: () => void): void {
    this.#ended = settle
    clearTimeout(this.#flushing)
    const ambiguous = [...this.#pending.values()].filter((each) => each.isAmbiguous)
    // Roots are for no call, and short calls may be all there is to ask through.
    if (ambiguous.some(({ question }) => question.method === 'roots/list')) this.#flush()
    // A caller who is being asked for another call goes on to answer.
    if (!this.#isOpen && ambiguous.length > 0) return
    this.#drop()
    if (this.#isOpen) this.#settle(settle)
    else this.#withdrawn?.abort()
  }

  /** Lets go of the questions that are left. */
  #drop(): void {
    if (this.#pending.size > 0) for (const { answer } of [...this.#pending.values()]) answer(undefined)
  }

  #settle(settle: () => void): void {
    this.#isOpen = false
    this.call.signal.removeEventListener('abort', this.#abort)
    settle()
  }
}

/** The caller of a call that no question can interrupt. */
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

function tooManyQuestions(): GatewayError {
  return new GatewayError('OVERLOADED', 'Too many calls of this caller wait for an answer to a question.', {
    suggestion: 'Answer the questions that were asked, or wait until they are given up.',
    retryAfterSeconds: 60,
    isUnsent: true,
  })
}

function expired(): GatewayError {
  return new GatewayError('STATE_EXPIRED', 'This call is no longer waiting for an answer.', {
    suggestion: 'Make the call again without requestState.',
  })
}

/** What a server gets for a question its caller cannot be asked. */
function refusal(question: InputRequest): InputResponse {
  return { error: Payload.of({ code: -32601, message: `The client cannot be asked: ${question.method}` }) }
}

function noAnswer(question: InputRequest): InputResponse {
  if (question.method === 'elicitation/create') return { result: Payload.of({ action: 'cancel' }) }
  return { error: Payload.of({ code: -32603, message: 'The user did not answer in time.' }) }
}

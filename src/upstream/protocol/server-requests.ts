/**
 * Requests that an older server makes in the middle of calls: which call each belongs to, and its response.
 * Where the server does not say, calls that could be meant take turns.
 */
import { setTimeout as wait } from 'node:timers/promises'
import type { InputResponse, InputRequest, Call } from '../../core/call.ts'
import { Payload } from '../../core/payload.ts'
import { Registry } from '../../core/registry.ts'
import { pause, untilAborted } from '../../core/time/waiting.ts'
import type { JsonRpcPeer } from '../../protocol/json-rpc-peer.ts'
import type { JsonRpcRequest } from '../../protocol/jsonrpc.ts'
import { method } from '../../protocol/methods.ts'
import type { UpstreamCall } from '../suspended-calls.ts'
import { amongCalls, isOfClient } from './notifications.ts'

interface Options {
  readonly peer: JsonRpcPeer
  readonly correlator: RequestCorrelator
  /** Who listens outside any call. */
  listeners(): readonly UpstreamCall[]
  /** Roots the configuration lists. */
  readonly roots: readonly string[] | undefined
  /** Those the first calls wait for, where the client has them. */
  firstRoots(): FirstRoots | undefined
}

/** Brings the questions of a server with a handshake to its callers, and their answers back. */
export class ServerRequestHandler {
  readonly #options: Options
  readonly #open = new Map<string, AbortController>()

  constructor(options: Options) {
    this.#options = options
  }

  /** Whether a question waits for its answer. */
  get isOpen(): boolean {
    return this.#open.size > 0
  }

  /** Takes a request of the server; `about` is the call whose stream carried it. */
  async take(request: JsonRpcRequest, about: number | undefined): Promise<void> {
    const { peer, roots } = this.#options
    if (request.method === 'roots/list' && roots) {
      return peer.respond(request.id, Payload.of({ roots: roots.map((uri) => ({ uri })) }))
    }
    const controller = new AbortController()
    this.#open.set(request.id, controller)
    const firstRoots = request.method === 'roots/list' ? this.#options.firstRoots() : undefined
    let isExpired = false
    const expire = (): void => {
      isExpired = true
      controller.abort()
    }
    firstRoots?.requested(expire)
    try {
      const question = { method: request.method, params: request.params }
      const answer = await this.#ask(question, about, controller)
      // What the server took back itself wants no answer.
      if (controller.signal.aborted && !isExpired) return
      if (!answer) await peer.respondError(request.id, unsupported(request))
      else if ('result' in answer) await peer.respond(request.id, answer.result)
      else await peer.respondError(request.id, answer.error)
    } finally {
      firstRoots?.answered(expire)
      this.#open.delete(request.id)
    }
  }

  /** The server takes a question back. */
  withdraw(id: string): void {
    this.#open.get(id)?.abort()
  }

  close(): void {
    for (const controller of this.#open.values()) controller.abort()
  }

  /** Asks the caller it is for; where one that was only guessed ends first, the next. Nothing where there is none. */
  async #ask(
    question: InputRequest,
    about: number | undefined,
    controller: AbortController,
  ): Promise<InputResponse | undefined> {
    const found = await this.#options.correlator.find(question, about, this.#options.listeners())
    if (!found) return undefined
    const { active, isAmbiguous: isGuess } = found
    // While its caller thinks, another call may be at work.
    active.pause()
    const answer = await active.working.requestInput(question, {
      withdrawn: controller.signal,
      isAmbiguous: isGuess,
    })
    await active.resume()
    // The call it was for has ended, so the server does not wait for an answer.
    if (!answer && !isGuess) controller.abort()
    return answer || controller.signal.aborted ? answer : this.#ask(question, about, controller)
  }
}

function unsupported({ method }: JsonRpcRequest): Payload {
  return Payload.of({
    code: -32601,
    message: `Method not found: ${method}`,
    data: { reason: 'no caller to ask' },
  })
}

/** How long after a question a server may ask more for the same call, in milliseconds. */
const FOLLOW_UP_WAIT_MS = 25

/** A call under way at a server: at work, or waiting for its caller to answer. */
export class ActiveCall {
  readonly working: UpstreamCall
  /** The id of its latest request. */
  id = 0
  readonly #take: () => Promise<Release>
  #release: Release
  #questions = 0
  #isWaiting = false
  #hasEnded = false
  #pausing: NodeJS.Timeout | undefined
  #resuming: Promise<void> | undefined

  constructor(working: UpstreamCall, release: Release, take: () => Promise<Release>) {
    this.working = working
    this.#release = release
    this.#take = take
  }

  /** Whether it lets others work until its caller has answered. */
  get isWaiting(): boolean {
    return this.#isWaiting
  }

  /** A question goes out: in a moment this call is waiting, and its turn is free. */
  pause(): void {
    this.#questions++
    clearTimeout(this.#pausing)
    if (this.#hasEnded) return
    this.#pausing = setTimeout(() => {
      this.#isWaiting = true
      this.#release()
    }, FOLLOW_UP_WAIT_MS)
  }

  /** An answer is there: resolves when it is this call's turn again. */
  async resume(): Promise<void> {
    this.#questions--
    // What ended needs no turn, and would keep it.
    if (this.#hasEnded) return
    if (!this.#isWaiting) {
      if (this.#questions === 0) clearTimeout(this.#pausing)
      return
    }
    this.#resuming ??= this.#retake()
    await this.#resuming
  }

  end(): void {
    this.#hasEnded = true
    clearTimeout(this.#pausing)
    this.#release()
  }

  async #retake(): Promise<void> {
    try {
      this.#release = await this.#take()
      if (this.#hasEnded) this.#release()
    } catch {
      // The outcome is no longer awaited; the server still gets the answer.
    } finally {
      this.#isWaiting = false
      this.#resuming = undefined
    }
  }
}

interface Found {
  readonly active: ActiveCall
  /** It may be another call of the same client that the server asks for, or none. */
  readonly isAmbiguous: boolean
}

/** How many questions may wait for a call to ask through, and how long, in milliseconds. */
const MAX_HELD = 10
const MAX_HOLD_MS = 60_000

/** Finds out for which call a server asks something. */
export class RequestCorrelator {
  readonly #calls = new Registry<number, ActiveCall>()
  readonly #held = new Set<() => void>()
  #isDoubtful = false
  /** The last id given to a call that is not sent yet: requests have others. */
  #expected = 0

  /** The server asks outside a call's own stream. */
  get isAmbiguous(): boolean {
    return this.#isDoubtful
  }

  begin(id: number, active: ActiveCall): void {
    // The request before this one of the same call is over.
    this.#calls.delete(active.id)
    active.id = id
    this.#calls.set(id, active)
    if (this.#held.size > 0 && isAskable(active)) for (const go of this.#held) go()
  }

  /** A call that is not sent yet can be asked through. */
  expect(active: ActiveCall): void {
    this.begin(--this.#expected, active)
  }

  end({ id }: ActiveCall): void {
    this.#calls.delete(id)
  }

  /** The calls a message may be about: that of its stream, or those under way that are of one caller. */
  recipients(about: number | undefined): readonly UpstreamCall[] {
    if (about === undefined)
      return amongCalls(
        this.#calls
          .values()
          .map(({ working }) => working)
          .filter(isOfClient),
      ).to
    const found = this.#calls.get(about)
    return found ? [found.working] : []
  }

  /** Who may hear a log message of no known call: all while none is under way, else the caller or session all are of. */
  mayReceive({ client, principal }: Call): boolean {
    return this.#calls.values().every(({ working: { call } }) => {
      const isSameCaller = !principal.isEverybody && call.principal.id === principal.id
      return isSameCaller || (client.session !== undefined && call.client.session === client.session)
    })
  }

  /** The client to ask. Requests for roots wait until there is a client. */
  async find(
    question: InputRequest,
    about: number | undefined,
    listeners: readonly UpstreamCall[],
  ): Promise<Found | undefined> {
    const found = this.#find(question, about, listeners)
    if (found || question.method !== 'roots/list' || this.#calls.size > 0) return found
    await this.#hold()
    return this.#find(question, undefined, listeners)
  }

  #find(
    question: InputRequest,
    about: number | undefined,
    listeners: readonly UpstreamCall[],
  ): Found | undefined {
    const owner = about === undefined ? undefined : this.#calls.get(about)
    if (owner) return { active: owner, isAmbiguous: false }
    const calls = this.#calls.values().filter(isAskable)
    const working = calls.filter((each) => !each.isWaiting)
    // Roots are asked for at any time; anything else is for a call.
    if (working.length > (question.method === 'roots/list' ? 1 : 0)) this.#isDoubtful = true
    const candidates = [working, calls, listeners.map(quiet)].find((each) => each.length > 0) ?? []
    const last = candidates.at(-1)
    if (!last || !candidates.every((each) => isSameClient(each, last))) return undefined
    return { active: last, isAmbiguous: candidates.length > 1 || question.method === 'roots/list' }
  }

  async #hold(): Promise<void> {
    if (this.#held.size >= MAX_HELD) return
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#held.add(resolve)
    await Promise.race([promise, wait(MAX_HOLD_MS, undefined, { ref: false })])
    this.#held.delete(resolve)
  }
}

function isAskable({ working }: ActiveCall): boolean {
  return method(working.call.method).asks === true
}

/** A listener as something to ask through; it holds no turn. */
function quiet(working: UpstreamCall): ActiveCall {
  return new ActiveCall(working, free, () => Promise.resolve(free))
}

const free = (): void => undefined

function isSameClient(one: ActiveCall, other: ActiveCall): boolean {
  if (one === other) return true
  const { session } = one.working.call.client
  return session !== undefined && session === other.working.call.client.session
}

/** Lets go of a turn, once. */
export type Release = () => void

interface Waiting {
  readonly owner: string | undefined
  start(release: Release): void
}

/**
 * Takes turns: at a time only one owner is at work, so that a question the server asks without saying for which
 * call can be attributed. Calls of one owner share a turn; a call without owner has one for itself.
 */
export class FairMutex {
  #owner: string | undefined
  #working = 0
  readonly #waiting: Waiting[] = []

  /**
   * Waits for a turn. A call that goes on joins others of its owner at once: they may be waiting for what it was
   * told. Rejects with the signal's reason where that comes first.
   */
  take(owner: string | undefined, signal: AbortSignal, goesOn = false): Promise<Release> {
    const isNext = this.#waiting.length === 0 || goesOn
    if (isNext && this.#isFree(owner)) return Promise.resolve(this.#start(owner))
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        owner,
        start: (release) => {
          signal.removeEventListener('abort', leave)
          resolve(release)
        },
      }
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
        reject(signal.reason)
        this.#next()
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.push(waiting)
    })
  }

  #isFree(owner: string | undefined): boolean {
    return this.#working === 0 || (owner !== undefined && owner === this.#owner)
  }

  #start(owner: string | undefined): Release {
    this.#owner = owner
    this.#working++
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      this.#working--
      this.#next()
    }
  }

  #next(): void {
    for (let first = this.#waiting[0]; first && this.#isFree(first.owner); first = this.#waiting[0]) {
      this.#waiting.shift()
      first.start(this.#start(first.owner))
    }
  }
}

// Holds the first calls of a session until its server has the client's roots. A server asks for them once the
// handshake is over, while the client's first call may come at once: it would run with the folders of the
// server's own command line. Whether a server asks at all is not known, so it has a moment to.

/** How long a server has to ask, and a client to answer, in milliseconds. */
const ASK_TIMEOUT_MS = 500
const ANSWER_TIMEOUT_MS = 10_000
/** How long a server has to make use of what it was answered, in milliseconds: it may look each folder up. */
const SETTLE_MS = 50

/** The roots of one session. */
export class FirstRoots {
  readonly #asked = Promise.withResolvers<void>()
  /** Takes back the questions that are open. */
  readonly #open = new Set<() => void>()
  readonly #answered = Promise.withResolvers<void>()
  #settling: Promise<void> | undefined
  #isSettled = false

  /** Whether no call has to wait any more. */
  get isSettled(): boolean {
    return this.#isSettled
  }

  /** The server asks for roots; where the client does not answer in time, `expire` takes the question back. */
  requested(expire: () => void): void {
    this.#open.add(expire)
    this.#asked.resolve()
  }

  /** The question that `expire` takes back is over. */
  answered(expire: () => void): void {
    this.#open.delete(expire)
    this.#answered.resolve()
  }

  /** Waits until the server has the roots, or does not ask for them in time. @throws the reason of the signal */
  settled(signal: AbortSignal): Promise<void> {
    this.#settling ??= this.#settle()
    return untilAborted(this.#settling, signal)
  }

  async #settle(): Promise<void> {
    const isAsked = await Promise.race([this.#asked.promise.then(() => true), pause(ASK_TIMEOUT_MS)])
    if (isAsked === true) {
      const isAnswered = await Promise.race([
        this.#answered.promise.then(() => true),
        pause(ANSWER_TIMEOUT_MS),
      ])
      if (isAnswered !== true) for (const expire of this.#open) expire()
      await pause(SETTLE_MS)
    }
    this.#isSettled = true
  }
}

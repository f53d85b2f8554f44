/**
 * Requests that a legacy server sends during calls: the call each belongs to, and its response. If the server does not
 * identify the call, the possible calls take turns.
 */
import { type Timer, world } from '../../core/world.ts'
import type { InputResponse, InputRequest, Call } from '../../core/call.ts'
import { Payload } from '../../core/payload.ts'
import { Registry } from '../../core/registry.ts'
import { pause, untilAborted } from '../../core/time/waiting.ts'
import type { JsonRpcPeer } from '../../protocol/json-rpc-peer.ts'
import type { JsonRpcRequest } from '../../protocol/jsonrpc.ts'
import { metaKeys } from '../../protocol/meta-keys.ts'
import { method } from '../../protocol/methods.ts'
import { relatedTaskOf } from '../../protocol/tasks.ts'
import type { UpstreamCall } from '../suspended-calls.ts'
import { amongCalls, isOfClient } from './notifications.ts'

interface Options {
  readonly peer: JsonRpcPeer
  readonly correlator: RequestCorrelator
  /** Subscriptions, which are active outside any call. */
  listeners(): readonly UpstreamCall[]
  /** The configured roots. */
  readonly roots: readonly string[] | undefined
  /** The roots exchange that the first calls wait for, if the client has roots. */
  firstRoots(): FirstRoots | undefined
}

/** Forwards the requests of a legacy server to callers, and their responses back. */
export class ServerRequestHandler {
  readonly #options: Options
  readonly #open = new Map<string, AbortController>()

  constructor(options: Options) {
    this.#options = options
  }

  /** Whether a request waits for its response. */
  get isOpen(): boolean {
    return this.#open.size > 0
  }

  /** Handles a request of the server; `about` is the call whose stream carried it. */
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
      // A request that the server itself cancelled needs no response.
      if (controller.signal.aborted && !isExpired) return
      if (!answer) await peer.respondError(request.id, unsupported(request))
      else if ('result' in answer) await peer.respond(request.id, answer.result)
      else await peer.respondError(request.id, answer.error)
    } finally {
      firstRoots?.answered(expire)
      this.#open.delete(request.id)
    }
  }

  /** The server cancels a request. */
  withdraw(id: string): void {
    this.#open.get(id)?.abort()
  }

  close(): void {
    for (const controller of this.#open.values()) controller.abort()
  }

  /** Asks the caller the request belongs to; if a guessed one ends first, the next one. Undefined if there is none. */
  async #ask(
    question: InputRequest,
    about: number | undefined,
    controller: AbortController,
  ): Promise<InputResponse | undefined> {
    const found = await this.#options.correlator.find(question, about, this.#options.listeners())
    if (!found) return undefined
    const { active, isAmbiguous } = found
    // While this caller responds, another call may proceed.
    active.pause()
    const answer = await active.working.requestInput(withoutTask(question), {
      withdrawn: controller.signal,
      isAmbiguous,
    })
    await active.resume()
    // The call it belonged to has ended, so the server does not wait for a response.
    if (!answer && !isAmbiguous) controller.abort()
    return answer || controller.signal.aborted ? answer : this.#ask(question, about, controller)
  }
}

/** The caller does not know the task of the server. */
function withoutTask({ method, params }: InputRequest): InputRequest {
  if (relatedTaskOf(params) === undefined) return { method, ...(params && { params }) }
  return { method, ...(params && { params: params.withMeta({ [metaKeys.relatedTask]: undefined }) }) }
}

function unsupported({ method }: JsonRpcRequest): Payload {
  return Payload.of({
    code: -32601,
    message: `Method not found: ${method}`,
    data: { reason: 'no caller to ask' },
  })
}

/** How long after a request a server may send further ones for the same call, in milliseconds. */
const FOLLOW_UP_WAIT_MS = 25

/** An active call at a server: running, or waiting for its caller's response. */
export class ActiveCall {
  readonly working: UpstreamCall
  /** The id of its latest request. */
  id = 0
  readonly #take: () => Promise<Release>
  #release: Release
  #questions = 0
  #isWaiting = false
  #hasEnded = false
  #pausing: Timer | undefined
  #resuming: Promise<void> | undefined

  constructor(working: UpstreamCall, release: Release, take: () => Promise<Release>) {
    this.working = working
    this.#release = release
    this.#take = take
  }

  /** Whether it lets others run until its caller has responded. */
  get isWaiting(): boolean {
    return this.#isWaiting
  }

  /** A request was sent to the caller: shortly this call is waiting, and its turn is free. */
  pause(): void {
    this.#questions++
    world.clearTimeout(this.#pausing)
    if (this.#hasEnded) return
    this.#pausing = world.setTimeout(() => {
      this.#isWaiting = true
      this.#release()
    }, FOLLOW_UP_WAIT_MS)
  }

  /** A response arrived: resolves when it is this call's turn again. */
  async resume(): Promise<void> {
    this.#questions--
    // A call that has ended needs no turn, and would never release it.
    if (this.#hasEnded) return
    if (!this.#isWaiting) {
      if (this.#questions === 0) world.clearTimeout(this.#pausing)
      return
    }
    this.#resuming ??= this.#retake()
    await this.#resuming
  }

  end(): void {
    this.#hasEnded = true
    world.clearTimeout(this.#pausing)
    this.#release()
  }

  async #retake(): Promise<void> {
    try {
      this.#release = await this.#take()
      if (this.#hasEnded) this.#release()
    } catch {
      // The outcome is no longer awaited; the server still gets the response.
    } finally {
      this.#isWaiting = false
      this.#resuming = undefined
    }
  }
}

interface Found {
  readonly active: ActiveCall
  /** The request may belong to another call of the same client, or to none. */
  readonly isAmbiguous: boolean
}

/** The maximum number of requests postponed until there is a call they can belong to, and for how long, in milliseconds. */
const MAX_POSTPONED = 10
const MAX_POSTPONED_MS = 60_000

/** A request that waits for a call it can belong to. */
interface Postponed {
  find(): Found | undefined
  resolve(found: Found): void
}

/** Determines the call that a server's request belongs to. */
export class RequestCorrelator {
  readonly #calls = new Registry<number, ActiveCall>()
  /** The calls that the server runs as tasks, by the id of the task. */
  readonly #tasks = new Map<string, ActiveCall>()
  readonly #postponed = new Set<Postponed>()
  #sendsUnattributed = false
  /** The last id given to an expected call, which is not sent yet: sent requests have other ids. */
  #expected = 0

  /** Whether the server sends requests outside of a call's own stream. */
  get sendsUnattributed(): boolean {
    return this.#sendsUnattributed
  }

  begin(id: number, active: ActiveCall): void {
    // The previous request of the same call is complete.
    this.#calls.delete(active.id)
    active.id = id
    this.#calls.set(id, active)
    if (isAskable(active)) this.#takeUp()
  }

  /** The server runs a call as a task, which its requests name. */
  runsTask(active: ActiveCall, taskId: string): void {
    this.#tasks.set(taskId, active)
    this.#takeUp()
  }

  /** A call that is not sent yet can already receive input requests of the server. */
  expect(active: ActiveCall): void {
    this.begin(--this.#expected, active)
  }

  end(active: ActiveCall): void {
    this.#calls.delete(active.id)
    for (const [taskId, other] of this.#tasks) if (other === active) this.#tasks.delete(taskId)
  }

  /**
   * The calls a message may be about: that of its task, that of its stream, or the active calls if they belong to one
   * caller.
   */
  recipients(about: number | undefined, taskId?: string): readonly UpstreamCall[] {
    const task = taskId === undefined ? undefined : this.#tasks.get(taskId)
    if (task) return [task.working]
    if (taskId !== undefined && about === undefined) return []
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

  /**
   * Whether a call may receive a log message without a known call: any may while no call is active, otherwise only the
   * caller or session that owns all active calls.
   */
  mayReceive({ client, principal }: Call): boolean {
    return this.#calls.values().every(({ working: { call } }) => {
      const isSameCaller = !principal.isEverybody && call.principal.id === principal.id
      return isSameCaller || (client.session !== undefined && call.client.session === client.session)
    })
  }

  /**
   * The client to ask: that of the task, if the request names one. The call that follows a task may come later than the
   * requests of the task, which wait for it; requests for roots wait until there is a client.
   */
  async find(
    question: InputRequest,
    about: number | undefined,
    listeners: readonly UpstreamCall[],
  ): Promise<Found | undefined> {
    const taskId = relatedTaskOf(question.params)
    const find = (): Found | undefined =>
      taskId === undefined ? this.#find(question, about, listeners) : this.#ofTask(taskId, about)
    const found = find()
    // A request of the gateway itself, such as one of another gateway that is about to make a call, has no client.
    const hasClient = this.#calls.values().some(({ working }) => isOfClient(working))
    const isEarly = taskId !== undefined || (question.method === 'roots/list' && !hasClient)
    return found ?? (isEarly ? this.#postponedUntil(find) : undefined)
  }

  #ofTask(taskId: string, about: number | undefined): Found | undefined {
    const active = this.#tasks.get(taskId) ?? (about === undefined ? undefined : this.#calls.get(about))
    return active && { active, isAmbiguous: false }
  }

  #find(
    question: InputRequest,
    about: number | undefined,
    listeners: readonly UpstreamCall[],
  ): Found | undefined {
    const owner = about === undefined ? undefined : this.#calls.get(about)
    if (owner) return { active: owner, isAmbiguous: false }
    const calls = this.#calls.values().filter(isAskable)
    const working = calls.filter((call) => !call.isWaiting)
    // Roots may be requested at any time; other requests belong to a call.
    if (working.length > (question.method === 'roots/list' ? 1 : 0)) this.#sendsUnattributed = true
    const candidates = [working, calls, listeners.map(quiet)].find((item) => item.length > 0) ?? []
    const last = candidates.at(-1)
    if (!last || !candidates.every((candidate) => isSameClient(candidate, last))) return undefined
    // A call whose caller is being asked may have sent this one too.
    const isAmbiguous = Math.max(calls.length, candidates.length) > 1 || question.method === 'roots/list'
    return { active: last, isAmbiguous }
  }

  async #postponedUntil(find: () => Found | undefined): Promise<Found | undefined> {
    if (this.#postponed.size >= MAX_POSTPONED) return undefined
    const { promise, resolve } = Promise.withResolvers<Found>()
    const postponed = { find, resolve }
    this.#postponed.add(postponed)
    const found = await Promise.race([promise, pause(MAX_POSTPONED_MS)])
    this.#postponed.delete(postponed)
    return found ?? undefined
  }

  #takeUp(): void {
    for (const { find, resolve } of this.#postponed) {
      const found = find()
      if (found) resolve(found)
    }
  }
}

function isAskable({ working }: ActiveCall): boolean {
  return method(working.call.method).asks === true
}

/** A subscription as a way to ask its client; it occupies no turn. */
function quiet(working: UpstreamCall): ActiveCall {
  return new ActiveCall(working, free, () => Promise.resolve(free))
}

const free = (): void => undefined

function isSameClient(one: ActiveCall, other: ActiveCall): boolean {
  if (one === other) return true
  const { session } = one.working.call.client
  return session !== undefined && session === other.working.call.client.session
}

/** Releases a turn, once. */
export type Release = () => void

interface Waiting {
  readonly owner: string | undefined
  start(release: Release): void
}

/**
 * A mutex with owners: one owner runs at a time, so that an unattributed request of the server can be assigned. Calls
 * of one owner share a turn; a call without an owner has its own.
 */
export class FairMutex {
  #owner: string | undefined
  #working = 0
  readonly #waiting: Waiting[] = []

  /**
   * Waits for a turn. A continuing call joins others of its owner immediately: they may depend on its response. Rejects
   * with the signal's reason if it is aborted first.
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

// Delays the first calls of a session until its server has the client's roots. A server requests them after the
// handshake, but the client's first call may arrive at once: it would run with the folders of the server's own command
// line. It is unknown whether a server requests roots, so it gets a limited time. A ping before shows that the server has
// read what it was sent, which takes long on a machine with much to do.

/** How long a server may take to request the roots once it responds, and a client to respond, in milliseconds. */
const REQUEST_TIMEOUT_MS = 500
const ANSWER_TIMEOUT_MS = 10_000
/** How long a ping is waited for, in milliseconds. */
const PING_TIMEOUT_MS = 3000
/**
 * How long a server may take to process the roots between two pings, in milliseconds: it may check each folder. On a slow
 * machine it has so many times what it took to respond to the first ping.
 */
const MIN_SETTLE_MS = 50
const MAX_SETTLE_MS = 1000
const SETTLE_PINGS = 10

/** The roots exchange of one session. */
export class FirstRoots {
  readonly #ping: () => Promise<unknown>
  readonly #requested = Promise.withResolvers<void>()
  /** Cancels the pending requests. */
  readonly #open = new Set<() => void>()
  readonly #answered = Promise.withResolvers<void>()
  #settling: Promise<void> | undefined
  #isSettled = false

  /** `ping` settles once the server has responded to a ping. */
  constructor(ping: () => Promise<unknown>) {
    this.#ping = ping
  }

  /** Whether calls no longer have to wait. */
  get isSettled(): boolean {
    return this.#isSettled
  }

  /** The server requests roots; if the client does not respond in time, `expire` cancels the request. */
  requested(expire: () => void): void {
    this.#open.add(expire)
    this.#requested.resolve()
  }

  /** The request that `expire` cancels is complete. */
  answered(expire: () => void): void {
    this.#open.delete(expire)
    this.#answered.resolve()
  }

  /** Waits until the server has the roots, or does not request them in time. @throws the reason of the signal */
  settled(signal: AbortSignal): Promise<void> {
    this.#settling ??= this.#settle()
    return untilAborted(this.#settling, signal)
  }

  /** Waits until the server responds to a ping in whatever way, for a limited time; how long, in milliseconds. */
  async #responds(): Promise<number> {
    const start = world.monotonic()
    await Promise.race([this.#ping().catch(() => undefined), pause(PING_TIMEOUT_MS)])
    return world.monotonic() - start
  }

  async #settle(): Promise<void> {
    const isRequested = await Promise.race([
      this.#requested.promise.then(() => true),
      this.#responds().then(() => pause(REQUEST_TIMEOUT_MS)),
    ])
    if (isRequested === true) {
      const isAnswered = await Promise.race([
        this.#answered.promise.then(() => true),
        pause(ANSWER_TIMEOUT_MS),
      ])
      if (isAnswered !== true) for (const expire of this.#open) expire()
      const took = await this.#responds()
      await pause(Math.min(Math.max(MIN_SETTLE_MS, SETTLE_PINGS * took), MAX_SETTLE_MS))
      await this.#responds()
    }
    this.#isSettled = true
  }
}

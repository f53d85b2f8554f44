/**
 * One session of a client of an older revision: handshake, requests, subscriptions, log level. To the rest of the
 * gateway, such a client looks like one of 2026-07-28.
 */
import {
  type Handler,
  type Call,
  type ClientStream,
  type Notification,
  type InputResponses,
  type Client,
  type InputRequests,
  resultOf,
} from '../../core/call.ts'
import { ReopenDelays } from '../../core/time/backoff.ts'
import { pause, within } from '../../core/time/waiting.ts'
import { world } from '../../core/world.ts'
import { GatewayError, asGatewayError, isCancelled } from '../../core/error.ts'
import { type SessionMeter, calledAsSlot } from '../../core/exchange.ts'
import type { AnswerDelivery } from '../../core/slot.ts'
import { newRequestId } from '../../core/identity.ts'
import { isObject } from '../../core/json/json.ts'
import { background, type Log } from '../../core/log.ts'
import { Payload } from '../../core/payload.ts'
import type { Principal } from '../../core/principal.ts'
import { excerpt } from '../../core/text/redact.ts'
import { capabilitiesIn } from '../../protocol/input-requests.ts'
import { JsonRpcPeer } from '../../protocol/json-rpc-peer.ts'
import {
  type Id,
  type JsonRpcNotification,
  encodeError,
  encodeResult,
  type JsonRpcRequest,
  type JsonRpcResponse,
  type Batch,
  parseMessage,
} from '../../protocol/jsonrpc.ts'
import {
  encodeLegacyError,
  encodeLegacyResult,
  initializeResult,
  legacyErrorCode,
} from '../../protocol/legacy.ts'
import { lift } from '../../protocol/lift.ts'
import { metaKeys } from '../../protocol/meta-keys.ts'
import { isForServers, method, severity, unknownMethod } from '../../protocol/methods.ts'
import { findRevision, latestLegacy, negotiate, type Revision } from '../../core/revisions.ts'
import {
  ACKNOWLEDGED,
  type SubscriptionFilter,
  readFilter,
  reportedChanges,
  filterFor,
} from '../../protocol/subscription-filter.ts'
import { requestInputInline, type RequestInput, inputRounds, requestInput } from './input-requests.ts'
import {
  type ResponseSink,
  drainOf,
  ProgressThrottle,
  isReported,
  type MessageContext,
} from './response-sink.ts'
import { Registry } from '../../core/registry.ts'
import type { SessionState } from '../../records/client-sessions.ts'

// The `subscriptions/listen` call for the subscriptions of a session, replaced with each change.

interface SubscriptionsOptions {
  readonly handle: Handler
  /** Makes the `subscriptions/listen` call; its notifications go to `emit`. */
  call(params: Payload, controller: AbortController, emit: (note: Notification) => void): Call
  onNote(note: Notification): void
  /** What the client was told that there is. */
  capabilities(): Readonly<Record<string, unknown>>
  readonly log: Log
}

/** The first pause before listening again, in milliseconds. */
const RETRY_DELAY_MS = 250

/** The long-lived call that delivers notifications outside of requests to a client of an older revision. */
class Subscriptions {
  readonly #options: SubscriptionsOptions
  #current: AbortController | undefined
  #changes: Promise<unknown> = Promise.resolve()
  #isClosed = false
  readonly #delays = new ReopenDelays(RETRY_DELAY_MS)

  constructor(options: SubscriptionsOptions) {
    this.#options = options
  }

  /** Replaces the subscription; resolves with the accepted filter. The previous call ends once this one is open. */
  open(filter: SubscriptionFilter): Promise<SubscriptionFilter> {
    const change = this.#changes.then(() => this.#replace(filter))
    this.#changes = change.catch(() => undefined)
    return change
  }

  /** Opens the subscription of a session that continues: in the meantime, every list may have changed. */
  async continue(filter: SubscriptionFilter): Promise<void> {
    await this.open(filter).finally(() => this.#reportChanges(filter))
  }

  close(): void {
    this.#isClosed = true
    this.#current?.abort()
  }

  async #replace(filter: SubscriptionFilter): Promise<SubscriptionFilter> {
    const controller = new AbortController()
    const acknowledged = Promise.withResolvers<SubscriptionFilter>()
    const call = this.#options.call(Payload.of({ notifications: filter }), controller, (note) => {
      if (note.method === ACKNOWLEDGED) acknowledged.resolve(readFilter(note.params))
      else this.#options.onNote(note)
    })
    const ended = this.#options.handle(call)
    ended.then(() => acknowledged.resolve({}), acknowledged.reject)
    const honoured = await acknowledged.promise
    background(this.#follow(ended, filter, controller.signal), this.#options.log)
    this.#current?.abort()
    this.#current = controller
    if (this.#isClosed) controller.abort()
    return honoured
  }

  /** Makes the call again if it ends, for example because the configuration changed. */
  async #follow(ended: Promise<unknown>, filter: SubscriptionFilter, signal: AbortSignal): Promise<void> {
    const start = world.monotonic()
    await ended.catch((error: unknown) =>
      this.#options.log.debug('listen.ended', { error: excerpt(String(error)) }),
    )
    // The client changed what it listens to.
    if (signal.aborted) return
    await pause(this.#delays.after(start), signal).catch(() => undefined)
    if (signal.aborted || this.#isClosed) return
    await this.open(filter)
    this.#reportChanges(filter)
  }

  #reportChanges(filter: SubscriptionFilter): void {
    for (const method of reportedChanges(filter, this.#options.capabilities()))
      this.#options.onNote({ method })
  }
}

/** The error of a request whose session ends first: it may have reached the server. */
function sessionEnded(): GatewayError {
  return new GatewayError(
    'OUTCOME_UNKNOWN',
    'The session ended before the call finished. The call may have taken effect.',
    {
      suggestion: 'Check whether the call took effect before making it again.',
    },
  )
}

interface Options {
  readonly id: string
  readonly upstream?: string | undefined
  readonly principal: Principal
  readonly handle: Handler
  /** Sends a message outside of any request. */
  send(message: string): void
  /** The stream of these messages, where the client can be without it; otherwise it lasts as long as the session. */
  readonly channel?: Pick<ClientStream, 'isOpen' | 'drained'>
  /** Keeps the state of the session; called before the client learns that it is open, or has changed. Never rejects. */
  save?(session: ClientSession, isNew: boolean): Promise<unknown>
  /** The numbers of requests to the client follow this one. */
  readonly lastRequest?: number
  /** Whether batches are rejected in every revision. */
  isStrict?(): boolean
  /** Counts the session, and what concerns only it. */
  readonly meter?: SessionMeter | undefined
  readonly log: Log
}

/** The maximum length of client capabilities and info, in characters: they are kept for the whole session. */
const MAX_HANDSHAKE = 65_536

/** A sink for a message without notifications before its response. */
const mute = { emit: (): void => undefined }

/** Methods that are handled by the session itself. */
const local = new Set(['logging/setLevel', 'resources/subscribe', 'resources/unsubscribe'])

/** One client of a revision with a handshake, on any transport. */
export class ClientSession {
  readonly id: string
  readonly principal: Principal
  readonly #options: Options
  readonly #peer: JsonRpcPeer
  readonly #running = new PendingRequests()
  readonly #listening: Subscriptions
  readonly #uris = new Set<string>()
  readonly #closed = new AbortController()
  readonly #stream: ClientStream
  /** The caller of the latest request, with its present rights; only once something may last longer than its request. */
  #presentCaller: Call['presentCaller']
  #isStreamUsed = false
  #revision: Revision | undefined
  /** It began before, and its client has not begun again since: an HTTP+SSE client may do so when it reconnects. */
  #isContinued = false
  /** When the session began. */
  #since = 0
  #client: Client
  #capabilities: Readonly<Record<string, unknown>> = {}
  #level: string | undefined
  /** The principal of the current subscription: what it may receive changes with its tokens. */
  #listener: Pick<MessageContext, 'principal' | 'gatewayMetadata'> = {}

  constructor(options: Options) {
    this.id = options.id
    this.principal = options.principal
    this.#options = options
    const { meter } = options
    this.#client = { era: 'legacy', revision: latestLegacy.name, capabilities: {}, session: options.id }
    this.#peer = new JsonRpcPeer(
      {
        send: async (message, exchange) => {
          const reply = exchange.about === undefined ? undefined : this.#running.get(exchange.about)?.reply
          if (reply) reply.emit(message)
          else options.send(message)
        },
      },
      {
        request: () => undefined,
        notification: () => undefined,
        noise: () => undefined,
        exchanged: meter && ((exchange) => meter.sent(exchange, this.#client.revision)),
      },
      options.lastRequest,
    )
    this.#stream = {
      isOpen: () => {
        this.#isStreamUsed = true
        return this.#revision !== undefined && options.channel?.isOpen() !== false
      },
      closed: this.#closed.signal,
      emit: (note) => isReported(note, this.#revision ?? latestLegacy, (message) => options.send(message)),
      drained: async () => options.channel?.drained(),
    }
    this.#listening = new Subscriptions({
      handle: requestInputInline(options.handle, (questions, call, withdrawn) =>
        this.#put(questions, call, withdrawn),
      ),
      call: (params, controller, emit) => this.#listenCall(params, controller, emit),
      onNote: (note) => isReported(note, this.#revision ?? latestLegacy, (message) => options.send(message)),
      capabilities: () => this.#capabilities,
      log: options.log,
    })
  }

  /** The negotiated revision; undefined before the handshake. */
  get revision(): Revision | undefined {
    return this.#revision
  }

  /** What the session is continued with; undefined before the handshake. */
  get state(): SessionState | undefined {
    const { capabilities, info } = this.#client
    if (!this.#revision) return undefined
    return {
      revision: this.#revision.name,
      capabilities,
      ...(info && { info }),
      offered: this.#capabilities,
      ...(this.#level !== undefined && { level: this.#level }),
      uris: [...this.#uris],
    }
  }

  /** Continues a session that began before, perhaps in another process. */
  continue({ revision, capabilities, info, offered, level, uris }: SessionState): void {
    this.#client = { era: 'legacy', revision, capabilities, session: this.id, ...(info && { info }) }
    this.#revision = findRevision(revision)
    this.#isContinued = true
    this.#since = world.monotonic()
    this.#capabilities = offered
    this.#level = level
    for (const uri of uris) this.#uris.add(uri)
    background(this.#listening.continue(filterFor(this.#uris)), this.#options.log)
  }

  /** Whether the client may send batches. */
  get takesBatches(): boolean {
    return this.#revision?.batches === true && this.#options.isStrict?.() !== true
  }

  get isBusy(): boolean {
    return this.#running.size > 0
  }

  /** Handles a request; the response goes to `reply`. Never throws. */
  async request(request: JsonRpcRequest, reply: ResponseSink): Promise<void> {
    const controller = new AbortController()
    if (this.#running.get(request.id)) {
      const error = new GatewayError(
        'INVALID_REQUEST',
        'Invalid request: a request with this id is in flight.',
      )
      reply.end(encodeError(request.id, error, reply.request.requestId))
      return
    }
    const isOpening = request.method === 'initialize'
    const pending: PendingRequest = { request, controller, reply, isOpening }
    if (!isOpening && this.#running.wasCancelled(request.id)) return reply.end()
    this.#running.add(request.id, pending)
    try {
      const own = this.#own(request, reply, controller)
      const answer = own ? await own : await this.#answer(request, reply, controller)
      if (pending.isAnswered) return
      reply.end(isCancelled(controller.signal) ? undefined : answer)
    } catch (error) {
      if (pending.isAnswered) return
      // A cancelled request gets no response (2025-11-25 basic/utilities/cancellation).
      if (isCancelled(controller.signal)) return reply.end()
      const failure = asGatewayError(error)
      reply.refuse?.(failure)
      reply.end(
        encodeLegacyError(request, failure, reply.request.requestId),
        legacyErrorCode(request, failure),
      )
    } finally {
      this.#running.delete(request.id)
    }
  }

  notification(note: JsonRpcNotification): void {
    if (note.method === 'notifications/cancelled') this.#running.cancel(note)
    // A session that continues listens already.
    if (note.method === 'notifications/initialized' && this.#revision && !this.#isContinued) {
      background(this.#listening.open(filterFor(this.#uris)), this.#options.log)
    }
    if (!isForServers(note.method) || !this.#revision) return
    const call = this.#lift(note, { ...mute, requestId: newRequestId() }, new AbortController())
    background(this.#options.handle(call), this.#options.log)
  }

  /** Handles the client's response to a request of the server. */
  response(response: JsonRpcResponse, text: string): void {
    if (response.id !== undefined) this.#peer.receive(text)
  }

  /** Ends the session of a disconnected client, without waiting for responses. */
  close(): void {
    void this.#stop(new GatewayError('CANCELLED', 'The session ended.'))
  }

  /** Ends the session of a connected client. Resolves when its requests are answered, or after a timeout. */
  end(): Promise<void> {
    return this.#stop(sessionEnded())
  }

  #stop(reason: GatewayError): Promise<void> {
    if (this.#revision && !this.#closed.signal.aborted)
      this.#options.meter?.ended((world.monotonic() - this.#since) / 1000, this.#revision.name)
    const answered = this.#running.end(reason)
    this.#closed.abort()
    this.#listening.close()
    this.#peer.fail(reason)
    return answered
  }

  /** The response to a request that the session handles itself; undefined if it is for a server. */
  #own(
    request: JsonRpcRequest,
    reply: ResponseSink,
    controller: AbortController,
  ): Promise<string> | undefined {
    const { method: name } = request
    if (name === 'ping') return this.#counted(request, Promise.resolve(Payload.text('{}')))
    if (name === 'initialize') return this.#initialize(request, reply, controller)
    if (!this.#revision)
      throw new GatewayError('INVALID_REQUEST', 'Invalid request: initialize must be the first request.')
    const { only } = method(name)
    if (only === 'modern') throw unknownMethod(name)
    if (only !== 'legacy' || !local.has(name)) return undefined
    const { principal, gatewayMetadata } = reply.request
    this.#listener = { principal, gatewayMetadata }
    return this.#counted(request, this.#local(request))
  }

  /** The response with this result; its request is counted, as it is no call. */
  #counted({ id, method: name }: JsonRpcRequest, result: Promise<Payload>): Promise<string> {
    const start = world.monotonic()
    const count = (error?: unknown): void => {
      const seconds = (world.monotonic() - start) / 1000
      this.#options.meter?.answered({ method: name, seconds, error }, this.#client.revision)
    }
    result.then(() => count(), count)
    return result.then((found) => encodeResult(id, found))
  }

  /** Forwards the request, and converts the response to the revision of the client. */
  #answer(request: JsonRpcRequest, reply: ResponseSink, controller: AbortController): Promise<string> {
    const revision = this.#revision ?? latestLegacy
    const pace = new ProgressThrottle((note) =>
      isReported(note, revision, (message, mustArrive) => reply.emit(message, mustArrive)),
    )
    const { presentCaller } = reply.request
    // It keeps the whole request.
    if (presentCaller && this.#isStreamUsed) this.#presentCaller = presentCaller
    const retain = (): void => this.#running.retain(request.id)
    const delivery = request.method === 'tools/call' ? this.#running.delivery(request.id) : undefined
    const around = { rateLimitReporter: reply, emit: pace.emit, ...drainOf(reply), retain, delivery }
    const context = { ...reply.request, ...around }
    const call = this.#lift(request, context, controller)
    const { handle } = this.#options
    const put: RequestInput = (questions, activeCall, withdrawn) =>
      this.#put(questions, activeCall, withdrawn, request.id)
    const encode = (result: Payload): string => {
      pace.end()
      return encodeLegacyResult(request.id, request.method, result, revision)
    }
    const failed = (error: unknown): never => {
      pace.stop()
      throw error
    }
    return handle(call).then(
      (outcome) =>
        outcome.kind === 'result'
          ? encode(outcome.result)
          : inputRounds(outcome, call, handle, put).then(encode, failed),
      failed,
    )
  }

  async #initialize(
    request: JsonRpcRequest,
    reply: ResponseSink,
    controller: AbortController,
  ): Promise<string> {
    if (this.#revision && !this.#isContinued)
      throw new GatewayError('INVALID_REQUEST', 'Invalid request: already initialized.')
    const { protocolVersion, capabilities, clientInfo } = request.params.fields
    if (typeof protocolVersion !== 'string' || !isObject(capabilities)) {
      throw invalid('initialize needs protocolVersion and capabilities')
    }
    if (request.params.text.length > MAX_HANDSHAKE)
      throw new GatewayError('PAYLOAD_TOO_LARGE', 'The client capabilities and info are too long.')
    const revision = negotiate(protocolVersion)
    this.#client = {
      era: 'legacy',
      revision: revision.name,
      capabilities: capabilitiesIn(revision, capabilities),
      session: this.id,
      ...(isObject(clientInfo) && { info: clientInfo }),
    }
    const meta = request.params.at('_meta')
    const params = Payload.of({}).with({ ...(meta && { _meta: meta }) })
    const discover: JsonRpcRequest = { ...request, method: 'server/discover', params }
    const { requestId, peer, trace } = reply.request
    const call = this.#lift(discover, { ...mute, requestId, peer, trace }, controller)
    const outcome = await this.#options.handle(calledAsSlot.set(call, 'initialize'))
    const result = initializeResult(resultOf(outcome), revision)
    this.#revision = revision
    this.#since = world.monotonic()
    this.#capabilities = usedIn(result.at('capabilities')?.fields ?? {})
    this.#isContinued = false
    this.#level = undefined
    this.#uris.clear()
    await this.#options.save?.(this, true)
    return encodeResult(request.id, result)
  }

  /** Handles requests that concern only this session. */
  async #local(request: JsonRpcRequest): Promise<Payload> {
    await this.#change(request)
    await this.#options.save?.(this, false)
    return Payload.text('{}')
  }

  async #change({ method: name, params }: JsonRpcRequest): Promise<void> {
    if (name === 'logging/setLevel') return this.#setLevel(params.fields.level)
    const { uri } = params.fields
    if (typeof uri !== 'string') throw invalid('uri must be a string')
    const { resources } = this.#capabilities
    if (!isObject(resources) || resources.subscribe !== true) {
      throw unknownMethod(name)
    }
    if (name === 'resources/subscribe') await this.#subscribe(uri)
    else if (this.#uris.delete(uri)) await this.#listening.open(filterFor(this.#uris))
  }

  async #setLevel(level: unknown): Promise<void> {
    if (severity(level) < 0) throw invalid('level is not a known log level')
    if (!isObject(this.#capabilities.logging)) {
      throw unknownMethod('logging/setLevel')
    }
    this.#level = String(level)
    await this.#listening.open(filterFor(this.#uris))
  }

  async #subscribe(uri: string): Promise<void> {
    if (this.#uris.has(uri)) return
    if (this.#uris.size >= 1000) throw new GatewayError('OVERLOADED', 'Too many resource subscriptions.')
    this.#uris.add(uri)
    try {
      const honoured = await this.#listening.open(filterFor(this.#uris))
      if (honoured.resourceSubscriptions?.includes(uri)) return
      throw new GatewayError('RESOURCE_NOT_FOUND', 'The server did not accept the subscription.', {
        data: { uri },
      })
    } catch (error) {
      this.#uris.delete(uri)
      throw error
    }
  }

  #put(
    questions: InputRequests,
    call: Call,
    withdrawn: AbortSignal | undefined,
    about?: Id,
  ): Promise<InputResponses> {
    return requestInput(questions, { peer: this.#peer, client: this.#client, call, withdrawn, about })
  }

  #lift(
    message: JsonRpcRequest | JsonRpcNotification,
    context: MessageContext,
    controller: AbortController,
  ): Call {
    const { principal = this.principal } = context
    const { upstream } = this.#options
    const call = lift(message, {
      ...context,
      upstream,
      client: this.#client,
      principal,
      controller,
      stream: this.#stream,
      presentCaller: () => (this.#presentCaller ?? context.presentCaller)?.() ?? principal,
    })
    return this.#level === undefined
      ? call
      : { ...call, meta: { ...call.meta, [metaKeys.logLevel]: this.#level } }
  }

  #listenCall(params: Payload, controller: AbortController, emit: (note: Notification) => void): Call {
    const message = { kind: 'notification', method: 'subscriptions/listen', params } as const
    return this.#lift(message, { ...this.#listener, requestId: newRequestId(), emit }, controller)
  }
}

function invalid(why: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${why}.`)
}

/** The capabilities of servers that a session depends on, without what servers add to them. */
function usedIn(capabilities: Readonly<Record<string, unknown>>): Readonly<Record<string, unknown>> {
  const used = ['tools', 'prompts', 'resources', 'logging'].flatMap((name) => {
    const capability = capabilities[name]
    if (!isObject(capability)) return []
    return [[name, capability.subscribe === true ? { subscribe: true } : {}] as const]
  })
  return Object.fromEntries(used)
}

/** An in-flight request of the client. */
interface PendingRequest {
  readonly request: JsonRpcRequest
  readonly controller: AbortController
  readonly reply: ResponseSink
  /** Whether it is `initialize`, which cannot be cancelled (2025-11-25 basic/utilities/cancellation). */
  readonly isOpening: boolean
  /** Its call goes on without the session. */
  isRetained?: true
  /** It was answered before its call ended. */
  isAnswered?: true
  /** The client cancelled it, or its session has ended. */
  isLost?: true
  /** Called when that happens. */
  onLost?: (() => void)[]
}

/** The time aborted requests have to be answered, in milliseconds. */
const DRAIN_TIMEOUT_MS = 400

/**
 * How long a cancellation waits for its request, in milliseconds, and how many of them wait: each message may have a connection of its
 * own, so that one overtakes another. Of requests that have ended, as many are known.
 */
const EARLY_TIMEOUT_MS = 5000
const MAX_EARLY = 32

/** The in-flight requests of one session. */
class PendingRequests {
  readonly #running = new Registry<Id, PendingRequest>()
  /** When cancellations came whose requests have not come yet, by `world.monotonic()`. */
  readonly #early = new Map<Id, number>()
  /** What is cancelled too late is not cancelled if a client uses its id again. */
  readonly #ended = new Set<Id>()
  #none = Promise.withResolvers<void>()

  get size(): number {
    return this.#running.size
  }

  get(id: Id): PendingRequest | undefined {
    return this.#running.get(id)
  }

  add(id: Id, running: PendingRequest): void {
    this.#running.set(id, running)
  }

  delete(id: Id): void {
    this.#running.delete(id)
    this.#ended.add(id)
    dropFirst(this.#ended)
    if (this.size === 0) this.#none.resolve()
  }

  /** Whether a request that comes now was cancelled before. */
  wasCancelled(id: Id): boolean {
    if (this.#early.size === 0) return false
    const at = this.#early.get(id)
    this.#early.delete(id)
    return at !== undefined && world.monotonic() - at < EARLY_TIMEOUT_MS
  }

  /** Cancels the request named in a notification, if it is in flight and can be cancelled. */
  cancel({ params }: JsonRpcNotification): void {
    const id = params.at('requestId')?.text
    if (id === undefined) return
    const found = this.#running.get(id)
    if (!found && !this.#ended.has(id)) {
      this.#early.set(id, world.monotonic())
      dropFirst(this.#early)
    }
    if (!found || found.isOpening) return
    const { reason } = params.fields
    const why = typeof reason === 'string' ? readable(reason) : 'The client cancelled the request.'
    lose(found)
    found.controller.abort(new GatewayError('CANCELLED', why))
  }

  /** Keeps the call of a request from ending with the session. */
  retain(id: Id): void {
    const found = this.#running.get(id)
    if (found) found.isRetained = true
  }

  /** What becomes of the answer to a request. */
  delivery(id: Id): AnswerDelivery | undefined {
    const found = this.#running.get(id)
    if (!found) return undefined
    const { reply } = found
    return {
      isLost: () => found.isLost === true || reply.isLost?.() === true,
      onLost: (listener) => {
        ;(found.onLost ??= []).push(listener)
        reply.onLost?.(listener)
      },
    }
  }

  /**
   * Aborts all requests but those whose calls go on, which are answered after a timeout. Resolves when all of them are
   * answered.
   */
  async end(reason: GatewayError): Promise<void> {
    if (this.size === 0) return
    this.#none = Promise.withResolvers()
    for (const pending of this.#running.values()) {
      lose(pending)
      if (!pending.isRetained) pending.controller.abort(reason)
    }
    await within(this.#none.promise, DRAIN_TIMEOUT_MS, undefined)
    for (const pending of [...this.#running.values()]) if (pending.isRetained) this.#answer(pending, reason)
  }

  #answer(pending: PendingRequest, reason: GatewayError): void {
    const { request, reply } = pending
    pending.isAnswered = true
    this.delete(request.id)
    if (reason.code === 'CANCELLED') return reply.end()
    reply.end(encodeLegacyError(request, reason, reply.request.requestId), legacyErrorCode(request, reason))
  }
}

function dropFirst(ids: Set<Id> | Map<Id, unknown>): void {
  if (ids.size <= MAX_EARLY) return
  const [first] = ids.keys()
  if (first !== undefined) ids.delete(first)
}

/** The client gets no answer to a request any more. */
function lose(pending: PendingRequest): void {
  pending.isLost = true
  for (const listener of pending.onLost ?? []) listener()
}

/** The maximum length of a reason in logs and to servers, in characters. */
const MAX_REASON_LENGTH = 200

/** Masks possible keys and tokens in a reason: runs of letters and digits that are not words. */
function readable(reason: string): string {
  const short = reason.slice(0, MAX_REASON_LENGTH)
  return short.replaceAll(/(?=[\w.~+/-]*\d)(?=[\w.~+/-]*[a-z])[\w.~+/-]{20,}=*/gi, '***')
}

/** The maximum number of messages in a batch. */
const MAX_BATCH = 100

/**
 * Handles the notifications and responses of a batch, and returns its requests, which the caller serves with
 * `serveBatch`. @throws INVALID_REQUEST, PARSE_ERROR; then none of the messages was handled
 */
export function takeBatch(session: ClientSession, { texts }: Batch): JsonRpcRequest[] {
  if (!session.takesBatches) throw invalidRequest('batches are not part of this protocol version')
  if (texts.length === 0 || texts.length > MAX_BATCH)
    throw invalidRequest(`a batch must have 1 to ${MAX_BATCH} messages`)
  const messages = texts.map((text) => [parseMessage(text), text] as const)
  const requests = messages.flatMap(([message]) => (message.kind === 'request' ? [message] : []))
  if (requests.some((each) => each.method === 'initialize'))
    throw invalidRequest('initialize must not be in a batch')
  for (const [message, text] of messages) {
    if (message.kind === 'notification') session.notification(message)
    else if (message.kind === 'response') session.response(message, text)
  }
  return requests
}

/** Serves the requests of a batch concurrently; the responses are one array, or separate events if `isStream`. */
export async function serveBatch(
  session: ClientSession,
  requests: readonly JsonRpcRequest[],
  reply: ResponseSink & { readonly isStream: boolean },
): Promise<void> {
  const joined = joinReplies(reply, requests.length)
  await Promise.all(requests.map((request) => session.request(request, joined)))
}

function joinReplies(reply: ResponseSink & { readonly isStream: boolean }, count: number): ResponseSink {
  const answers: string[] = []
  let left = count
  return {
    request: reply.request,
    emit: (message, mustArrive) => reply.emit(message, mustArrive),
    ...drainOf(reply),
    isLost: () => reply.isLost?.() === true,
    onLost: (listener) => reply.onLost?.(listener),
    end: (message) => {
      if (message !== undefined) answers.push(message)
      if (--left > 0) return
      if (!reply.isStream) return reply.end(answers.length > 0 ? `[${answers.join(',')}]` : undefined)
      for (const answer of answers) reply.emit(answer)
      reply.end()
    },
  }
}

function invalidRequest(why: string): GatewayError {
  return new GatewayError('INVALID_REQUEST', `Invalid request: ${why}.`)
}

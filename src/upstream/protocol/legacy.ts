/**
 * A connection to a server with a handshake: sessions, server requests during calls, tasks. Presents such a server like
 * one of 2026-07-28.
 */
import { connectionClosed, requireContext } from '../failures.ts'
import type { Call, Notification, Outcome, InputRequest } from '../../core/call.ts'
import type { ServerContext } from '../../core/slot.ts'
import { spoolSlot } from '../../core/spool.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { beforeSendSlot, type Exchange, type ExchangeMeter, onSentSlot } from '../../core/exchange.ts'
import { self } from '../../core/identity.ts'
import { isObject } from '../../core/json/json.ts'
import { background, type Log } from '../../core/log.ts'
import { Payload } from '../../core/payload.ts'
import { excerpt } from '../../core/text/redact.ts'
import { world } from '../../core/world.ts'
import {
  canBeAsked,
  acceptsRootsChanges,
  canAnswer,
  requiredCapability,
} from '../../protocol/input-requests.ts'
import { JsonRpcPeer } from '../../protocol/json-rpc-peer.ts'
import { metaKeys } from '../../protocol/meta-keys.ts'
import { isTaskStatus, method, rootsChanged } from '../../protocol/methods.ts'
import { findRevision, latestLegacy, type Revision } from '../../core/revisions.ts'
import { checkedDeclaration } from '../../protocol/server-shapes.ts'
import { relatedTaskOf } from '../../protocol/tasks.ts'
import { callHeaders } from '../../protocol/trace-context.ts'
import type { UpstreamCall } from '../suspended-calls.ts'
import { foundTool, type ListedTool } from '../../protocol/found-tool.ts'
import { ToolIndex } from '../tool-index.ts'
import type { OpenTransport, UpstreamTransport, StepTimeout } from '../transport/transport.ts'
import type { UpstreamConnection } from './connection.ts'
import type { Proof } from './gateway-proof.ts'
import { callLegacyTool } from './tasks.ts'
import { NotificationRouter } from './notifications.ts'
import { legacyParams, spoolOf } from './params.ts'
import {
  ActiveCall,
  RequestCorrelator,
  FirstRoots,
  ServerRequestHandler,
  type Release,
  FairMutex,
} from './server-requests.ts'

interface Options {
  readonly connect: OpenTransport
  /** The client capabilities sent to the server. */
  readonly capabilities: Readonly<Record<string, unknown>>
  readonly clientInfo?: Readonly<Record<string, unknown>>
  /** The requested revision; the newest one with a handshake if it is not pinned. */
  readonly revision?: string
  /** The configured roots. */
  readonly roots?: readonly string[]
  /** The proof required with each handshake. */
  readonly proof: () => Proof
  /** Set if a client relies on what the server keeps in the session: a lost session is not begun again. */
  readonly keepsContext?: boolean
  readonly stepTimeout: StepTimeout
  /** Called when the tools of the server may have changed. */
  onToolsChanged?(): void
  /** Counts what is sent, and the sessions. */
  readonly meter?: ExchangeMeter | undefined
  readonly log: Log
}

/** A connection to a server whose revision has a handshake. */
export class LegacyConnection implements UpstreamConnection {
  readonly era = 'legacy'
  readonly #options: Options
  readonly #canBeAsked: boolean
  readonly #mutex = new FairMutex()
  readonly #correlator = new RequestCorrelator()
  readonly #notifications: NotificationRouter
  readonly #tools: ToolIndex
  readonly #serverRequests: ServerRequestHandler
  readonly #peer: JsonRpcPeer
  #transport: UpstreamTransport | undefined
  #revision: Revision = latestLegacy
  /** What the server declared, and how it is read. */
  #declared = Payload.of({})
  #discovered = Payload.of({})
  #renewing: Promise<void> | undefined
  #firstRoots: FirstRoots | undefined
  #handshakes = 0
  #context: ServerContext | undefined
  #runsToolsAsTasks = false
  #isClosed = false
  #hasLostSession = false
  /** When the session began; undefined without one. */
  #since: number | undefined

  private constructor(options: Options) {
    this.#options = options
    this.#canBeAsked = canBeAsked(options.capabilities)
    this.#peer = this.#createPeer()
    this.#notifications = new NotificationRouter((name, params) => this.#send(name, params), options.log)
    this.#serverRequests = new ServerRequestHandler({
      peer: this.#peer,
      correlator: this.#correlator,
      listeners: () => this.#notifications.listeners(),
      roots: options.roots,
      firstRoots: () => this.#firstRoots,
    })
    this.#tools = new ToolIndex((params) => this.#send('tools/list', params))
  }

  /** Connects and performs the handshake. @throws SERVER_UNAVAILABLE, or the server's error */
  static async open(options: Options): Promise<LegacyConnection> {
    const connection = new LegacyConnection(options)
    try {
      await connection.#connect()
      await connection.#initialize()
      return connection
    } catch (error) {
      // Does not wait for a process that takes time to exit.
      background(connection.close(), options.log)
      throw error
    }
  }

  get discovered(): Payload {
    return this.#discovered
  }

  get revision(): string {
    return this.#revision.name
  }

  get canAsk(): boolean {
    return this.#transport?.isStateless !== true
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  get hasLostSession(): boolean {
    return this.#hasLostSession
  }

  get context(): ServerContext | undefined {
    return this.#transport?.isStateless === true ? undefined : this.#context
  }

  get pid(): number | undefined {
    return this.#transport?.pid
  }

  get isBusy(): boolean {
    return this.#peer.waiting > 0 || this.#notifications.hasListeners || this.#serverRequests.isOpen
  }

  tool(call: Call): ListedTool | undefined | Promise<ListedTool | undefined> {
    return this.#tools.of(String(call.params.fields.name))
  }

  lacks(call: Call): boolean {
    return this.#tools.lacks(String(call.params.fields.name))
  }

  readonly open = (working: UpstreamCall): Promise<Outcome> => {
    const { call } = working
    if (call.method === 'server/discover') return Promise.resolve({ kind: 'result', result: this.#declared })
    if (call.method === 'subscriptions/listen') return this.#notifications.listen(working, this.#discovered)
    return call.method.startsWith('notifications/') ? this.#notify(call) : this.#call(working)
  }

  kill(): void {
    this.#transport?.kill?.()
  }

  async close(): Promise<void> {
    this.#endSession()
    this.#closed(new Error('The connection was closed.'))
    await this.#transport?.close()
  }

  async #notify(call: Call): Promise<Outcome> {
    const isSupported = call.method !== rootsChanged || acceptsRootsChanges(this.#options.capabilities)
    if (isSupported) await this.#peer.notify(call.method, legacyParams(call, 0, this.#revision))
    return { kind: 'result', result: Payload.of({}) }
  }

  async #call(working: UpstreamCall): Promise<Outcome> {
    const { call } = working
    const level = call.meta[metaKeys.logLevel]
    if (level !== undefined) await this.#notifications.setLevel(level, this.#discovered)
    const release = this.#needsTurn(working) ? await this.#takeTurn(working) : free
    const active = new ActiveCall(working, release, () => this.#takeTurn(working, true))
    let handshakes = this.#handshakes
    try {
      // Nothing is sent while the session is being renewed.
      if (this.#renewing) {
        await this.#renewing
        requireContext(call, this.context)
      }
      await this.#awaitRoots(active)
      handshakes = this.#handshakes
      return await this.#perform(active)
    } catch (error) {
      const questions = urlQuestions(error, call)
      if (questions) return { kind: 'input_required', inputRequests: questions, requestState: { url: true } }
      if (asGatewayError(error).code !== 'SESSION_NOT_FOUND') throw error
      if (this.#options.keepsContext) {
        this.#loseSession()
        throw error
      }
      // The server refused the request without processing it, so it may be sent again, once.
      if (handshakes === this.#handshakes) await this.#renew()
      requireContext(call, this.context)
      return await this.#perform(active)
    } finally {
      this.#correlator.end(active)
      active.end()
    }
  }

  /** The server's results for a client may depend on the client's roots. */
  async #awaitRoots(active: ActiveCall): Promise<void> {
    const { call, signal } = active.working
    if (this.#firstRoots?.isSettled !== false || method(call.method).asks !== true) return
    this.#correlator.expect(active)
    await this.#firstRoots.settled(signal)
  }

  async #perform(active: ActiveCall): Promise<Outcome> {
    const { call } = active.working
    const make = (id: number): Payload => legacyParams(call, id, this.#revision)
    if (this.#runsToolsAsTasks && call.method === 'tools/call') {
      return callLegacyTool(call, foundTool(call) ?? this.tool(call), {
        signal: active.working.signal,
        call: (edit) => this.#request(active, call.method, (id) => edit(make(id))),
        request: (name, params) => {
          this.#correlator.runsTask(active, String(params.fields.taskId))
          return this.#request(active, name, () => params)
        },
        send: (name, params) => background(this.#send(name, params), this.#options.log),
      })
    }
    const result = await this.#request(active, call.method, make)
    return done(call.method === 'tools/list' ? this.#learnt(call, result) : result, call)
  }

  #learnt({ params }: Call, listed: Payload): Payload {
    this.#tools.learn(listed, params)
    return listed
  }

  async #request(active: ActiveCall, name: string, make: (id: number) => Payload): Promise<Payload> {
    const { signal, progress } = active.working
    const { call } = active.working
    const isCall = name === call.method
    const params = (id: number): Payload => {
      if (isCall) beforeSendSlot.of(call)?.(call)
      this.#correlator.begin(id, active)
      onSentSlot.of(call)?.({ id, revision: this.#revision.name, session: this.#transport?.session })
      return make(id)
    }
    const spool = isCall ? spoolOf(call) : undefined
    const named = isCall ? call.target.name : undefined
    const options = { signal, onProgress: progress, headers: callHeaders(call), spool, name: named }
    const result = await this.#peer.request(name, params, options)
    // After input responses, another call receives the result: its features may not replace the placeholders of this spool.
    const isKnown = !spool || spoolSlot.of(active.working.call) === spool || !spool.isIn(result.text)
    return isKnown ? result : Payload.text(await spool.restored(result.text))
  }

  /** If the transport does not attribute server requests to calls, calls that accept input requests take turns. */
  #needsTurn({ call }: UpstreamCall): boolean {
    if (!this.#canBeAsked || !method(call.method).asks) return false
    return this.#transport?.hasProvenance !== true || this.#correlator.sendsUnattributed
  }

  async #takeTurn(working: UpstreamCall, goesOn = false): Promise<Release> {
    const { call, signal } = working
    return this.#needsTurn(working) ? this.#mutex.take(call.client.session, signal, goesOn) : free
  }

  #createPeer(): JsonRpcPeer {
    const { log, meter } = this.#options
    const absent = (): Promise<void> =>
      Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'The connection is not open.'))
    return new JsonRpcPeer(
      {
        send: (message, exchange) => (this.#transport ? this.#transport.send(message, exchange) : absent()),
        release: (id) => this.#transport?.release?.(id),
      },
      {
        request: (request, about) => background(this.#serverRequests.take(request, about), log),
        notification: (note, about) => this.#onNotification(note, about),
        noise: (text) => log.debug('upstream.noise', { text: excerpt(text) }),
        exchanged: meter && ((exchange) => this.#exchanged(exchange, meter)),
      },
    )
  }

  #exchanged(exchange: Exchange, meter: ExchangeMeter): void {
    // The first process of a server may have answered the handshake before it was a connection.
    const taken = exchange.method === 'initialize' ? this.#transport?.handshakeSeconds : undefined
    meter.sent(taken === undefined ? exchange : { ...exchange, seconds: taken }, this.#revision.name)
  }

  /** The session ended, by an error if there is one. */
  #endSession(error?: string): void {
    if (this.#since === undefined) return
    this.#options.meter?.ended((world.monotonic() - this.#since) / 1000, this.#revision.name, error)
    this.#since = undefined
  }

  async #connect(): Promise<void> {
    const peer = this.#peer
    this.#transport = await this.#options.connect({
      receive: (text, about, isRedacted) => peer.receive(text, about, isRedacted),
      spool: (about) => peer.spool(about),
      isWaiting: (id) => peer.isWaiting(id),
      answeredElsewhere: (id) => peer.answeredElsewhere(id),
      reject: (id, error) => peer.reject(id, error),
      closed: (error) => this.#closed(error),
      sessionLost: () => {
        if (this.#options.keepsContext) this.#loseSession()
        else background(this.#renew(), this.#options.log)
      },
    })
  }

  async #initialize(): Promise<void> {
    const { capabilities, stepTimeout } = this.#options
    const proof = this.#options.proof()
    const params = proof.withChallenge(handshakeParams(this.#options))
    const printed = (): string => this.#transport?.printed ?? ''
    const initialized = await proof.verify(await initialize(this.#peer, params, stepTimeout(), printed))
    const revision = findRevision(initialized.fields.protocolVersion)
    if (revision?.era !== 'legacy') {
      const version = String(initialized.fields.protocolVersion).slice(0, 64)
      throw new GatewayError('SERVER_UNAVAILABLE', `The server uses an unknown protocol version: ${version}.`)
    }
    this.#revision = revision
    this.#declared = asDiscovered(initialized)
    this.#discovered = checkedDeclaration(this.#declared).payload
    this.#runsToolsAsTasks = runsToolsAsTasks(this.#discovered)
    this.#transport?.established?.(revision.name)
    this.#since = world.monotonic()
    this.#context = { id: world.randomUUID(), since: world.now() }
    const { roots } = this.#options
    if (capabilities.roots !== undefined && !roots)
      this.#firstRoots = new FirstRoots(() => this.#send('ping', Payload.of({})))
    // 2025-11-25 basic/lifecycle: nothing else is sent before this notification.
    await this.#peer.notify('notifications/initialized')
    await this.#transport?.listen?.()
  }

  /** Performs the handshake again with a server that lost the session. */
  #renew(): Promise<void> {
    this.#renewing ??= (async () => {
      this.#options.log.info('upstream.session_renewed')
      this.#endSession('SESSION_NOT_FOUND')
      await this.#initialize()
      this.#handshakes++
      await this.#notifications.restore(this.#discovered)
    })().finally(() => {
      this.#renewing = undefined
    })
    return this.#renewing
  }

  #loseSession(): void {
    this.#options.log.info('upstream.session_lost')
    this.#endSession('SESSION_NOT_FOUND')
    this.#hasLostSession = true
    background(this.close(), this.#options.log)
  }

  #closed(error: Error): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#endSession('SERVER_UNAVAILABLE')
    this.#peer.fail(connectionClosed(error))
    this.#notifications.close()
    this.#serverRequests.close()
  }

  #send(name: string, params: Payload): Promise<Payload> {
    return this.#peer.request(name, () => params, { signal: this.#options.stepTimeout() })
  }

  #onNotification(note: Notification, about: number | undefined): void {
    if (note.method === 'notifications/cancelled') {
      const id = note.params?.at('requestId')?.text
      if (id !== undefined) this.#serverRequests.withdraw(id)
      return
    }
    if (note.method === 'notifications/tools/list_changed') {
      this.#tools.forget()
      this.#options.onToolsChanged?.()
    }
    // Task statuses concern the owner of the task, not the call that happens to be active.
    const isAboutCall = about !== undefined || !isTaskStatus(note.method)
    const calls = isAboutCall ? this.#correlator.recipients(about, relatedTaskOf(note.params)) : []
    this.#notifications.dispatch(note, calls, (call) => this.#correlator.mayReceive(call))
  }
}

/** The parameters of `initialize` for a client. */
export function handshakeParams({
  revision = latestLegacy.name,
  capabilities,
  clientInfo = self,
}: Pick<Options, 'revision' | 'capabilities' | 'clientInfo'>): Payload {
  return Payload.of({ protocolVersion: revision, capabilities, clientInfo })
}

/** Sends `initialize`; `printed` says what the server printed in place of an answer. @throws SERVER_UNAVAILABLE, UPSTREAM_ERROR */
export async function initialize(
  peer: JsonRpcPeer,
  params: Payload,
  signal: AbortSignal,
  printed: () => string,
): Promise<Payload> {
  try {
    return await peer.request('initialize', () => params, { signal })
  } catch (cause) {
    if (!signal.aborted || cause === signal.reason) throw cause
    const message = `The server did not respond in time.${printed()}`
    throw new GatewayError('SERVER_UNAVAILABLE', message, { cause })
  }
}

const free: Release = () => undefined

/** Converts the result of `initialize` to that of `server/discover`. */
function asDiscovered(initialized: Payload): Payload {
  return initialized
    .with({ protocolVersion: undefined, serverInfo: undefined })
    .withMeta({ [metaKeys.serverInfo]: initialized.fields.serverInfo })
}

/** A result as an outcome. Older servers end a list with an empty cursor, which newer clients would follow forever. */
function done(result: Payload, call: Call): Outcome {
  const { nextCursor } = result.fields
  const isEnd = nextCursor === '' || nextCursor === null
  const isOver = isEnd && method(call.method).list !== undefined
  return { kind: 'result', result: isOver ? result.with({ nextCursor: undefined }) : result }
}

/** Whether a server of 2025-11-25 runs tools as tasks. */
function runsToolsAsTasks({ fields: { capabilities } }: Payload): boolean {
  const tasks = isObject(capabilities) ? capabilities.tasks : undefined
  const requests = isObject(tasks) ? tasks.requests : undefined
  return isObject(requests) && isObject(requests.tools) && isObject(requests.tools.call)
}

/**
 * Converts the error -32042 of 2025-11-25 ("visit these pages first") to input requests, for a client that does not
 * know it.
 */
function urlQuestions(error: unknown, call: Call): Record<string, InputRequest> | undefined {
  if (call.client.era === 'legacy') return undefined
  const { relayed } = asGatewayError(error).extra
  const data = relayed?.fields.code === -32042 ? relayed.fields.data : undefined
  if (!isObject(data) || !Array.isArray(data.elicitations)) return undefined
  const questions = data.elicitations.filter(isObject).map((elicitation, index): [string, InputRequest] => {
    return [
      `url${index + 1}`,
      { method: 'elicitation/create', params: Payload.of({ ...elicitation, mode: 'url' }) },
    ]
  })
  const [first] = questions
  if (!first) return undefined
  if (!canAnswer(call.client, first[1])) {
    throw new GatewayError('CAPABILITY_REQUIRED', 'This requires a client that can open URLs for the user.', {
      data: { requiredCapabilities: requiredCapability(first[1]) },
    })
  }
  return Object.fromEntries(questions)
}

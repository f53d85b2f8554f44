/** A connection to a server of 2026-07-28: stateless requests, input requests as results. */
import { acceptsTaskSlot, type ServerContext } from '../../core/slot.ts'
import { world } from '../../core/world.ts'
import { connectionClosed } from '../failures.ts'
import type { UpstreamCall } from '../suspended-calls.ts'
import type { Call, Client, Notification, Outcome, InputRequest } from '../../core/call.ts'
import { asGatewayError, GatewayError } from '../../core/error.ts'
import { beforeSendSlot, type ExchangeMeter, onSentSlot } from '../../core/exchange.ts'
import { isObject } from '../../core/json/json.ts'
import { background, type Log } from '../../core/log.ts'
import { Payload } from '../../core/payload.ts'
import { excerpt } from '../../core/text/redact.ts'
import { Registry } from '../../core/registry.ts'
import { self } from '../../core/identity.ts'
import { metaKeys } from '../../protocol/meta-keys.ts'
import { ACKNOWLEDGED, readFilter } from '../../protocol/subscription-filter.ts'
import { mirrorHeaders, readMirror, standardHeaders } from '../../protocol/headers.ts'
import { isListening, rootsChanged } from '../../protocol/methods.ts'
import { JsonRpcPeer } from '../../protocol/json-rpc-peer.ts'
import { requiredCapability, unanswerable } from '../../protocol/input-requests.ts'
import { callHeaders } from '../../protocol/trace-context.ts'
import type { UpstreamConnection } from './connection.ts'
import type { OpenTransport, UpstreamTransport, StepTimeout } from '../transport/transport.ts'
import { declaringTasks, modernCapabilities, modernParams, spoolOf } from './params.ts'
import type { Proof } from './gateway-proof.ts'
import { afterModernCall, continuedTask, continueModern, needsTasks } from './tasks.ts'
import { recipientsOf, type ActiveRequest } from './notifications.ts'
import { foundTool, type ListedTool, withoutFoundTool } from '../../protocol/found-tool.ts'
import { ToolIndex } from '../tool-index.ts'

interface Options {
  readonly connect: OpenTransport
  readonly revision: string
  /** Whether parts of a request are mirrored in headers, as over HTTP. */
  readonly mirrors: boolean
  /** The proof the server has to provide first. */
  readonly proof: Proof
  readonly stepTimeout: StepTimeout
  /** Called when the tools of the server may have changed. */
  onToolsChanged?(): void
  /** Counts what is sent. */
  readonly meter?: ExchangeMeter | undefined
  readonly log: Log
}

/** The key in a call's state for the server's own `requestState`. */
const STATE_KEY = 'server'

/** A connection to a server of 2026-07-28, where every request is independent. */
export class ModernConnection implements UpstreamConnection {
  readonly era = 'modern'
  readonly canAsk = true
  readonly context: ServerContext | undefined
  readonly #options: Options
  readonly #peer: JsonRpcPeer
  readonly #tools: ToolIndex
  readonly #active = new Registry<number, ActiveRequest>()
  #transport: UpstreamTransport | undefined
  #discovered = Payload.of({})
  #isClosed = false
  /** The number of notifications without a recipient. */
  #dropped = 0

  private constructor(options: Options) {
    this.#options = options
    // Over HTTP every request is independent; a process may keep something in memory.
    this.context = options.mirrors ? undefined : { id: world.randomUUID(), since: world.now() }
    const { meter, revision } = options
    this.#tools = new ToolIndex((params, client) => this.#own('tools/list', params, client))
    const absent = (): Promise<void> =>
      Promise.reject(new GatewayError('SERVER_UNAVAILABLE', 'The connection is not open.'))
    this.#peer = new JsonRpcPeer(
      {
        cancelsByRelease: options.mirrors,
        send: (message, exchange) => (this.#transport ? this.#transport.send(message, exchange) : absent()),
        release: (id) => this.#transport?.release?.(id),
      },
      {
        // Servers of this revision send no requests.
        request: (request) => options.log.debug('upstream.noise', { method: request.method }),
        notification: (note, about) => this.#onNotification(note, about),
        noise: (text) => options.log.debug('upstream.noise', { text: excerpt(text) }),
        exchanged: meter && ((exchange) => isListening(exchange.method) || meter.sent(exchange, revision)),
      },
    )
  }

  /** Connects and discovers the server. @throws SERVER_UNAVAILABLE, or the server's error */
  static async open(options: Options): Promise<ModernConnection> {
    const connection = new ModernConnection(options)
    const peer = connection.#peer
    try {
      connection.#transport = await options.connect({
        receive: (text, about, isRedacted) => peer.receive(text, about, isRedacted),
        spool: (about) => peer.spool(about),
        isWaiting: (id) => peer.isWaiting(id),
        reject: (id, error) => peer.reject(id, error),
        closed: (error) => connection.#closed(error),
        sessionLost: () => undefined,
      })
      const { proof } = options
      connection.#discovered = await proof.verify(
        await connection.#own('server/discover', proof.withChallenge(Payload.of({}))),
      )
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
    return this.#options.revision
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  get pid(): number | undefined {
    return this.#transport?.pid
  }

  get isBusy(): boolean {
    return this.#peer.waiting > 0
  }

  tool(call: Call): ListedTool | undefined | Promise<ListedTool | undefined> {
    return this.#tools.of(String(call.params.fields.name), call.client)
  }

  lacks(call: Call): boolean {
    return this.#tools.lacks(String(call.params.fields.name), call.client)
  }

  readonly open = async (working: UpstreamCall): Promise<Outcome> => {
    const { call } = working
    if (call.method.startsWith('notifications/')) return this.#notify(working)
    if (call.method === 'subscriptions/listen') return this.#listen(working)
    const continued = continuedTask(call)
    if (continued !== undefined) return continueModern(call, continued, this.#about(working))
    try {
      return await this.#outcome(working, await this.#request(working))
    } catch (thrown) {
      const error = asGatewayError(thrown)
      if (acceptsTaskSlot.of(call) !== true && needsTasks(error)) return this.#asTask(working)
      if (error.rpc !== -32020) throw thrown
      // The headers were derived from an outdated schema.
      this.#tools.forget()
      return this.#outcome(working, await this.#request(withCall(working, withoutFoundTool(call))))
    }
  }

  /** Makes a call whose server only runs it as a task, and follows that to its end. */
  async #asTask(working: UpstreamCall): Promise<Outcome> {
    const declared = withCall(working, acceptsTaskSlot.set(working.call, true))
    const result = await this.#request(declared)
    return afterModernCall(working.call, result, this.#about(declared))
  }

  /** Requests about the task of a call. */
  #about(working: UpstreamCall) {
    const { call, signal } = working
    const derived = (name: string, params: Payload): UpstreamCall => {
      const { inputResponses, ...rest } = call
      const { progressToken: _token, ...meta } = call.meta
      const target = { ...call.target, method: name }
      return withCall(working, {
        ...rest,
        method: name,
        params,
        meta,
        target,
        requestState: {},
        // What is about a call that was sent is no call of its own.
        slots: beforeSendSlot.put(undefined, acceptsTaskSlot.put(true, call.slots)),
        ...(name === 'tasks/update' && inputResponses && { inputResponses }),
      })
    }
    const capabilities = declaringTasks(modernCapabilities(call.client))
    const client = { ...call.client, era: 'modern', capabilities } as const
    return {
      signal,
      request: (name: string, params: Payload) => this.#request(derived(name, params)),
      send: (name: string, params: Payload) => background(this.#own(name, params, client), this.#options.log),
    }
  }

  kill(): void {
    this.#transport?.kill?.()
  }

  async close(): Promise<void> {
    this.#closed(new Error('The connection was closed.'))
    await this.#transport?.close()
  }

  async #request(working: UpstreamCall): Promise<Payload> {
    const { call, signal } = working
    const made = this.#options.mirrors ? this.#headers(working) : {}
    const headers = made instanceof Promise ? await made : made
    let id = 0
    const params = (given: number): Payload => {
      beforeSendSlot.of(call)?.(call)
      id = given
      this.#active.set(id, { id, working })
      onSentSlot.of(call)?.({ id, revision: this.#options.revision })
      return modernParams(call, id, this.#options.revision, call.requestState[STATE_KEY])
    }
    try {
      const spool = spoolOf(call)
      const { name } = call.target
      const options = { signal, onProgress: working.progress, headers, spool, name }
      return await this.#peer.request(call.method, params, options)
    } finally {
      this.#active.delete(id)
    }
  }

  /** A result, or the input requests that ended the call. */
  #outcome(working: UpstreamCall, result: Payload): Outcome | Promise<Outcome> {
    const { call } = working
    if (result.fields.resultType !== 'input_required') {
      if (call.method === 'tools/list') return { kind: 'result', result: this.#offered(call, result) }
      return afterModernCall(call, result, this.#about(working))
    }
    const { requestState } = result.fields
    const questions = readQuestions(result)
    const beyond = unanswerable(call.client, questions)
    if (beyond) {
      throw new GatewayError(
        'CAPABILITY_REQUIRED',
        `The client does not support this input request: ${beyond.method}.`,
        {
          data: { requiredCapabilities: requiredCapability(beyond) },
        },
      )
    }
    return {
      kind: 'input_required',
      inputRequests: questions,
      requestState: { [STATE_KEY]: requestState ?? null },
    }
  }

  /** Tools with invalid header mirrors cannot be called over HTTP, so they are not offered. */
  #offered({ params, client }: Call, result: Payload): Payload {
    const { tools } = result.fields
    this.#tools.learn(result, params, client)
    if (!this.#options.mirrors || !Array.isArray(tools)) return result
    const isOffered = (tool: unknown): boolean =>
      !isObject(tool) || readMirror(tool.inputSchema) !== undefined
    if (tools.every(isOffered)) return result
    const offered = result.at('tools')?.items.filter(({ value }) => isOffered(value)) ?? []
    return result.with({ tools: Payload.text(`[${offered.map(({ text }) => text).join(',')}]`) })
  }

  #headers({ call }: UpstreamCall): Record<string, string> | Promise<Record<string, string>> {
    const headers = { ...standardHeaders(call.method, call.params), ...callHeaders(call) }
    const { name } = call.params.fields
    if (call.method !== 'tools/call' || typeof name !== 'string') return headers
    const found = foundTool(call) ?? this.tool(call)
    const mirrored = (tool: ListedTool | undefined): Record<string, string> =>
      tool?.mirror && tool.mirror.length > 0
        ? { ...headers, ...mirrorHeaders(tool.mirror, call.params) }
        : headers
    return found instanceof Promise ? found.then(mirrored, () => headers) : mirrored(found)
  }

  async #listen(working: UpstreamCall): Promise<Outcome> {
    const filter = readFilter(working.call.params)
    if (Object.keys(filter).length === 0) {
      working.notify({ method: ACKNOWLEDGED, params: Payload.of({ notifications: {} }) })
      return untilAborted(working.signal)
    }
    return { kind: 'result', result: await this.#request(working) }
  }

  async #notify({ call }: UpstreamCall): Promise<Outcome> {
    const headers = this.#options.mirrors ? { 'mcp-method': call.method, ...callHeaders(call) } : {}
    if (call.method !== rootsChanged) await this.#peer.notify(call.method, call.params, { headers })
    return { kind: 'result', result: Payload.of({}) }
  }

  /** A request of the gateway itself, with the capabilities of the client if there is one. */
  #own(name: string, params: Payload, client?: Client): Promise<Payload> {
    const { revision, mirrors, stepTimeout } = this.#options
    const ownParams = params.withMeta({
      [metaKeys.version]: revision,
      [metaKeys.capabilities]: client ? modernCapabilities(client) : {},
      [metaKeys.clientInfo]: self,
    })
    const headers = mirrors ? standardHeaders(name, params) : {}
    return this.#peer.request(name, () => ownParams, { signal: stepTimeout(), headers })
  }

  #onNotification(note: Notification, about: number | undefined): void {
    if (note.method === 'notifications/tools/list_changed') {
      this.#tools.forget()
      this.#options.onToolsChanged?.()
    }
    if (note.method === 'notifications/cancelled') return this.#ended(Number(note.params?.fields.requestId))
    const { to, why } = recipientsOf(note, about, this.#active)
    if (why !== undefined) {
      const { log } = this.#options
      log.debug('upstream.note_dropped', { method: note.method, why, dropped: ++this.#dropped })
    }
    if (to.length === 0) return
    const params = note.params?.withMeta({ [metaKeys.subscription]: undefined })
    for (const working of to) working.notify({ method: note.method, ...(params && { params }) })
  }

  /** A server that shuts down may end its subscriptions by this message instead of a result. */
  #ended(id: number): void {
    if (this.#active.get(id)?.working.call.method !== 'subscriptions/listen') return
    this.#peer.reject(id, new GatewayError('SERVER_UNAVAILABLE', 'The server ended the subscription.'))
  }

  #closed(error: Error): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#peer.fail(connectionClosed(error))
  }
}

/** The same call of a server with another one to show to it. */
function withCall(working: UpstreamCall, call: Call): UpstreamCall {
  return {
    call,
    signal: working.signal,
    notify: (note) => working.notify(note),
    progress: (note) => working.progress(note),
    requestInput: (request, options) => working.requestInput(request, options),
  }
}

function readQuestions(result: Payload): Record<string, InputRequest> {
  const requests = result.at('inputRequests')
  const questions: Record<string, InputRequest> = {}
  for (const [key, value] of Object.entries(requests?.fields ?? {})) {
    if (!isObject(value) || typeof value.method !== 'string') continue
    const params = requests?.at(key)?.at('params')
    questions[key] = { method: value.method, ...(params && { params }) }
  }
  return questions
}

function untilAborted(signal: AbortSignal): Promise<never> {
  return new Promise((_resolve, reject) => {
    const stop = (): void => reject(new GatewayError('CANCELLED', 'The subscription was cancelled.'))
    if (signal.aborted) stop()
    else signal.addEventListener('abort', stop, { once: true })
  })
}

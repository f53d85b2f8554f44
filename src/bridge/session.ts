import type { Answers, Call, Client, Handler, Note, Outcome, Questions } from '../core/call.ts'
import { asGatewayError, GatewayError, isCancelled } from '../core/error.ts'
import { background, type Log } from '../core/log.ts'
import { isObject } from '../core/json.ts'
import { Payload } from '../core/payload.ts'
import type { Principal } from '../core/principal.ts'
import { Registry } from '../core/registry.ts'
import { metaKeys } from '../wire/extensions.ts'
import type { Filter } from '../wire/filter.ts'
import {
  encodeError,
  encodeNotification,
  encodeResult,
  type Id,
  type Notification,
  type Request,
  type Response,
} from '../wire/jsonrpc.ts'
import { encodeLegacyError, encodeLegacyResult, initializeResult } from '../wire/legacy.ts'
import { lift } from '../wire/lift.ts'
import { isForServers, method, severity } from '../wire/methods.ts'
import { Peer } from '../wire/peer.ts'
import { lowerNote } from '../wire/project.ts'
import { latestLegacy, negotiate, type Revision } from '../wire/revisions.ts'
import { askInline, type Put, rounds } from './ask.ts'
import { Listening } from './listen.ts'
import { putQuestions } from './put.ts'

/** Where the messages about one request of the client go. */
export interface Reply {
  /** Names the request in logs, where its transport names requests. */
  readonly requestId?: string | undefined
  /** A notification or a question, before the answer. */
  emit(message: string): void
  /** The answer, or nothing where none is wanted any more; with its code where it is an error. */
  end(message?: string, errorCode?: unknown): void
}

interface Options {
  readonly id: string
  readonly upstream?: string | undefined
  readonly principal: Principal
  readonly handle: Handler
  /** Sends a message that belongs to no request. */
  send(message: string): void
  readonly log: Log
}

/** A request of the client that is not answered yet. */
interface Running {
  readonly controller: AbortController
  readonly reply: Reply
}

/** One client of a revision with a handshake, whatever transport it came by. */
export class ClientSession {
  readonly id: string
  readonly principal: Principal
  readonly #options: Options
  readonly #peer: Peer
  readonly #running = new Registry<Id, Running>()
  readonly #listening: Listening
  readonly #uris = new Set<string>()
  #revision: Revision | undefined
  #client: Client
  #capabilities: Readonly<Record<string, unknown>> = {}
  #level: string | undefined

  constructor(options: Options) {
    this.id = options.id
    this.principal = options.principal
    this.#options = options
    this.#client = { era: 'legacy', revision: latestLegacy.name, capabilities: {}, session: options.id }
    this.#peer = new Peer(
      {
        send: async (message, exchange) => {
          const reply = exchange.about === undefined ? undefined : this.#running.get(exchange.about)?.reply
          if (reply) reply.emit(message)
          else options.send(message)
        },
      },
      { request: () => undefined, notification: () => undefined, noise: () => undefined },
    )
    this.#listening = new Listening({
      handle: askInline(options.handle, (questions, call, withdrawn) =>
        this.#put(questions, call, withdrawn),
      ),
      call: (params, controller, emit) => this.#listenCall(params, controller, emit),
      onNote: (note) => this.#send(note),
      log: options.log,
    })
  }

  /** The revision of the handshake, once there was one. */
  get revision(): Revision | undefined {
    return this.#revision
  }

  get isBusy(): boolean {
    return this.#running.size > 0
  }

  /** Takes a request; its answer goes to `reply`. Never throws. */
  async request(request: Request, reply: Reply): Promise<void> {
    const controller = new AbortController()
    if (this.#running.has(request.id)) {
      reply.end(
        encodeError(request.id, new GatewayError('INVALID_REQUEST', 'Invalid request: this id is in use.')),
      )
      return
    }
    this.#running.set(request.id, { controller, reply })
    try {
      const answer = await this.#answer(request, reply, controller)
      reply.end(isCancelled(controller.signal) ? undefined : answer)
    } catch (error) {
      // A cancelled request gets no answer (2025-11-25 basic/utilities/cancellation).
      if (isCancelled(controller.signal)) reply.end()
      else reply.end(encodeLegacyError(request.id, request.method, asGatewayError(error)))
    } finally {
      this.#running.delete(request.id)
    }
  }

  notification(note: Notification): void {
    if (note.method === 'notifications/cancelled') {
      const id = note.params.at('requestId')?.text
      if (id !== undefined) this.#running.get(id)?.controller.abort(cancelledBy(note))
    }
    if (note.method === 'notifications/initialized' && this.#revision) {
      background(this.#listening.open(this.#filter()), this.#options.log)
    }
    if (!isForServers(note.method) || !this.#revision) return
    background(
      this.#options.handle(this.#lift(note, new AbortController(), () => undefined)),
      this.#options.log,
    )
  }

  /** Takes the client's answer to a question. */
  response(response: Response, text: string): void {
    if (response.id !== undefined) this.#peer.receive(text)
  }

  close(): void {
    const gone = new GatewayError('CANCELLED', 'The session ended.')
    for (const { controller } of this.#running.values()) controller.abort(gone)
    this.#listening.close()
    this.#peer.fail(gone)
  }

  async #answer(request: Request, reply: Reply, controller: AbortController): Promise<string> {
    const revision = this.#revision
    if (request.method === 'ping') return encodeResult(request.id, Payload.text('{}'))
    if (request.method === 'initialize') return this.#initialize(request, controller)
    if (!revision) throw new GatewayError('INVALID_REQUEST', 'Invalid request: initialize comes first.')
    const { only } = method(request.method)
    if (only === 'modern')
      throw new GatewayError('UNSUPPORTED_OPERATION', `Method not found: ${request.method}`)
    const local = only === 'legacy' ? await this.#local(request) : undefined
    if (local) return encodeResult(request.id, local)
    const call = this.#lift(request, controller, (note) => reply.emit(encode(lowerNote(note, revision))))
    if (reply.requestId !== undefined) call.facts.set('request_id', reply.requestId)
    const { handle } = this.#options
    const outcome = await handle(call)
    if (outcome.kind === 'result')
      return encodeLegacyResult(request.id, request.method, outcome.result, revision)
    const put: Put = (questions, asking, withdrawn) => this.#put(questions, asking, withdrawn, request.id)
    return encodeLegacyResult(request.id, request.method, await rounds(outcome, call, handle, put), revision)
  }

  async #initialize(request: Request, controller: AbortController): Promise<string> {
    if (this.#revision) throw new GatewayError('INVALID_REQUEST', 'Invalid request: already initialized.')
    const { protocolVersion, capabilities, clientInfo } = request.params.fields
    if (typeof protocolVersion !== 'string' || !isObject(capabilities)) {
      throw new GatewayError(
        'INVALID_INPUT',
        'Invalid params: initialize needs protocolVersion and capabilities.',
      )
    }
    const revision = negotiate(protocolVersion)
    this.#client = {
      era: 'legacy',
      revision: revision.name,
      capabilities,
      session: this.id,
      ...(isObject(clientInfo) && { info: clientInfo }),
    }
    const discover: Request = {
      kind: 'request',
      id: request.id,
      method: 'server/discover',
      params: Payload.of({}),
    }
    const outcome = await this.#options.handle(this.#lift(discover, controller, () => undefined))
    const result = initializeResult(resultOf(outcome), revision)
    this.#revision = revision
    this.#capabilities = result.at('capabilities')?.fields ?? {}
    return encodeResult(request.id, result)
  }

  /** Requests that concern this session alone. */
  async #local({ method: name, params }: Request): Promise<Payload | undefined> {
    if (name === 'logging/setLevel') return this.#setLevel(params.fields.level)
    if (name !== 'resources/subscribe' && name !== 'resources/unsubscribe') return undefined
    const { uri } = params.fields
    if (typeof uri !== 'string')
      throw new GatewayError('INVALID_INPUT', 'Invalid params: uri must be a string.')
    const { resources } = this.#capabilities
    if (!isObject(resources) || resources.subscribe !== true) {
      throw new GatewayError('UNSUPPORTED_OPERATION', `Method not found: ${name}`)
    }
    if (name === 'resources/subscribe') await this.#subscribe(uri)
    else if (this.#uris.delete(uri)) await this.#listening.open(this.#filter())
    return Payload.text('{}')
  }

  async #setLevel(level: unknown): Promise<Payload> {
    if (severity(level) < 0)
      throw new GatewayError('INVALID_INPUT', 'Invalid params: level is not a log level.')
    if (!isObject(this.#capabilities.logging)) {
      throw new GatewayError('UNSUPPORTED_OPERATION', 'Method not found: logging/setLevel')
    }
    this.#level = String(level)
    await this.#listening.open(this.#filter())
    return Payload.text('{}')
  }

  async #subscribe(uri: string): Promise<void> {
    if (this.#uris.has(uri)) return
    if (this.#uris.size >= 1000) throw new GatewayError('OVERLOADED', 'Too many resource subscriptions.')
    this.#uris.add(uri)
    try {
      const honoured = await this.#listening.open(this.#filter())
      if (honoured.resourceSubscriptions?.includes(uri)) return
      throw new GatewayError('RESOURCE_NOT_FOUND', 'The server did not accept the subscription.', {
        data: { uri },
      })
    } catch (error) {
      this.#uris.delete(uri)
      throw error
    }
  }

  #filter(): Filter {
    const { tools, prompts, resources } = this.#capabilities
    return {
      ...(isListed(tools) && { toolsListChanged: true }),
      ...(isListed(prompts) && { promptsListChanged: true }),
      ...(isListed(resources) && { resourcesListChanged: true }),
      ...(this.#uris.size > 0 && { resourceSubscriptions: [...this.#uris] }),
    }
  }

  #put(questions: Questions, call: Call, withdrawn: AbortSignal | undefined, about?: Id): Promise<Answers> {
    return putQuestions(questions, { peer: this.#peer, client: this.#client, call, withdrawn, about })
  }

  #lift(message: Request | Notification, controller: AbortController, emit: (note: Note) => void): Call {
    const { principal, upstream } = this.#options
    const call = lift(message, { upstream, client: this.#client, principal, controller, emit })
    return this.#level === undefined
      ? call
      : { ...call, meta: { ...call.meta, [metaKeys.logLevel]: this.#level } }
  }

  #listenCall(params: Payload, controller: AbortController, emit: (note: Note) => void): Call {
    return this.#lift({ kind: 'notification', method: 'subscriptions/listen', params }, controller, emit)
  }

  #send(note: Note): void {
    this.#options.send(encode(lowerNote(note, this.#revision ?? latestLegacy)))
  }
}

function resultOf(outcome: Outcome): Payload {
  if (outcome.kind === 'result') return outcome.result
  throw new GatewayError('SERVER_ERROR', 'A question was left over.')
}

function encode(note: Note): string {
  return encodeNotification(note.method, note.params)
}

function isListed(capability: unknown): boolean {
  return isObject(capability) && capability.listChanged === true
}

function cancelledBy(note: Notification): GatewayError {
  const { reason } = note.params.fields
  return new GatewayError(
    'CANCELLED',
    typeof reason === 'string' ? reason : 'The client cancelled the request.',
  )
}

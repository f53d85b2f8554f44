import { randomUUID } from 'node:crypto'
import { type Call, type Channel, errorReply, isLevel, type Question, reaches, RpcError } from './call.ts'
import { checkLegacyMeta, clip, type Incoming } from './incoming.ts'
import { type Id, isId, isObject, type Json, objectAt } from './json.ts'
import { answer, requireCapability, unknownMethod } from './methods.ts'
import { demand } from './questions.ts'
import { isRevision, traitsOf } from './revisions.ts'
import type { Change, World } from './world.ts'

interface Asked {
  readonly method: string
  resolve(result: Json): void
  reject(error: Error): void
}

type Request = Extract<Incoming, { kind: 'request' }>
type Notification = Extract<Incoming, { kind: 'notification' }>

/** One client of a server older than 2026-07-28. */
export class LegacySession {
  readonly id = randomUUID()
  readonly #world: World
  #phase: 'new' | 'initialized' | 'ready' | 'stateless' = 'new'
  #side: Channel | undefined
  #unsent: Json[] = []
  #capabilities: Json = {}
  #level = 'debug'
  #nextQuestion = 1
  #opening: string | undefined
  readonly #uris = new Set<string>()
  readonly #ids = new Set<string>()
  readonly #calls = new Map<string, AbortController>()
  readonly #asked = new Map<string, Asked>()
  readonly #listener = { heard: (change: Change) => this.#tell(change), end: () => {} }

  constructor(world: World) {
    this.#world = world
  }

  /** A session that was never opened: it hears every request and can ask nothing. */
  static stateless(world: World): LegacySession {
    const session = new LegacySession(world)
    session.#phase = 'stateless'
    return session
  }

  /** Whether the client may send something else than `initialize`. */
  get isOpen(): boolean {
    return this.#phase !== 'new'
  }

  /** Whether unsolicited messages have a way to the client. */
  get hasSide(): boolean {
    return this.#side !== undefined
  }

  /** Opens the way for unsolicited messages. */
  openSide(side: Channel): void {
    this.#side = side
    for (const message of this.#unsent.splice(0)) side.send(message)
  }

  closeSide(side: Channel): void {
    if (this.#side === side) this.#side = undefined
  }

  /** Ends the way for unsolicited messages, as a server does that restarts. */
  endSide(): void {
    this.#side?.finish()
    this.#side = undefined
  }

  close(): void {
    this.#world.listeners.delete(this.#listener)
    for (const controller of this.#calls.values()) controller.abort()
    this.endSide()
  }

  /** Takes one message; what it leads to goes to the channel. */
  receive(incoming: Incoming, channel: Channel): void {
    if (incoming.kind === 'request') void this.#request(incoming, channel)
    if (incoming.kind === 'notification') this.#notification(incoming)
    if (incoming.kind === 'response') this.#response(incoming.id, incoming.message)
    if (incoming.kind === 'junk')
      channel.finish(errorReply(null, new RpcError(incoming.code, incoming.reason)), 400)
  }

  async #request(request: Request, channel: Channel): Promise<void> {
    const { id, method, params, text } = request
    const { journal, options } = this.#world
    const key = JSON.stringify(id)
    if (this.#ids.has(key)) journal.violation(`id reused: ${key}`)
    this.#ids.add(key)
    checkLegacyMeta(method, params, options.revision, journal)
    const controller = new AbortController()
    if (method === 'initialize') this.#opening = key
    else this.#calls.set(key, controller)
    const call: Call = {
      id,
      method,
      params,
      text,
      world: this.#world,
      channel,
      signal: controller.signal,
      logs: (level) => reaches(level, this.#level),
      ask: (questions) => this.#ask(call, questions),
    }
    try {
      const result = await this.#answer(call)
      if (!call.signal.aborted) channel.finish({ jsonrpc: '2.0', id, result })
    } catch (error) {
      if (!call.signal.aborted) channel.finish(errorReply(id, error))
    } finally {
      this.#calls.delete(key)
      if (call.signal.aborted && !options.keepsCancelledStream) channel.finish()
    }
  }

  #answer(call: Call): Json | Promise<Json> {
    const { method, params, world } = call
    if (method === 'ping') return {}
    if (method === 'initialize') return this.#initialize(params)
    if (this.#phase === 'new') {
      if (method === 'server/discover') throw unknownMethod(call)
      world.journal.violation(`${method} before initialize`)
      throw new RpcError(-32600, 'Not initialized')
    }
    if (this.#phase === 'initialized') world.journal.violation(`${method} before notifications/initialized`)
    if (method === 'logging/setLevel') return this.#setLevel(call)
    if (method === 'resources/subscribe' || method === 'resources/unsubscribe') return this.#subscribe(call)
    return answer(call)
  }

  #initialize(params: Json): Json {
    const { journal, traits } = this.#world
    const { protocolVersion, capabilities, clientInfo } = params
    const isWhole =
      typeof protocolVersion === 'string' &&
      isObject(capabilities) &&
      isObject(clientInfo) &&
      typeof clientInfo['name'] === 'string' &&
      typeof clientInfo['version'] === 'string'
    if (!isWhole) {
      journal.violation('initialize lacks protocolVersion, capabilities or clientInfo')
      throw new RpcError(-32602, 'Invalid params')
    }
    if (isRevision(protocolVersion) && traitsOf(protocolVersion).modern) {
      journal.violation(`initialize for ${protocolVersion}, which has no handshake`)
    }
    if (this.#phase !== 'new') journal.violation('initialize twice')
    this.#phase = 'initialized'
    this.#capabilities = capabilities
    this.#world.listeners.add(this.#listener)
    return {
      protocolVersion: traits.revision,
      capabilities: this.#world.capabilities(),
      serverInfo: this.#world.info(),
      ...(traits.titles && { instructions: 'Use the fake tools.' }),
    }
  }

  #setLevel(call: Call): Json {
    requireCapability(call, ['logging'])
    const { level } = call.params
    if (!isLevel(level)) throw new RpcError(-32602, `Unknown level: ${String(level)}`)
    this.#level = level
    return {}
  }

  #subscribe(call: Call): Json {
    requireCapability(call, ['resources', 'subscribe'])
    const uri = String(call.params['uri'])
    if (call.method === 'resources/subscribe') this.#uris.add(uri)
    else this.#uris.delete(uri)
    return {}
  }

  #notification({ method, params }: Notification): void {
    const { journal, options } = this.#world
    checkLegacyMeta(method, params, options.revision, journal)
    if (method === 'notifications/initialized') this.#ready()
    if (method === 'notifications/cancelled') this.#cancel(params['requestId'])
    if (method === 'notifications/roots/list_changed') {
      if (objectAt(this.#capabilities, 'roots')['listChanged'] !== true) {
        journal.violation(`${method}, but the client did not declare roots.listChanged`)
      }
    }
  }

  #ready(): void {
    const { journal, options } = this.#world
    if (this.#phase === 'stateless') return
    if (this.#phase !== 'initialized') journal.violation(`notifications/initialized while ${this.#phase}`)
    this.#phase = 'ready'
    if (options.pingClient) void this.#send('ping', {}, (message) => this.#later(message)).catch(() => {})
    if (options.asksRoots && isObject(this.#capabilities['roots'])) {
      void this.#send('roots/list', {}, (message) => this.#later(message)).catch(() => {})
    }
  }

  #cancel(id: unknown): void {
    const { journal } = this.#world
    const key = JSON.stringify(id)
    if (!isId(id) || !this.#ids.has(key)) journal.violation(`cancelled a request that was never made: ${key}`)
    if (key === this.#opening) journal.violation('cancelled initialize')
    const controller = this.#calls.get(key)
    if (!controller) return
    journal.record({ kind: 'cancelled', text: key, headers: {} })
    controller.abort()
  }

  #response(id: unknown, message: Json): void {
    const asked = this.#asked.get(JSON.stringify(id))
    if (!asked)
      return this.#world.journal.violation(`a response to nothing: ${clip(JSON.stringify(message))}`)
    this.#asked.delete(JSON.stringify(id))
    const { result, error } = message
    if (isObject(result)) return asked.resolve(result)
    const detail = `${String(objectAt(message, 'error')['code'])} ${JSON.stringify(error)}`
    asked.reject(new Error(`The client answered ${asked.method} with error ${detail}`))
  }

  async #ask(call: Call, questions: Readonly<Record<string, Question>>): Promise<Json> {
    const { options } = this.#world
    try {
      demand(this.#capabilities, questions)
    } catch (error) {
      // Only 2026-07-28 has the code for this; an older server says it in words.
      throw new Error(error instanceof Error ? error.message : String(error))
    }
    const send = (message: Json) =>
      options.questions === 'get' ? this.#side?.send(message) : call.channel.send(message)
    const answers = Object.entries(questions).map(async ([key, { method, params }]) => {
      return [key, await this.#send(method, params, send, call.signal)] as const
    })
    return Object.fromEntries(await Promise.all(answers))
  }

  #send(method: string, params: Json, send: (message: Json) => void, signal?: AbortSignal): Promise<Json> {
    const id: Id = this.#nextQuestion++
    const { promise, resolve, reject } = Promise.withResolvers<Json>()
    const timeout = this.#world.options.askTimeoutMs ?? 5000
    const timer = setTimeout(() => stop(`No answer to ${method} within ${timeout} ms`), timeout)
    const stop = (reason: string) => {
      if (!this.#asked.delete(JSON.stringify(id))) return
      send({ jsonrpc: '2.0', method: 'notifications/cancelled', params: { requestId: id, reason } })
      reject(new Error(reason))
    }
    const cancelled = () => stop('cancelled')
    signal?.addEventListener('abort', cancelled, { once: true })
    this.#asked.set(JSON.stringify(id), { method, resolve, reject })
    send({ jsonrpc: '2.0', id, method, params })
    return promise.finally(() => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', cancelled)
    })
  }

  #later(message: Json): void {
    if (this.#side) this.#side.send(message)
    else this.#unsent.push(message)
  }

  #tell({ what, method, params }: Change): void {
    if (this.#phase !== 'ready') return
    if (what === 'watched' && !this.#uris.has(String(params?.['uri']))) return
    if (this.#world.options.without?.includes(`${what}.listChanged`)) return
    this.#side?.send({ jsonrpc: '2.0', method, ...(params && { params }) })
  }
}

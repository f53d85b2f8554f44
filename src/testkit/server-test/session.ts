/**
 * A connection to a server over which a test sends its own messages, valid or not, and sees every message of the
 * server as it is. Invariant: a request always ends, with an answer or with the reason why there is none; a server
 * that has ended is started again for the next request, a limited number of times.
 */
import { asGatewayError } from '../../core/error.ts'
import { self } from '../../core/identity.ts'
import { asObject, isObject, readJson } from '../../core/json/json.ts'
import { type Fields, Payload } from '../../core/payload.ts'
import { excerpt } from '../../core/text/redact.ts'
import type { Redactor } from '../../core/text/redactor.ts'
import { mirrorHeaders, readMirror, standardHeaders } from '../../protocol/headers.ts'
import { metaKeys } from '../../protocol/meta-keys.ts'
import { PROGRESS } from '../../protocol/methods.ts'
import type {
  OpenTransport,
  UpstreamTransport,
  TransportInterceptor,
} from '../../upstream/transport/transport.ts'
import type { Results } from './results.ts'

/** How a request ended. `none` is neither a result nor an error, for the reason in `why`. */
export type WireAnswer =
  | { readonly kind: 'result'; readonly result: Fields; readonly ms: number }
  | { readonly kind: 'error'; readonly error: Fields; readonly ms: number }
  | {
      readonly kind: 'none'
      readonly why: Absence
      readonly message: string
      readonly ms: number
      readonly status?: number
    }

/**
 * No answer in time, no end in time though there was progress, the connection ended, the transport refused the request,
 * or the answer is no JSON-RPC response.
 */
type Absence = 'timeout' | 'slow' | 'closed' | 'refused' | 'malformed'

/** A rule that the messages of the server broke beside the answers to requests. */
export interface Fault {
  readonly rule: 'messages' | 'response-ids' | 'requests' | 'notifications'
  readonly message: string
}

/** What a session needs. */
interface SessionSettings {
  readonly open: OpenTransport
  readonly era: 'legacy' | 'modern'
  readonly revision: string
  /** Whether parts of a request are repeated in headers. */
  readonly isHttp: boolean
  /** How long a request waits for its answer, in milliseconds. */
  readonly timeout: number
  /** How long the first request of a connection waits: the process may still be starting. */
  readonly startTimeout: number
  readonly now: () => number
}

/** What the checks of one run share. */
export interface CheckContext {
  readonly session: ServerSession
  readonly results: Results
  readonly redactor: Redactor
}

/** The server cannot be started again, was started too often, or its time is over. */
export class ServerLost extends Error {}

/** How often a server that has ended is started again. */
const MAX_RESTARTS = 60
/** The maximum number of kept faults of each rule. */
const MAX_FAULTS = 20
/** How many ids of requests are kept to recognize second and late answers. */
const MAX_KNOWN_IDS = 10_000

/** How long a request with progress may take, as a multiple of the timeout. */
const MAX_PROGRESS = 3

interface Pending {
  readonly since: number
  /** The server has sent progress, and gets more time. */
  progress(): void
  settle(answer: WireAnswer): void
  /** The session has ended for good. */
  fail(error: ServerLost): void
}

/** A session with a server, in the revision that the gateway negotiated. */
export class ServerSession {
  readonly #options: SessionSettings
  readonly #pending = new Map<number, Pending>()
  /** Answered requests, and those whose answer was given up. */
  readonly #ended = new Map<number, 'answered' | 'late'>()
  readonly #faults: Fault[] = []
  #transport: UpstreamTransport | undefined
  #generation = 0
  #lastId = 0
  #restarts = 0
  #discovered: Fields = {}
  #end: ServerLost | undefined

  constructor(options: SessionSettings) {
    this.#options = options
  }

  /** What the server says about itself: the result of `initialize` or `server/discover`. */
  get discovered(): Fields {
    return this.#discovered
  }

  get capabilities(): Fields {
    const { capabilities } = this.#discovered
    return asObject(capabilities)
  }

  get era(): 'legacy' | 'modern' {
    return this.#options.era
  }

  get revision(): string {
    return this.#options.revision
  }

  /** The name and version of the server, as far as it gives them. */
  get serverInfo(): Fields {
    const { serverInfo, _meta: meta } = this.#discovered
    const info = isObject(meta) ? (meta[metaKeys.serverInfo] ?? serverInfo) : serverInfo
    return asObject(info)
  }

  /** The faults so far. */
  get faults(): readonly Fault[] {
    return this.#faults
  }

  /** How often the server was started again. */
  get restarts(): number {
    return this.#restarts
  }

  /** Opens the connection. @throws ServerLost if the server does not accept it */
  async connect(): Promise<void> {
    const generation = ++this.#generation
    const isCurrent = (): boolean => generation === this.#generation
    try {
      const transport = await this.#options.open({
        receive: (text, about) => isCurrent() && this.#receive(text, about),
        spool: () => undefined,
        isWaiting: (id) => this.#pending.has(id),
        reject: (id, error) => this.#refused(id, error),
        closed: (error) => isCurrent() && this.#closed(error.message),
        sessionLost: () => isCurrent() && this.#closed('The server ended the session.'),
      })
      this.#transport = transport
      await this.#handshake(transport)
    } catch (error) {
      const { message } = asGatewayError(error)
      await this.close()
      throw error instanceof ServerLost ? error : new ServerLost(message, { cause: error })
    }
  }

  /** Makes a request. @throws ServerLost if the server has ended and cannot be started again */
  request(method: string, params: Fields = {}, definition: Fields = {}): Promise<WireAnswer> {
    return this.#request(method, params, { definition })
  }

  /** The first request of a connection. */
  #first(method: string, params: Fields = {}): Promise<WireAnswer> {
    return this.#request(method, params, { timeout: this.#options.startTimeout })
  }

  #request(
    method: string,
    params: Fields,
    { definition = {}, timeout }: { readonly definition?: Fields; readonly timeout?: number },
  ): Promise<WireAnswer> {
    const { era, revision, isHttp } = this.#options
    const meta = {
      [metaKeys.version]: revision,
      [metaKeys.capabilities]: {},
      [metaKeys.clientInfo]: self,
    }
    const headers = era === 'modern' && isHttp ? headersOf(method, params, definition) : undefined
    const text = (id: number): string => {
      const token = method === 'tools/call' ? { progressToken: id } : {}
      const own = { ...(era === 'modern' && meta), ...token }
      const sent = Object.keys(own).length > 0 ? { ...params, _meta: own } : params
      return JSON.stringify({ jsonrpc: '2.0', id, method, params: sent })
    }
    return this.#send(text, { method, headers, timeout })
  }

  /** Sends a text in the place of a request, which need not be one. @throws ServerLost */
  sendText(text: (id: number) => string, timeout?: number): Promise<WireAnswer> {
    // The headers of a valid request: the body alone is wrong.
    const method = this.#aliveMethod
    const headers = this.#options.isHttp && this.era === 'modern' ? { 'mcp-method': method } : undefined
    return this.#send(text, { method, headers, timeout })
  }

  /** Whether the server answers, in any way. @throws ServerLost if the session was ended for good */
  async isAlive(): Promise<boolean> {
    this.mustGoOn()
    if (!this.#transport) return false
    const answer = await this.request(this.#aliveMethod)
    return answer.kind !== 'none'
  }

  async close(): Promise<void> {
    const transport = this.#transport
    this.#closed('The connection was closed.')
    await transport?.close().catch(() => undefined)
  }

  /** Ends the session for good: requests that wait, and all later ones, fail with a `ServerLost` of this reason. */
  end(reason: string): void {
    this.#end ??= new ServerLost(reason)
    for (const pending of this.#pending.values()) pending.fail(this.#end)
    void this.close()
  }

  /** @throws ServerLost if the session was ended for good */
  mustGoOn(): void {
    if (this.#end) throw this.#end
  }

  /** A request without an effect. */
  get #aliveMethod(): string {
    return this.era === 'modern' ? 'server/discover' : 'ping'
  }

  async #handshake(transport: UpstreamTransport): Promise<void> {
    const { era, revision } = this.#options
    const answer =
      era === 'modern'
        ? await this.#first('server/discover')
        : await this.#first('initialize', { protocolVersion: revision, capabilities: {}, clientInfo: self })
    if (answer.kind !== 'result')
      throw new ServerLost(`The server refused the connection: ${absenceOf(answer)}`)
    this.#discovered = answer.result
    if (era === 'modern') return
    transport.established?.(String(answer.result.protocolVersion))
    await transport.send(JSON.stringify({ jsonrpc: '2.0', method: 'notifications/initialized' }), {
      method: 'notifications/initialized',
    })
    await transport.listen?.()
  }

  async #send(
    text: (id: number) => string,
    {
      method,
      headers,
      timeout = this.#options.timeout,
    }: { method: string; headers?: Record<string, string> | undefined; timeout?: number | undefined },
  ): Promise<WireAnswer> {
    this.mustGoOn()
    const transport = this.#transport ?? (await this.#reopened())
    this.mustGoOn()
    const id = ++this.#lastId
    const { promise, resolve, reject } = Promise.withResolvers<WireAnswer>()
    const since = this.#options.now()
    // What came while this process was busy is read before the wait ends.
    const endWait = (why: 'timeout' | 'slow', after: number): NodeJS.Timeout =>
      setTimeout(() => setImmediate(() => this.#giveUp(id, why)), after)
    let timer = endWait('timeout', timeout)
    this.#pending.set(id, {
      since,
      progress: () => {
        clearTimeout(timer)
        const left = since + timeout * MAX_PROGRESS - this.#options.now()
        timer = endWait('slow', Math.max(0, Math.min(timeout, left)))
      },
      settle: (answer) => {
        clearTimeout(timer)
        this.#pending.delete(id)
        resolve(answer)
      },
      fail: (error) => {
        clearTimeout(timer)
        this.#pending.delete(id)
        reject(error)
      },
    })
    transport.send(text(id), { id, method, headers })?.catch((error: unknown) => this.#refused(id, error))
    return promise
  }

  async #reopened(): Promise<UpstreamTransport> {
    if (this.#restarts >= MAX_RESTARTS) throw new ServerLost(`The server ended ${MAX_RESTARTS} times.`)
    this.#restarts += 1
    await this.connect()
    if (!this.#transport) throw new ServerLost('The server ended at once.')
    return this.#transport
  }

  #receive(text: string, about: number | undefined): void {
    const value = readJson(text)
    const messages: readonly unknown[] = Array.isArray(value) ? value : [value]
    for (const message of messages) {
      if (isObject(message) && message.jsonrpc === '2.0') this.#take(message, about)
      else this.#fault('messages', `it sent what is no message: ${excerpt(text, 80)}`)
    }
  }

  #take(message: Fields, about: number | undefined): void {
    const { id, method } = message
    if (typeof method !== 'string') return this.#settle(message, about)
    if (id === undefined) return this.#noteNotification(method, message.params)
    if (method !== 'ping')
      this.#fault('requests', `it requested ${excerpt(method, 40)} of a client without capabilities`)
    const answer =
      method === 'ping' ? { result: {} } : { error: { code: -32601, message: 'Method not found' } }
    const sent = this.#transport?.send(JSON.stringify({ jsonrpc: '2.0', id, ...answer }), {
      about: JSON.stringify(id),
    })
    sent?.catch(() => undefined)
  }

  #noteNotification(method: string, params: unknown): void {
    if (method === PROGRESS && isObject(params)) this.#pending.get(Number(params.progressToken))?.progress()
    const declared = this.capabilities
    const list = /^notifications\/(tools|prompts|resources)\/list_changed$/.exec(method)?.[1]
    const listed = list === undefined ? undefined : declared[list]
    if (list !== undefined && !(isObject(listed) && listed.listChanged === true))
      this.#fault('notifications', `it sent ${method} without the capability ${list}.listChanged`)
    if (method === 'notifications/message' && this.era === 'legacy' && !isObject(declared.logging))
      this.#fault('notifications', `it sent ${method} without the capability logging`)
  }

  #settle(message: Fields, about: number | undefined): void {
    const { id } = message
    const only = this.#pending.size === 1 ? this.#pending.keys().next().value : undefined
    const isNameless = id === null || id === undefined
    const given = typeof id === 'number' ? id : Number(id)
    const found = isNameless ? (about ?? only) : given
    if (typeof id === 'string' && this.#pending.has(given))
      this.#fault('response-ids', `it answered the id ${given} with the text "${excerpt(id, 20)}"`)
    const pending = found === undefined ? undefined : this.#pending.get(found)
    if (found !== undefined && pending) {
      this.#remember(found, 'answered')
      return pending.settle(answerOf(message, this.#options.now() - pending.since))
    }
    const ended = this.#ended.get(given)
    if (ended === 'late') return this.#remember(given, 'answered')
    if (isNameless) return
    const what = ended === 'answered' ? 'a second time' : 'though there was no such request'
    this.#fault('response-ids', `it answered the id ${excerpt(JSON.stringify(id), 20)} ${what}`)
    // The request that waits will get no better answer.
    const waiting = only === undefined ? undefined : this.#pending.get(only)
    if (ended === undefined && waiting) {
      const ms = this.#options.now() - waiting.since
      waiting.settle({ kind: 'none', why: 'malformed', message: 'the response has another id', ms })
    }
  }

  #remember(id: number, how: 'answered' | 'late'): void {
    this.#ended.set(id, how)
    const [oldest] = this.#ended.keys()
    if (this.#ended.size > MAX_KNOWN_IDS && oldest !== undefined) this.#ended.delete(oldest)
  }

  #giveUp(id: number, why: 'timeout' | 'slow'): void {
    const pending = this.#pending.get(id)
    if (!pending) return
    this.#remember(id, 'late')
    const ms = Math.round(this.#options.now() - pending.since)
    const message =
      why === 'slow' ? `it reports progress, and did not end within ${ms} ms` : `no response within ${ms} ms`
    pending.settle({ kind: 'none', why, message, ms })
    const method = 'notifications/cancelled'
    const cancellation = JSON.stringify({ jsonrpc: '2.0', method, params: { requestId: id } })
    const transport = this.#transport
    if (!transport?.cancelsByRelease) transport?.send(cancellation, { method })?.catch(() => undefined)
    transport?.release?.(id)
  }

  #refused(id: number, error: unknown): void {
    const pending = this.#pending.get(id)
    if (!pending) return
    const { message, extra } = asGatewayError(error)
    const status = extra.details?.http_status
    const ms = this.#options.now() - pending.since
    pending.settle({
      kind: 'none',
      why: 'refused',
      message,
      ms,
      ...(typeof status === 'number' && { status }),
    })
  }

  #closed(message: string): void {
    this.#generation += 1
    this.#transport = undefined
    for (const pending of this.#pending.values())
      pending.settle({ kind: 'none', why: 'closed', message, ms: this.#options.now() - pending.since })
  }

  #fault(rule: Fault['rule'], message: string): void {
    const same = this.#faults.filter((each) => each.rule === rule)
    if (same.length < MAX_FAULTS && !same.some((each) => each.message === message))
      this.#faults.push({ rule, message })
  }
}

/** What a response is. */
export function answerOf(message: Fields, ms: number): WireAnswer {
  const { result, error } = message
  if (isObject(error) && result === undefined) {
    if (Number.isInteger(error.code) && typeof error.message === 'string') return { kind: 'error', error, ms }
    return { kind: 'none', why: 'malformed', message: 'the error has no integer code or no message', ms }
  }
  if (isObject(result) && error === undefined) return { kind: 'result', result, ms }
  return { kind: 'none', why: 'malformed', message: 'the response has neither a result nor an error', ms }
}

/** Whether HTTP refused a request itself, such as one whose headers are too long. */
export function isHttpRefusal(answer: WireAnswer): boolean {
  const status = answer.kind === 'none' ? (answer.status ?? 0) : 0
  return status >= 400 && status < 500
}

/** Whether the server asks for something, or needs a client that it can ask: this one has no capabilities. */
export function isAsking(answer: WireAnswer): boolean {
  if (answer.kind === 'error') return answer.error.code === -32021 || answer.error.code === -32042
  if (answer.kind === 'none') return false
  const { resultType } = answer.result
  return resultType !== undefined && resultType !== 'complete'
}

/** Whether a call has a result that is neither a failure nor a question. */
export function isSuccess(answer: WireAnswer): boolean {
  return answer.kind === 'result' && answer.result.isError !== true && !isAsking(answer)
}

/** Why a request has no result. */
export function absenceOf(answer: Exclude<WireAnswer, { kind: 'result' }>): string {
  return answer.kind === 'none' ? answer.message : `error ${String(answer.error.code)}`
}

function headersOf(method: string, params: Fields, definition: Fields): Record<string, string> {
  const payload = Payload.of(params)
  const mirror = readMirror(definition.inputSchema) ?? []
  return { ...standardHeaders(method, payload), ...mirrorHeaders(mirror, payload) }
}

/*
 * How the gateway opens the connections of a server, so that a test can open its own in the same way: with the same
 * command or credentials, transport and revision, but with nothing of the gateway between.
 */

/** Keeps the last opening that the gateway used. Pass `intercept` to the gateway, and have it connect once. */
export class OpeningCapture {
  #open: OpenTransport | undefined
  #era: 'legacy' | 'modern' = 'legacy'
  #transports: UpstreamTransport[] = []

  readonly intercept: TransportInterceptor = (open, { era }) => {
    this.#open = open
    this.#era = era
    return async (receiver) => {
      const transport = await open(receiver)
      this.#transports.push(transport)
      return transport
    }
  }

  /** Ends the connections of the gateway, and returns how to open others. @throws Error if it has not connected */
  async take(): Promise<{ readonly open: OpenTransport; readonly era: 'legacy' | 'modern' }> {
    if (!this.#open) throw new Error('the gateway has not connected to the server')
    // Servers that use a file or a profile alone cannot run twice.
    await Promise.allSettled(this.#transports.map((each) => each.close()))
    this.#transports = []
    return { open: this.#open, era: this.#era }
  }
}

/**
 * A client of 2025-11-25 behind the balancer of a fleet: each request of its session goes to a random gateway. It answers
 * what a gateway requests on the stream of a call, and listens to the stream of the session.
 */
import { type Fields, Payload } from '../../src/core/payload.ts'
import { type Balancer, pathOf } from './balancer.ts'
import { readReply } from './client.ts'
import type { History, Reply } from './history.ts'
import type { HttpResponse } from './http.ts'
import { OddNumbers } from './odd-numbers.ts'
import type { Seeded } from './random.ts'
import type { Scheduler, SimulatedEvent, SimulatedProcess } from './scheduler.ts'
import { tokenOf } from './settings.ts'

interface Surroundings {
  readonly balancer: Balancer
  readonly scheduler: Scheduler
  readonly history: History
  readonly random: Seeded
  /** The server in its URL. */
  readonly server: string
}

/** A request in the session. */
export interface SessionRequest {
  readonly method: string
  readonly params: Payload
  /** How long the client waits, in milliseconds. */
  readonly patience: number
  /** What it is known by to the gateways. */
  readonly requestId?: string
  /** Says whether a person accepts what the gateway asks about it; `question` identifies what is asked. */
  onQuestion?(question: string): boolean
}

const REVISION = '2025-11-25'
const OPENING_PATIENCE_MS = 10_000
/** How long the client waits when it finds out whether its session is usable, and between two attempts, in milliseconds. */
const PROBE_PATIENCE_MS = 4000
const PROBE_INTERVAL_MS = 1000
/** How often an answer to a gateway is sent until it is taken. */
const MAX_ANSWERS = 6

/** One client, with one session at a time. */
export class SessionClient {
  readonly process: SimulatedProcess
  readonly principal: string
  readonly server: string
  readonly #around: Surroundings
  readonly #ids = new OddNumbers()
  #session: string | undefined
  #stream = new AbortController()

  constructor(process: SimulatedProcess, principal: string, around: Surroundings) {
    this.process = process
    this.principal = principal
    this.server = around.server
    this.#around = around
  }

  /** The id of its session. */
  get session(): string | undefined {
    return this.#session
  }

  /** Begins a session. Resolves with whether that succeeded. */
  async open(): Promise<boolean> {
    const clientInfo = { name: this.process.name, version: '1.0.0' }
    const capabilities = { elicitation: {}, tasks: {} }
    const params = Payload.of({ protocolVersion: REVISION, capabilities, clientInfo })
    const id = this.#ids.nextId()
    const { response, answer } = await this.#post(this.#encode('initialize', params, id), {
      patience: OPENING_PATIENCE_MS,
      id,
    })
    const session = response.headers['mcp-session-id']
    if (answer === undefined || typeof session !== 'string') return false
    this.#session = session
    this.#around.history.add({ kind: 'session', session, did: 'opened' })
    await this.#post(this.#encode('notifications/initialized', Payload.of({})), {
      patience: OPENING_PATIENCE_MS,
    })
    return true
  }

  /** Sends a request in the session. Resolves with `info` if no response came. */
  async request({ method, params, ...sending }: SessionRequest): Promise<Reply> {
    const id = this.#ids.nextId()
    const { answer, isLate } = await this.#post(this.#encode(method, params, id), { ...sending, id })
    return isLate ? { type: 'info', code: 'TIMEOUT' } : readReply(answer, id)
  }

  /** Sends pings until one is answered, or the session is gone. */
  async probe(): Promise<void> {
    const { session } = this
    for (let tries = 0; tries < 60 && session !== undefined && this.#session === session; tries++) {
      const id = this.#ids.nextId()
      const ping = this.#encode('ping', Payload.of({}), id)
      const { answer } = await this.#post(ping, { patience: PROBE_PATIENCE_MS, id })
      if (answer !== undefined && readReply(answer, id).type === 'ok') return
      await this.pause(PROBE_INTERVAL_MS)
    }
  }

  /** Listens to the stream of the session, for as long as it lasts. */
  async listen(): Promise<void> {
    const { session } = this
    const { signal } = (this.#stream = new AbortController())
    while (session !== undefined && this.#session === session && !signal.aborted) {
      const began = this.#now
      const onHead = (status: number): void => this.#note(session, { began, status })
      await this.#send('GET', { signal, onHead })
      await this.pause(1000 + 4000 * this.#around.random.next())
    }
  }

  /** Closes the stream of the session. */
  hangUp(): void {
    this.#stream.abort()
  }

  /** Ends the session. */
  async end(): Promise<void> {
    const session = this.#session
    this.hangUp()
    if (session === undefined) return
    this.#around.history.add({ kind: 'session', session, did: 'ended' })
    const controller = new AbortController()
    const late = this.#after(PROBE_PATIENCE_MS, () => controller.abort())
    await this.#send('DELETE', { signal: controller.signal })
    this.#around.scheduler.cancel(late)
    this.#session = undefined
  }

  pause(milliseconds: number): Promise<void> {
    return new Promise((resolve) => void this.#after(milliseconds, resolve))
  }

  /** Posts a message, and takes what comes back. */
  async #post(
    body: string,
    { patience, id, requestId, onQuestion }: Omit<SessionRequest, 'method' | 'params'> & { id?: string },
  ): Promise<{ readonly response: HttpResponse; readonly answer?: string; readonly isLate: boolean }> {
    const session = this.#session
    const began = this.#now
    const controller = new AbortController()
    const { signal } = controller
    const late = this.#after(patience, () => controller.abort())
    let answer: string | undefined
    const onMessage = (text: string): void => {
      const message = Payload.text(text)
      const about = message.at('id')?.text
      if (message.fields['method'] !== undefined && about !== undefined)
        this.#asked(about, String(message.fields['method']), onQuestion)
      else if (id !== undefined && about === id) answer = text
    }
    const response = await this.#send('POST', { body, requestId, signal, onMessage })
    this.#around.scheduler.cancel(late)
    if (session !== undefined) this.#note(session, { began, response, answer })
    return { response, isLate: signal.aborted, ...(answer !== undefined && { answer }) }
  }

  #send(
    method: 'POST' | 'GET' | 'DELETE',
    {
      requestId,
      ...more
    }: {
      readonly body?: string
      readonly requestId?: string | undefined
      readonly signal: AbortSignal
      onMessage?(text: string): void
      onHead?(status: number): void
    },
  ): Promise<HttpResponse> {
    const headers = {
      authorization: `Bearer ${tokenOf(this.principal)}`,
      ...(requestId !== undefined && { 'x-request-id': requestId }),
      ...(this.#session !== undefined && {
        'mcp-session-id': this.#session,
        'mcp-protocol-version': REVISION,
      }),
    }
    const { balancer, server } = this.#around
    return balancer.request(this.process, { method, path: pathOf(server), headers, ...more })
  }

  /** Answers a request of a gateway; of a person it may take a while. */
  #asked(id: string, method: string, onQuestion: SessionRequest['onQuestion']): void {
    const session = this.#session
    if (session === undefined) return
    const { history, random } = this.#around
    history.add({ kind: 'asked', session, id })
    if (method !== 'elicitation/create') return
    const isAccepted = onQuestion?.(`${session} ${id}`) === true
    const result = isAccepted ? { action: 'accept', content: { confirm: true } } : { action: 'decline' }
    const text = Payload.of({ jsonrpc: '2.0', result }).with({ id: Payload.text(id) }).text
    const answer = async (): Promise<void> => {
      await this.pause(2000 * random.next() ** 2)
      for (let tries = 0; tries < MAX_ANSWERS && this.#session === session; tries++) {
        const { response } = await this.#post(text, { patience: PROBE_PATIENCE_MS })
        if (response.status === 202) return
        await this.pause(PROBE_INTERVAL_MS)
      }
    }
    void answer()
  }

  #note(
    session: string,
    facts: { began: number; status?: number; response?: HttpResponse; answer?: string | undefined },
  ): void {
    const { began, response, answer, status = response?.status } = facts
    const code = answer === undefined ? undefined : codeIn(answer)
    const what = { ...(status !== undefined && { status }), ...(code !== undefined && { code }) }
    this.#around.history.add({ kind: 'exchange', session, began, ...what })
    if (status !== 404 || this.#session !== session) return
    this.hangUp()
    this.#session = undefined
  }

  #encode(method: string, params: Payload, id?: string): string {
    const message = Payload.of({ jsonrpc: '2.0', method }).with({ params })
    return (id === undefined ? message : message.with({ id: Payload.text(id) })).text
  }

  get #now(): number {
    return Math.round(this.#around.scheduler.time)
  }

  #after(milliseconds: number, run: () => void): SimulatedEvent {
    return this.#around.scheduler.after(this.process, milliseconds, 'client', run)
  }
}

/** The code of an error response. */
function codeIn(answer: string): string | undefined {
  const error: Fields | undefined = Payload.text(answer).at('error')?.fields
  const data = Payload.text(answer).at('error')?.at('data')?.fields
  return error && String(data?.['code'] ?? error['code'])
}

import type { IncomingMessage, ServerResponse } from 'node:http'
import { randomUUID } from 'node:crypto'
import { deliver, wantsReply } from './batch.ts'
import { type Channel, RpcError } from './call.ts'
import { EventStream } from './event-stream.ts'
import { bodyOf, headersOf, httpReply, refusalOf, refuse } from './http-reply.ts'
import { type Incoming, sort } from './incoming.ts'
import type { HeaderMap } from './journal.ts'
import { LegacySession } from './legacy.ts'
import { type Pace, pacing } from './pacing.ts'
import { isRevision, traitsOf } from './revisions.ts'
import type { World } from './world.ts'

interface Visit {
  readonly session: LegacySession
  readonly streams: Map<string, EventStream>
  requests: number
}

const silence: Channel = { send: () => {}, finish: () => {}, crash: () => {}, drop: () => {} }

/** Streamable HTTP of a server older than 2026-07-28. */
export class LegacyHttp {
  readonly #world: World
  readonly #pace: Pace
  readonly #visits = new Map<string, Visit>()

  constructor(world: World) {
    this.#world = world
    this.#pace = pacing(world.options)
  }

  /** Forgets every session. */
  expire(): void {
    for (const visit of this.#visits.values()) this.#forget(visit)
  }

  /** Breaks the GET stream of every session. */
  dropSides(): void {
    for (const { session } of this.#visits.values()) session.endSide()
  }

  async handle(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const headers = headersOf(request)
    if (request.method === 'POST') return this.#post(await bodyOf(request), headers, response)
    this.#world.journal.record({ kind: request.method === 'DELETE' ? 'delete' : 'get', text: '', headers })
    if (request.method === 'GET') return this.#get(headers, response)
    if (request.method === 'DELETE') return this.#delete(headers, response)
    refuse(response, 405, new RpcError(-32000, 'Method not allowed'), null)
  }

  #post(text: string, headers: HeaderMap, response: ServerResponse): void {
    const { journal, options } = this.#world
    const incoming = sort(text, headers, journal)
    const refusal = refusalOf(headers)
    if (refusal) {
      journal.violation(refusal.reason)
      return refuse(response, refusal.status, new RpcError(-32000, refusal.reason), null)
    }
    if (incoming.kind === 'junk' && !Array.isArray(incoming.value)) {
      return refuse(response, 400, new RpcError(incoming.code, incoming.reason), null)
    }
    const method = incoming.kind === 'request' ? incoming.method : undefined
    this.#checkHeaderNames(method, headers)
    const visit = method === 'initialize' ? this.#open() : this.#visitOf(headers, response, method)
    if (!visit) return
    if (wantsReply(incoming)) return this.#answer(visit, incoming, response)
    deliver(this.#world, visit.session, incoming, silence)
    const { notificationStatus = 202, notificationBody } = options
    const type = notificationBody === undefined ? {} : { 'Content-Type': 'application/json' }
    response.writeHead(notificationStatus, type).end(notificationBody)
  }

  #answer(visit: Visit, incoming: Incoming, response: ServerResponse): void {
    const { journal, options } = this.#world
    const isOpening = incoming.kind === 'request' && incoming.method === 'initialize'
    if (!isOpening && ++visit.requests === options.expireAfter) setImmediate(() => this.#forget(visit))
    response.on('close', () => {
      if (response.writableFinished) return
      const text = incoming.kind === 'request' ? JSON.stringify(incoming.id) : ''
      journal.record({ kind: 'disconnected', text, headers: {} })
    })
    const channel = httpReply(response, {
      options,
      headers: isOpening && options.sessions !== false ? { 'Mcp-Session-Id': visit.session.id } : {},
      form: options.jsonOnly ? 'json' : 'sse',
      name: randomUUID(),
      began: (stream) => void visit.streams.set(stream.name, stream),
    })
    deliver(this.#world, visit.session, incoming, this.#pace(channel))
  }

  /** Notes headers that have no place here; a probe for a newer server may carry them. */
  #checkHeaderNames(method: string | undefined, headers: HeaderMap): void {
    if (method === 'server/discover') return
    const { journal, options } = this.#world
    const foreign =
      method === 'initialize'
        ? /^mcp-(method|name|param-.*|session-id|protocol-version)$/
        : /^mcp-(method|name|param-.*)$/
    for (const name of Object.keys(headers).filter((known) => foreign.test(known))) {
      journal.violation(`${name} sent to ${options.revision}${method === undefined ? '' : ` with ${method}`}`)
    }
  }

  #open(): Visit {
    const visit = { session: new LegacySession(this.#world), streams: new Map(), requests: 0 }
    if (this.#world.options.sessions !== false) this.#visits.set(visit.session.id, visit)
    return visit
  }

  /** The session a request belongs to; refuses the request when it has none. */
  #visitOf(headers: HeaderMap, response: ServerResponse, method?: string): Visit | undefined {
    const { journal, options, traits } = this.#world
    const refused = (status: number, message: string, violation?: string) => {
      if (violation !== undefined && method !== 'server/discover') journal.violation(violation)
      refuse(response, status, new RpcError(status === 404 ? -32001 : -32000, message), null)
      return undefined
    }
    if (options.sessions === false) {
      return { session: LegacySession.stateless(this.#world), streams: new Map(), requests: 0 }
    }
    const id = headers['mcp-session-id']
    if (id === undefined) return refused(400, 'Bad Request: Server not initialized', 'no Mcp-Session-Id')
    const visit = this.#visits.get(id)
    if (!visit) return refused(options.expiredStatus ?? 404, 'Session not found')
    const version = headers['mcp-protocol-version']
    if (version === undefined && traits.protocolHeader) {
      return refused(400, 'Bad Request: MCP-Protocol-Version is required', 'no MCP-Protocol-Version')
    }
    if (version !== undefined && (!isRevision(version) || traitsOf(version).modern)) {
      return refused(
        400,
        `Bad Request: Unsupported protocol version: ${version}`,
        `MCP-Protocol-Version is ${version}`,
      )
    }
    if (version !== undefined && version !== options.revision) {
      journal.violation(`MCP-Protocol-Version is ${version}, not the negotiated ${options.revision}`)
    }
    return visit
  }

  #get(headers: HeaderMap, response: ServerResponse): void {
    const { journal, options } = this.#world
    if (options.getStream === false || options.sessions === false) {
      return refuse(response, 405, new RpcError(-32000, 'Method not allowed'), null)
    }
    if (!(headers['accept'] ?? '').includes('text/event-stream')) {
      journal.violation('GET without Accept: text/event-stream')
      return refuse(response, 406, new RpcError(-32000, 'Not Acceptable'), null)
    }
    const visit = this.#visitOf(headers, response)
    if (!visit) return
    const last = headers['last-event-id']
    if (last !== undefined) return this.#resume(visit, last, response)
    if (visit.session.hasSide) return refuse(response, 409, new RpcError(-32000, 'Only one GET stream'), null)
    const stream = new EventStream(options, randomUUID())
    visit.streams.set(stream.name, stream)
    stream.attach(response, {})
    const side: Channel = {
      send: (message) => stream.send(message),
      finish: () => stream.end(),
      crash: () => void response.destroy(),
      drop: () => stream.detach(),
    }
    visit.session.openSide(side)
    response.on('close', () => visit.session.closeSide(side))
  }

  #resume(visit: Visit, last: string, response: ServerResponse): void {
    const [name = '', number] = last.split('/')
    const stream = visit.streams.get(name)
    if (stream) return stream.attach(response, {}, Number(number))
    this.#world.journal.violation(`Last-Event-ID of no stream: ${last}`)
    refuse(response, 400, new RpcError(-32000, 'Unknown Last-Event-ID'), null)
  }

  #delete(headers: HeaderMap, response: ServerResponse): void {
    const { deleteStatus = 200 } = this.#world.options
    const visit = this.#visitOf(headers, response)
    if (!visit) return
    if (deleteStatus < 300) this.#forget(visit)
    response.writeHead(deleteStatus).end()
  }

  #forget(visit: Visit): void {
    this.#visits.delete(visit.session.id)
    visit.session.endSide()
  }
}

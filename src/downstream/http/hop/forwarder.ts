/**
 * Sends requests to the gateway that owns what they are about, and pipes its answers back. Both directions wait for who reads
 * slowly, and a client that leaves closes the request at the owner.
 *
 * Invariant: a request goes over one hop. It carries the decision of this gateway (`envelope.ts`) and never the credential
 * of the client. Whether it may be sent elsewhere once it was sent is for its sender to decide: the owner may have acted on it.
 */
import type { IncomingHttpHeaders, IncomingMessage, ServerResponse } from 'node:http'
import { type Dispatcher, Pool } from 'undici'
import type { Log } from '../../../core/log.ts'
import { excerpt } from '../../../core/text/redact.ts'
import { type Timer, world } from '../../../core/world.ts'
import type { SessionOwner, SessionOwners } from '../../../records/client-sessions.ts'
import { endLater } from '../ending.ts'
import type { Network } from '../network.ts'
import { credentialHeaders, type Decision, type Envelopes, FORWARDED } from './envelope.ts'
import { type Forwarding, HopRequest, type LineReceiver, LineStream, outcomeOf } from './request.ts'

/** A request of a client, with its body if it has one. */
export interface ForwardedRequest {
  readonly incoming: IncomingMessage
  readonly outgoing: ServerResponse
  readonly decision: Decision
  readonly body?: string | undefined
  /** Where it is sent; by default its own path. A query is not sent: it can hold what is only for this gateway. */
  readonly path?: string
}

/** A request of this gateway itself. */
export interface OwnRequest {
  readonly decision: Decision
  readonly path: string
  readonly body: string
  /** It stays open for long. */
  readonly isLasting: boolean
}

interface Options {
  readonly fleet: Pick<SessionOwners, 'find'>
  readonly envelopes: Pick<Envelopes, 'close'>
  readonly network: Pick<Network, 'connector'>
  readonly log: Log
  /** Counts what became of requests. */
  onForwarded?(outcome: Forwarding): void
}

/** How often it is checked that a receiver of open requests is alive, in milliseconds. */
const CHECK_INTERVAL_MS = 2000
/** When the connections to a gateway that is not used are closed, in milliseconds. */
const IDLE_MS = 600_000
/** How long an idle connection is kept; less than the receiver does, which would close it while a request is on its way. */
const KEEP_ALIVE_MS = 30_000
const CONNECT_TIMEOUT_MS = 2000

/** The requests of this gateway to others. */
export class Forwarder {
  readonly #options: Options
  readonly #links = new Map<string, Link>()

  constructor(options: Options) {
    this.#options = options
  }

  /** Forwards a request to a gateway. Never rejects. */
  async forward(to: SessionOwner, request: ForwardedRequest): Promise<Forwarding> {
    const outcome = await this.#forward(to, request)
    this.#options.onForwarded?.(outcome)
    return outcome
  }

  /** Sends a request of this gateway itself; the returned function gives it up. Never throws. */
  ask(to: SessionOwner, request: OwnRequest, receiver: LineReceiver): () => void {
    const { decision, path, body, isLasting } = request
    let isOver = (): void => undefined
    const stream = new LineStream({
      line: (text) => receiver.line(text),
      ended: (how) => {
        isOver()
        if (!isLasting) this.#options.onForwarded?.(how)
        receiver.ended(how)
      },
    })
    const envelope = this.#options.envelopes.close(decision, to.id)
    const link = this.#linkTo(to)
    if (envelope === undefined || !link) stream.end('unreached')
    else {
      isOver = link.open(stream)
      const headers = { [FORWARDED]: envelope, 'content-type': 'application/x-ndjson' }
      link.poolOf(isLasting ? 'GET' : 'POST').dispatch({ path, method: 'POST', headers, body }, stream)
    }
    return () => stream.abandon()
  }

  async close(): Promise<void> {
    await Promise.all([...this.#links.values()].map((link) => link.close()))
    this.#links.clear()
  }

  async #forward(
    to: SessionOwner,
    { incoming, outgoing, decision, body, path: given }: ForwardedRequest,
  ): Promise<Forwarding> {
    const { envelopes, log } = this.#options
    const envelope = envelopes.close(decision, to.id)
    const link = this.#linkTo(to)
    if (envelope === undefined || !link) return 'unreached'
    if (outgoing.destroyed) return 'answered'
    const { method = 'POST', url = '/' } = incoming
    const path = given ?? url.split('?', 1)[0] ?? '/'
    const onFailed = (error: Error): void =>
      log.debug('forward.failed', { member: to.id, error: excerpt(String(error)) })
    return new Promise((resolve) => {
      const answer = new Answer(outgoing, onFailed, (outcome) => {
        isOver()
        resolve(outcome)
      })
      const isOver = link.open(answer)
      const sent: Dispatcher.DispatchOptions = {
        path,
        method,
        headers: forwardedHeaders(incoming.headers, envelope),
        body: body ?? null,
      }
      link.poolOf(method).dispatch(sent, answer)
    })
  }

  /** The connections to a gateway; undefined if it has no address. */
  #linkTo({ id, address }: SessionOwner): Link | undefined {
    const known = this.#links.get(id)
    if (known?.address === address) return known
    if (known) this.#drop(id, known)
    const way = address === undefined ? undefined : wayTo(address)
    if (!way || address === undefined) return undefined
    for (const [other, link] of this.#links) if (link.isIdle) this.#drop(other, link)
    const isAlive = async (): Promise<boolean> => {
      // A store that cannot be asked says nothing about the receiver.
      const isThere = await this.#options.fleet.find(id).then(Boolean, () => true)
      if (!isThere) this.#drop(id, link)
      return isThere
    }
    const { network } = this.#options
    const link = new Link(address, { ...way, network }, isAlive)
    this.#links.set(id, link)
    return link
  }

  #drop(id: string, link: Link): void {
    if (this.#links.get(id) === link) this.#links.delete(id)
    void link.close()
  }
}

/** The response to a client, which another gateway gives. */
class Answer extends HopRequest {
  readonly #outgoing: ServerResponse
  readonly #onFailed: (error: Error) => void
  readonly #end: (outcome: Forwarding) => void
  /** What the receiver says to this gateway, instead of a response. */
  #refusal: Forwarding | undefined
  #length: number | undefined
  /** The whole body, if it came at once. */
  #whole: Buffer | undefined
  readonly #onClose = (): void => {
    if (this.#isLeft) this.abandon()
  }

  constructor(
    outgoing: ServerResponse,
    onFailed: (error: Error) => void,
    onEnd: (outcome: Forwarding) => void,
  ) {
    super()
    this.#outgoing = outgoing
    this.#onFailed = onFailed
    this.#end = onEnd
    outgoing.once('close', this.#onClose)
  }

  /** Whether the client did not wait for it. */
  get #isLeft(): boolean {
    return this.#outgoing.destroyed && !this.#outgoing.writableFinished
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    const own = headers[FORWARDED]
    if (own !== undefined) {
      this.#refusal = own === 'moved' ? 'moved' : 'unreached'
      return
    }
    for (const name of ofConnection) delete headers[name]
    this.#length = Number(headers['content-length'])
    this.#outgoing.writeHead(status, headers)
    // What the first event is may not be known for long.
    if (headers['content-type'] === 'text/event-stream') this.#outgoing.flushHeaders()
  }

  onResponseData(controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#refusal) return
    if (chunk.length === this.#length) this.#whole = chunk
    else if (!this.#outgoing.write(chunk)) {
      controller.pause()
      this.#outgoing.once('drain', () => controller.resume())
    }
  }

  onResponseEnd(): void {
    if (this.#whole) endLater(this.#outgoing, this.#whole)
    else if (!this.#refusal) this.#outgoing.end()
    this.#finish(this.#refusal ?? 'answered')
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    if (this.#isLeft) return this.#finish('answered')
    this.#onFailed(error)
    if (!this.#outgoing.headersSent) return this.#finish(outcomeOf(error))
    this.#outgoing.destroy()
    this.#finish('answered')
  }

  #finish(outcome: Forwarding): void {
    this.#outgoing.off('close', this.#onClose)
    this.#end(outcome)
  }
}

/** The connections to one gateway. */
class Link {
  readonly address: string
  readonly #isAlive: () => Promise<boolean>
  readonly #open = new Set<HopRequest>()
  /** Streams have connections of their own: a pool looks through all of its connections for a free one. */
  readonly #streams: Pool
  readonly #calls: Pool
  #timer: Timer | undefined
  #usedAt = world.monotonic()

  constructor(
    address: string,
    { origin, socketPath, network }: Way & Pick<Options, 'network'>,
    isAlive: () => Promise<boolean>,
  ) {
    this.address = address
    this.#isAlive = isAlive
    const options: Pool.Options = {
      connect: network.connector({
        timeout: CONNECT_TIMEOUT_MS,
        ...(socketPath !== undefined && { socketPath }),
      }),
      keepAliveTimeout: KEEP_ALIVE_MS,
      keepAliveMaxTimeout: KEEP_ALIVE_MS,
      // The owner has the timeouts of calls; whether it lives is checked.
      headersTimeout: 0,
      bodyTimeout: 0,
    }
    this.#streams = new Pool(origin, options)
    this.#calls = new Pool(origin, options)
  }

  get isIdle(): boolean {
    return this.#open.size === 0 && world.monotonic() - this.#usedAt > IDLE_MS
  }

  poolOf(method: string): Pool {
    return method === 'GET' ? this.#streams : this.#calls
  }

  /** Abandons a request once the gateway is not alive any more, until the returned function is called. */
  open(answer: HopRequest): () => void {
    this.#open.add(answer)
    this.#usedAt = world.monotonic()
    this.#timer ??= world.setInterval(() => void this.#check(), CHECK_INTERVAL_MS).unref()
    return () => void this.#open.delete(answer)
  }

  async close(): Promise<void> {
    world.clearInterval(this.#timer)
    for (const answer of this.#open) answer.abandon()
    await Promise.allSettled([this.#streams.destroy(), this.#calls.destroy()])
  }

  async #check(): Promise<void> {
    if (this.#open.size === 0) {
      world.clearInterval(this.#timer)
      this.#timer = undefined
    } else await this.#isAlive()
  }
}

/** Where a gateway is. */
interface Way {
  readonly origin: string
  readonly socketPath?: string
}

/** Reads `unix:/path` or `http://host:port`; undefined for anything else. */
function wayTo(address: string): Way | undefined {
  if (address.startsWith(UNIX)) return { origin: 'http://gatehouse', socketPath: address.slice(UNIX.length) }
  if (!/^https?:/.test(address) || !URL.canParse(address)) return undefined
  return { origin: new URL(address).origin }
}

/** How the address of a Unix socket begins. */
export const UNIX = 'unix:'

/** The headers of one connection (RFC 9110 §7.6.1), and those that the receiver makes itself. */
const ofConnection = ['connection', 'keep-alive', 'te', 'trailer', 'transfer-encoding', 'upgrade', 'date']
const notForwarded = new Set<string>([
  ...ofConnection,
  ...credentialHeaders,
  FORWARDED,
  'content-length',
  'content-encoding',
  'expect',
])

function forwardedHeaders(
  headers: IncomingHttpHeaders,
  envelope: string,
): Record<string, string | string[] | undefined> {
  const forwarded: Record<string, string | string[] | undefined> = { [FORWARDED]: envelope }
  for (const name in headers) if (!notForwarded.has(name)) forwarded[name] = headers[name]
  return forwarded
}

/**
 * Finds out the era of a server that is started, with the process that then serves the first connection. It is probed by
 * `server/discover`; if it does not answer soon, it gets `initialize` too: it may be starting, or may ignore unknown
 * methods. A process handles messages in order, so both are answered once it has started.
 *
 *   start ── discover ──▶ answered as 2026-07-28 ─────────────▶ modern
 *                     ──▶ refused ── initialize ──▶ answered ─▶ legacy
 *                     ──▶ silent ─── initialize ──▶ answered ─▶ legacy, or modern if discover is answered too
 *                     ──▶ it ends, or refuses initialize ─────▶ another process, which is not probed
 *
 * A server whose revision is configured is not probed: an older one gets `initialize`, and a modern one its first request.
 *
 * Invariant: each process has the whole start timeout, and there is a second one only where the probe spoiled the first.
 * If the second one works, the store remembers that, so that the next start needs one process again.
 */
import { world } from '../core/world.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import { background, type Log } from '../core/log.ts'
import type { Payload } from '../core/payload.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { excerpt } from '../core/text/redact.ts'
import { pause } from '../core/time/waiting.ts'
import { encodeNotification, encodeRequest, encodeResult } from '../protocol/jsonrpc.ts'
import { JsonRpcPeer, type OutgoingRequest } from '../protocol/json-rpc-peer.ts'
import { findRevision, latestLegacy, type Revision } from '../core/revisions.ts'
import { discover, type Route, withLegacyRoute } from './negotiate.ts'
import type { ProbeNotes } from './probe-notes.ts'
import { initialize } from './protocol/legacy.ts'
import type {
  OpenTransport,
  StepTimeout,
  TransportReceiver,
  UpstreamTransport,
} from './transport/transport.ts'

/** How long a process may leave the probe unanswered before it gets a handshake too, in milliseconds. */
const SILENCE_TIMEOUT_MS = 3000
/** How much later than the response to a later message a response may arrive, in milliseconds. */
const REORDER_MS = 250

interface StdioOptions {
  readonly connect: OpenTransport
  readonly notes: ProbeNotes
  /** Another server may be in the place of the command, which is not started then if the revision is configured. */
  readonly isIntercepted?: boolean
  /** Starts the timeout of one process. */
  readonly stepTimeout: StepTimeout
  readonly log: Log
}

/** Starts a process, unless so many of them failed that starts are paused. */
type Counted = <Value>(start: () => Promise<Value>) => Promise<Value>

/** A process that printed text in place of messages, while it may still be starting. */
interface SlowStart {
  readonly error: GatewayError
  /** Set once it has answered. */
  route: Route | undefined
}

/** Finds out the era of one server. */
export class StdioNegotiator {
  readonly #settings: UpstreamSettings
  readonly #options: StdioOptions
  #slow: SlowStart | undefined
  /** Set after an attempt without any answer: the probe may be the reason, so the next one does without. */
  #wasSilent = false

  constructor(settings: UpstreamSettings, options: StdioOptions) {
    this.#settings = settings
    this.#options = options
  }

  /** The route to the server; `handshake` are the parameters of `initialize`, of the configured revision if it is older. @throws SERVER_UNAVAILABLE, UPSTREAM_ERROR */
  async negotiate(handshake: Payload, counted: Counted): Promise<Route> {
    const pinned = this.#pinned
    if (pinned && (pinned.era === 'modern' || this.#options.isIntercepted === true))
      return this.#route(pinned, this.#options.connect)
    const slow = this.#slow
    if (!slow) return counted(() => this.#start(handshake))
    if (!slow.route) throw slow.error
    this.#slow = undefined
    return slow.route
  }

  get #pinned(): Revision | undefined {
    return findRevision(this.#settings.revision)
  }

  /** Fails as soon as a process prints text in place of messages; its answer may yet come, for the next negotiation. */
  #start(handshake: Payload): Promise<Route> {
    const verdict = Promise.withResolvers<never>()
    const found = this.#find(handshake, (error) => {
      const slow: SlowStart = { error, route: undefined }
      this.#slow = slow
      const ended = (): void => {
        if (this.#slow === slow) this.#slow = undefined
      }
      found.then((route) => {
        slow.route = route
      }, ended)
      verdict.reject(error)
    })
    return Promise.race([found, verdict.promise])
  }

  async #find(handshake: Payload, onVerdict: (error: GatewayError) => void): Promise<Route> {
    const { notes, stepTimeout, log } = this.#options
    const pinned = this.#pinned
    const isKnown = !pinned && (await notes.isSpoiled())
    const isProbed = !pinned && !isKnown && !this.#wasSilent
    const found = isProbed ? await this.#probe(handshake, onVerdict) : undefined
    if (found) return found
    const process = await FirstProcess.start(this.#options, onVerdict)
    try {
      await process.initialize(handshake, stepTimeout())
    } catch (error) {
      background(process.stop(), log)
      this.#wasSilent = false
      // A server that refuses the handshake may have learnt the probe.
      if (isKnown && isRefused(error)) await notes.forget()
      throw error
    }
    // After silence, the probe is the likely reason that the process before did not answer.
    if (!pinned && !isKnown) await notes.remember(this.#wasSilent)
    this.#wasSilent = false
    return this.#route(pinned ?? latestLegacy, this.#handingOver(process))
  }

  /** Probes a process; undefined if that spoiled it. */
  async #probe(handshake: Payload, onVerdict: (error: GatewayError) => void): Promise<Route | undefined> {
    const deadline = this.#options.stepTimeout()
    const process = await FirstProcess.start(this.#options, onVerdict)
    try {
      const revision = await revisionOf(process, handshake, deadline)
      const connect = this.#handingOver(process)
      if (revision === undefined) return this.#route(latestLegacy, connect)
      const newest = this.#route({ era: 'modern', name: revision }, connect)
      // A process speaks one revision at a time, so the legacy era needs a process of its own.
      return withLegacyRoute(this.#settings, newest, this.#route(latestLegacy, this.#options.connect))
    } catch (error) {
      const stopped = process.stop()
      if (deadline.aborted) {
        this.#wasSilent = isTimeout(deadline)
        throw isTimeout(deadline) ? unanswered(process.printed, error) : error
      }
      if (process.isMute || !(isClosed(error) || isRefused(error))) throw error
      this.#options.log.info('upstream.probe_spoiled', { reason: excerpt(asGatewayError(error).message) })
      // The next process may need resources of this one.
      await stopped
      return undefined
    }
  }

  #route(
    { era, name }: { readonly era: Route['era']; readonly name: string },
    connect: OpenTransport,
  ): Route {
    return { era, revision: name, mirrors: false, connect }
  }

  #handingOver(process: FirstProcess): OpenTransport {
    process.keepUntil(this.#options.stepTimeout())
    return (receiver) => process.handOver(receiver) ?? this.#options.connect(receiver)
  }
}

/** The modern revision that a process speaks; undefined if it has answered a handshake. @throws what spoiled it */
async function revisionOf(
  process: FirstProcess,
  handshake: Payload,
  deadline: AbortSignal,
): Promise<string | undefined> {
  const discovered = process.discover(deadline)
  const isSilent = await Promise.race([
    discovered.then(() => false),
    pause(SILENCE_TIMEOUT_MS).then(() => true),
  ])
  const greet = (): Promise<undefined> => process.initialize(handshake, deadline).then(() => undefined)
  if (!isSilent) return (await discovered) ?? greet()
  const greeted = greet()
  const greetedLater = async (): Promise<undefined> => {
    await greeted.catch((error: unknown) => (isRefused(error) ? undefined : Promise.reject(error)))
    await pause(REORDER_MS)
    return greeted
  }
  return Promise.race([discovered.then((revision) => revision ?? greeted), greetedLater()])
}

function unanswered(printed: string, cause: unknown): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', `The server did not respond in time.${printed}`, { cause })
}

function isTimeout({ reason }: AbortSignal): boolean {
  return reason instanceof DOMException && reason.name === 'TimeoutError'
}

function isClosed(error: unknown): boolean {
  return asGatewayError(error).code === 'OUTCOME_UNKNOWN'
}

function isRefused(error: unknown): boolean {
  const { code, extra } = asGatewayError(error)
  return extra.relayed !== undefined || code === 'UPSTREAM_ERROR'
}

// The process that is asked for its era, and then serves the first connection.

/** The ids of what it is asked follow this one, so that a late answer is not taken for one to its connection. */
const FIRST_ID = 1_000_000_000
/** The number of other messages that are kept for the connection. */
const MAX_HELD = 100

interface Answered {
  readonly params: Payload
  readonly result: Payload
  /** How long it took. */
  readonly seconds: number
}

/** One process, up to its first connection. */
class FirstProcess {
  readonly #connect: OpenTransport
  readonly #peer: JsonRpcPeer
  readonly #held: string[] = []
  readonly #log: Log
  /** The receiver of the connection that took it over. */
  #next: TransportReceiver | undefined
  #transport: UpstreamTransport | undefined
  #handshake: Answered | undefined
  #isClosed = false
  #isMute = false

  private constructor({ connect, log }: Pick<StdioOptions, 'connect' | 'log'>) {
    this.#connect = connect
    this.#log = log
    const hold = (text: string): void => {
      if (this.#held.length < MAX_HELD) this.#held.push(text)
    }
    this.#peer = new JsonRpcPeer(
      { send: (message, exchange) => this.#transport?.send(message, exchange) },
      {
        request: ({ id, method, params }) => hold(encodeRequest(id, method, params)),
        notification: ({ method, params }) => hold(encodeNotification(method, params)),
        noise: (text) => log.debug('upstream.noise', { text: excerpt(text) }),
      },
      FIRST_ID,
    )
  }

  /** Starts the command. @throws SERVER_UNAVAILABLE */
  static async start(
    options: Pick<StdioOptions, 'connect' | 'log'>,
    onVerdict: (error: GatewayError) => void,
  ): Promise<FirstProcess> {
    const process = new FirstProcess(options)
    const to = () => process.#next ?? process.#peer
    process.#transport = await options.connect({
      receive: (text, about) => to().receive(text, about),
      spool: (about) => to().spool(about),
      isWaiting: (id) => to().isWaiting(id),
      reject: (id, error) => to().reject(id, error),
      closed: (error) => {
        process.#isClosed = true
        process.#peer.fail(new GatewayError('OUTCOME_UNKNOWN', error.message, { cause: error }))
        process.#next?.closed(error)
      },
      sessionLost: () => undefined,
      speaksNoJson: (error) => {
        process.#isMute = true
        onVerdict(error)
      },
    })
    return process
  }

  /** Whether it printed text in place of messages. */
  get isMute(): boolean {
    return this.#isMute
  }

  get printed(): string {
    return this.#transport?.printed ?? ''
  }

  /** The modern revision that it speaks; undefined if it answers anything else. */
  async discover(signal: AbortSignal): Promise<string | undefined> {
    try {
      return await discover(this.#peer, signal)
    } catch (error) {
      if (asGatewayError(error).code === 'UPSTREAM_ERROR') return undefined
      throw error
    }
  }

  async initialize(params: Payload, signal: AbortSignal): Promise<void> {
    const start = world.monotonic()
    const result = await initialize(this.#peer, params, signal, () => this.printed)
    this.#handshake = { params, result, seconds: (world.monotonic() - start) / 1000 }
  }

  /** Stops it unless a connection takes it over before the signal is aborted. */
  keepUntil(signal: AbortSignal): void {
    const stop = (): void => {
      if (!this.#next) background(this.stop(), this.#log)
    }
    signal.addEventListener('abort', stop, { once: true })
  }

  async stop(): Promise<void> {
    this.#isClosed = true
    await this.#transport?.close()
  }

  /** Its transport for a connection, which need not know of what was asked; undefined if it is gone or in use. */
  handOver(receiver: TransportReceiver): Promise<UpstreamTransport> | undefined {
    const transport = this.#transport
    if (!transport || this.#isClosed || this.#next) return undefined
    this.#next = receiver
    return Promise.resolve(
      new HandedOver({ transport, receiver, handshake: this.#handshake, held: this.#held }, () => {
        // The end of the process is not that of the connection, which gets another one.
        this.#next = deaf
        return this.#connect(receiver)
      }),
    )
  }
}

const deaf: TransportReceiver = {
  receive: () => undefined,
  spool: () => undefined,
  isWaiting: () => false,
  reject: () => undefined,
  closed: () => undefined,
  sessionLost: () => undefined,
}

interface Inheritance {
  readonly transport: UpstreamTransport
  readonly receiver: TransportReceiver
  readonly handshake: Answered | undefined
  readonly held: readonly string[]
}

/** The transport of a process that may have answered `initialize`: a connection that sends the same gets that answer. */
class HandedOver implements UpstreamTransport {
  readonly hasProvenance = false
  readonly #inheritance: Inheritance
  readonly #replace: () => Promise<UpstreamTransport>
  #transport: UpstreamTransport
  #isFirst = true

  constructor(inheritance: Inheritance, replace: () => Promise<UpstreamTransport>) {
    this.#inheritance = inheritance
    this.#replace = replace
    this.#transport = inheritance.transport
  }

  get printed(): string {
    return this.#transport.printed ?? ''
  }

  get pid(): number | undefined {
    return this.#transport.pid
  }

  get handshakeSeconds(): number | undefined {
    return this.#transport === this.#inheritance.transport ? this.#inheritance.handshake?.seconds : undefined
  }

  send(message: string, exchange: OutgoingRequest): Promise<void> | undefined {
    if (!this.#isFirst) return this.#transport.send(message, exchange)
    this.#isFirst = false
    return this.#begin(message, exchange)
  }

  close(): Promise<void> {
    return this.#transport.close()
  }

  async #begin(message: string, exchange: OutgoingRequest): Promise<void> {
    const { handshake, receiver, held } = this.#inheritance
    const id = `${exchange.id}`
    if (!handshake || exchange.method !== 'initialize') {
      await this.#transport.send(message, exchange)
    } else if (message === encodeRequest(id, 'initialize', handshake.params)) {
      receiver.receive(encodeResult(id, handshake.result))
    } else {
      // It was greeted in the name of another client.
      const { transport } = this.#inheritance
      this.#transport = await this.#replace()
      await transport.close()
      return this.#transport.send(message, exchange)
    }
    for (const text of held) receiver.receive(text)
  }
}

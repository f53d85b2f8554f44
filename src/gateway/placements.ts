/**
 * Where the servers with `placement: one` run. A lease in the store says which process has a server; whoever needs it and finds
 * it free takes it, and the others send their calls to the holder over the hop (`downstream/http/hop/`).
 *
 *   unknown -- the lease is free --> here -- the lease is lost, or this process leaves --> unknown
 *           -- another one has it --> there -- its stream ends: it let go, ended, or is cut off --> unknown
 *
 * Invariant: the server's processes of a holder have ended before another one can start some. One that loses its lease kills
 * them in the part of the TTL that it leaves unused; one that leaves waits for their end and then releases the lease. A process
 * that is stopped cannot do that, so its server may run beside the next one, without calls, until it continues or ends.
 */
import { hash } from 'node:crypto'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { GatewayError } from '../core/error.ts'
import { newRequestId } from '../core/identity.ts'
import { canonical, isObject, readJson } from '../core/json/json.ts'
import { background, type Log } from '../core/log.ts'
import { anonymous } from '../core/principal.ts'
import type { Seal } from '../core/seal.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { MAX_MESSAGE_BYTES } from '../core/spool.ts'
import { excerpt } from '../core/text/redact.ts'
import { type AttemptResult, type Backoff, retry } from '../core/time/backoff.ts'
import { pause, untilAborted } from '../core/time/waiting.ts'
import { world } from '../core/world.ts'
import { createEnvelopes, type Decision } from '../downstream/http/hop/envelope.ts'
import { Forwarder } from '../downstream/http/hop/forwarder.ts'
import { refuseMoved } from '../downstream/http/hop/listener.ts'
import type { Forwarding } from '../downstream/http/hop/request.ts'
import type { Network } from '../downstream/http/network.ts'
import { type Lease, Leases } from '../durable/lease.ts'
import type { Fleet, Member } from '../durable/members.ts'
import type { Store } from '../store/store.ts'
import type {
  LineReceiver,
  Place,
  PlacedServer,
  Placement,
  SentMessage,
  There,
} from '../upstream/placement/placement.ts'
import { answerRelayed } from '../upstream/placement/serving.ts'

interface Options {
  /** The present store. */
  store(): Store
  readonly fleet: Pick<Fleet, 'id' | 'find' | 'hasEnded'>
  /** Reaches the other processes. */
  readonly forwarder: Pick<Forwarder, 'ask' | 'close'>
  readonly log: Log
}

/** The placed servers of a gateway. `seal` seals with the key that the processes share. */
export function createPlacements(
  {
    seal,
    network,
    ...options
  }: Omit<Options, 'forwarder'> & { readonly seal: Seal; readonly network: Network },
  metrics: { forwarded(outcome: Forwarding): void },
): Placements {
  const { fleet, log } = options
  const onForwarded = (outcome: Forwarding): void => metrics.forwarded(outcome)
  // It opens no envelopes: the private listener does, if there is one.
  const envelopes = createEnvelopes(seal, fleet.id)
  const forwarder = new Forwarder({ fleet, envelopes, network, onForwarded, log })
  return new Placements({ ...options, forwarder })
}

/** The path of requests about placed servers at the private listener; what they are says their envelope. */
const PLACED_PATH = '/placed'

/** How long a holder keeps a server without a renewal, in milliseconds. */
const LEASE_TTL_MS = 10_000
/** How long the store, and a holder that is asked for the first time, may take to answer, in milliseconds. */
const ANSWER_TIMEOUT_MS = 5000
/** How long calls in progress keep a server in a process that leaves, in milliseconds. */
const HANDOVER_TIMEOUT_MS = 10_000
const POLL_INTERVAL_MS = 50
/** The delays before it is found out again where a server runs that ran here or there. */
const FOLLOW_DELAYS: Backoff = { firstMs: 250, maxMs: 5000, jitter: 0.5 }
/** How much of an answer may wait for a process that does not read it, in bytes. */
const MAX_UNREAD_BYTES = 2 * MAX_MESSAGE_BYTES

/** The placed servers of one gateway. They outlast a reload. */
export class Placements {
  readonly #options: Options
  readonly #servers = new Map<string, ServerPlacement>()

  constructor(options: Options) {
    this.#options = options
  }

  /** The placement of a server; undefined if it runs wherever it is configured. */
  of(settings: UpstreamSettings): Placement | undefined {
    const { name, reach, isPlacedOnce } = settings
    if (isPlacedOnce !== true || reach.kind !== 'command') return undefined
    // Another server under the same name is placed by itself.
    const id = hash('sha256', canonical([name, reach.command, reach.args, reach.cwd ?? null]), 'base64url')
    const known = this.#servers.get(id)
    if (known) return known
    const made = new ServerPlacement({ id, name }, this.#options)
    this.#servers.set(id, made)
    return made
  }

  /** Answers a request of another process. Never throws. */
  serve(incoming: IncomingMessage, outgoing: ServerResponse, decision: Decision): void {
    const answering = readBody(incoming).then((body) => {
      const [head, text] = splitOnce(body)
      const about = readJson(head)
      const server = isObject(about) ? this.#servers.get(String(about.server)) : undefined
      return server?.answer({ kind: isObject(about) ? about.kind : undefined, text }, outgoing, decision)
    })
    answering.then(
      (isAnswered) => {
        if (isAnswered !== true && !outgoing.headersSent) refuseMoved(outgoing)
      },
      (error: unknown) => {
        this.#options.log.debug('forward.failed', { error: excerpt(String(error)) })
        outgoing.destroy()
      },
    )
  }

  /** Hands all servers over to other processes. Resolves once none runs here. */
  async leave(): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.leave()))
  }

  /** The store was replaced: what was known of the other one does not hold any more. */
  forget(): void {
    for (const server of this.#servers.values()) server.forget()
  }

  async close(): Promise<void> {
    await Promise.all([...this.#servers.values()].map((server) => server.close()))
    await this.#options.forwarder.close()
  }
}

interface Named {
  /** Identifies it among the servers of all processes. */
  readonly id: string
  readonly name: string
}

/** A request of another process about a server. */
interface Asked {
  readonly kind: unknown
  readonly text: string
}

/** Where one server runs. */
class ServerPlacement implements Placement {
  readonly #named: Named
  readonly #options: Options
  /** Those that run it here, the present one last: after a reload, an earlier one may still have calls. */
  readonly #runners: PlacedServer[] = []
  /** The answers to other processes that are not complete. */
  readonly #open = new Set<ServerResponse>()
  readonly #closed = new AbortController()
  /** Where the server is: the lease if it is here, or the other process. */
  #lease: Lease | undefined
  #there: OtherProcess | undefined
  #here: Place = { kind: 'here' }
  #finding: Promise<Place> | undefined
  #isLeaving = false

  constructor(named: Named, options: Options) {
    this.#named = named
    this.#options = options
  }

  get current(): Place | undefined {
    if (!this.#lease) return this.#there
    // By the clock: a process that was stopped finds out before its timers do.
    return this.#lease.isHeld && !this.#isLeaving ? this.#here : undefined
  }

  find(): Promise<Place> {
    const { current } = this
    if (current) return Promise.resolve(current)
    this.#finding ??= this.#find().finally(() => {
      this.#finding = undefined
    })
    return this.#finding
  }

  serve(runner: PlacedServer): () => Promise<void> {
    this.#runners.push(runner)
    return async () => {
      this.#runners.splice(this.#runners.indexOf(runner), 1)
      if (this.#runners.length === 0) await this.#release()
    }
  }

  /** Answers a request of another process. Resolves with false if the server is not here. */
  async answer({ kind, text }: Asked, outgoing: ServerResponse, { principal }: Decision): Promise<boolean> {
    // The other process may know from the store that this one has the server, before this one knows it.
    if (!this.current) await this.#finding?.catch(() => undefined)
    const runner = this.#runners.at(-1)
    if (!runner || this.current?.kind !== 'here' || outgoing.destroyed) return false
    const controller = new AbortController()
    const stop = (): void =>
      controller.abort(new GatewayError('CANCELLED', 'The other process does not wait for it any more.'))
    outgoing.once('close', stop)
    const send = (line: string): void => {
      if (outgoing.destroyed) return
      if (!outgoing.headersSent) outgoing.writeHead(200, { 'content-type': 'application/x-ndjson' })
      outgoing.write(`${line}\n`)
      if (outgoing.writableLength > MAX_UNREAD_BYTES) outgoing.destroy()
    }
    this.#open.add(outgoing)
    try {
      switch (kind) {
        case 'attach':
          send(CHANGED)
          runner.onChanged(() => send(CHANGED), controller.signal)
          await untilAborted(new Promise<never>(() => undefined), controller.signal).catch(() => undefined)
          return true
        case 'restart':
          await runner.restart()
          send(CHANGED)
          return true
        case 'call':
          return await answerRelayed(runner, {
            principal,
            upstream: this.#named.name,
            text,
            controller,
            send,
          })
        default:
          return false
      }
    } finally {
      outgoing.off('close', stop)
      this.#open.delete(outgoing)
      if (outgoing.headersSent) outgoing.end()
    }
  }

  /** Lets another process have the server, once the calls in progress have ended, or took too long. */
  async leave(): Promise<void> {
    this.#isLeaving = true
    await this.#release(HANDOVER_TIMEOUT_MS)
  }

  forget(): void {
    background(this.#release(), this.#options.log)
  }

  async close(): Promise<void> {
    this.#isLeaving = true
    this.#closed.abort()
    await this.#release()
  }

  async #find(): Promise<Place> {
    try {
      const limit = world.timeoutSignal(ANSWER_TIMEOUT_MS)
      return await untilAborted(this.#ask(limit), limit)
    } catch (error) {
      if (error instanceof GatewayError && error.extra.isUnsent === true) throw error
      this.#options.log.debug('placement.unknown', {
        upstream: this.#named.name,
        error: excerpt(String(error)),
      })
      throw unknownPlace(error)
    }
  }

  /** Claims the server, or reaches who has it. `limit` is aborted when that is not awaited any more. */
  async #ask(limit: AbortSignal): Promise<Place> {
    const { store, fleet } = this.#options
    const leases = new Leases(store(), fleet)
    const mayClaim = !this.#isLeaving && this.#runners.length > 0
    const claimed = mayClaim ? await leases.claim(this.#leaseName, LEASE_TTL_MS) : undefined
    if (claimed?.lease) return this.#hold(claimed.lease, limit)
    // If another claim was faster, whose it is has to be read.
    const holder = claimed?.holder ?? (await leases.holder(this.#leaseName))
    // It may be this process, which has just let go.
    const member = holder === undefined || holder === fleet.id ? undefined : await fleet.find(holder)
    if (member?.address === undefined) throw unreachable()
    return this.#attach(member, limit)
  }

  async #hold(lease: Lease, limit: AbortSignal): Promise<Place> {
    if (limit.aborted || this.#isLeaving) {
      await lease.release()
      throw unreachable()
    }
    const { log } = this.#options
    this.#lease = lease
    this.#here = { kind: 'here' }
    log.info('placement.here', { upstream: this.#named.name, lease: lease.token })
    lease.lost.addEventListener('abort', () => this.#lose(lease), { once: true })
    if (!lease.isHeld) throw unreachable()
    return this.#here
  }

  /** The lease is lost: nothing of the server may run when another process gets it. */
  #lose(lease: Lease): void {
    // Released by this process, whose server has ended.
    if (this.#lease !== lease) return
    const { log } = this.#options
    this.#lease = undefined
    log.warn('placement.lost', { upstream: this.#named.name })
    this.#cut()
    const leaving = Promise.all(this.#runners.map((runner) => runner.leave(true)))
    background(
      leaving.then(() => lease.release()).then(() => this.#follow()),
      log,
    )
  }

  /** Ends the server here, or lets go of where it is. */
  async #release(patienceMs = 0): Promise<void> {
    const lease = this.#lease
    this.#there?.end()
    if (!lease) return
    const wasLeaving = this.#isLeaving
    // Nothing begins any more.
    this.#isLeaving = true
    const until = world.monotonic() + patienceMs
    while (lease.isHeld && this.#runners.some(({ inFlight }) => inFlight > 0) && world.monotonic() < until)
      await pause(POLL_INTERVAL_MS)
    await Promise.all(this.#runners.map((runner) => runner.leave(false)))
    this.#cut()
    this.#lease = undefined
    await lease.release()
    this.#options.log.info('placement.left', { upstream: this.#named.name })
    this.#isLeaving = wasLeaving
    background(this.#follow(), this.#options.log)
  }

  /** Closes what other processes have open here; they find out where the server is. */
  #cut(): void {
    for (const outgoing of this.#open) outgoing.destroy()
  }

  async #attach(member: Member, limit: AbortSignal): Promise<Place> {
    const { forwarder, log } = this.#options
    const there = new OtherProcess(member, this.#named, forwarder)
    await there.attach(limit)
    this.#there = there
    log.info('placement.there', { upstream: this.#named.name, member: member.id })
    there.ended.addEventListener('abort', () => {
      if (this.#there === there) this.#there = undefined
      const leaving = Promise.all(this.#runners.map((runner) => runner.leave(false)))
      background(
        leaving.then(() => this.#follow()),
        log,
      )
    })
    if (there.ended.aborted) throw unreachable()
    return there
  }

  /** Finds out where the server runs, so that it runs somewhere also without calls. Never throws. */
  async #follow(): Promise<void> {
    const attempt = async (): Promise<AttemptResult> => {
      const runner = this.#runners.at(-1)
      if (!runner || this.current) return 'done'
      return runner.follow().then(
        () => 'done',
        () => (this.current ? 'done' : 'later'),
      )
    }
    await retry(attempt, FOLLOW_DELAYS, this.#closed.signal)
  }

  get #leaseName(): string {
    return `placed-${this.#named.id}`
  }
}

/** What a process says of a server that it has: its tools may be other ones than before. */
const CHANGED = '{"kind":"changed"}'

/** Another process that has a server. */
class OtherProcess implements There {
  readonly kind = 'there'
  readonly process: string
  readonly #member: Member
  readonly #named: Named
  readonly #forwarder: Options['forwarder']
  readonly #ended = new AbortController()
  readonly #listeners = new Set<() => void>()

  constructor(member: Member, named: Named, forwarder: Options['forwarder']) {
    this.process = member.id
    this.#member = member
    this.#named = named
    this.#forwarder = forwarder
  }

  get ended(): AbortSignal {
    return this.#ended.signal
  }

  end(): void {
    this.#ended.abort()
  }

  /** Opens the stream that lasts as long as the server is there. @throws SERVER_UNAVAILABLE if it is not */
  attach(limit: AbortSignal): Promise<void> {
    return new Promise<void>((resolve, reject) => {
      const receiver: LineReceiver = {
        line: () => {
          resolve()
          for (const listener of this.#listeners) listener()
        },
        ended: () => {
          this.end()
          reject(unreachable())
        },
      }
      const giveUp = this.#ask({ kind: 'attach', isLasting: true }, receiver)
      this.ended.addEventListener('abort', giveUp, { once: true })
      limit.addEventListener('abort', () => reject(unreachable()), { once: true })
    }).catch((error: unknown) => {
      this.end()
      throw error
    })
  }

  send(
    { principal, requestId, text, isLasting }: SentMessage,
    receiver: LineReceiver,
    signal: AbortSignal,
  ): void {
    const giveUp = this.#ask(
      { kind: 'call', text, isLasting, principal, requestId },
      {
        line: (line) => receiver.line(line),
        ended: (how) => {
          signal.removeEventListener('abort', giveUp)
          // It answers other calls only if it has the server.
          if (how === 'moved' || how === 'unreached') this.end()
          receiver.ended(how)
        },
      },
    )
    signal.addEventListener('abort', giveUp, { once: true })
  }

  onChanged(listener: () => void, signal: AbortSignal): void {
    if (signal.aborted) return
    this.#listeners.add(listener)
    signal.addEventListener('abort', () => this.#listeners.delete(listener), { once: true })
  }

  restart(): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#ask(
        { kind: 'restart', isLasting: false },
        { line: () => resolve(), ended: (how) => (how === 'answered' ? resolve() : reject(unreachable())) },
      )
    })
  }

  #ask(
    {
      kind,
      text = '',
      isLasting,
      principal = anonymous,
      requestId = newRequestId(),
    }: { kind: string; isLasting: boolean } & Partial<SentMessage>,
    receiver: LineReceiver,
  ): () => void {
    const { id, name } = this.#named
    const decision: Decision = {
      principal,
      token: undefined,
      upstream: name,
      requestId,
      peer: { httpVersion: '1.1', socket: {} },
      isPlaced: true,
    }
    const body = `${JSON.stringify({ kind, server: id })}\n${text}`
    return this.#forwarder.ask(this.#member, { decision, path: PLACED_PATH, body, isLasting }, receiver)
  }
}

/** @throws PAYLOAD_TOO_LARGE */
async function readBody(incoming: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  let size = 0
  for await (const piece of incoming as AsyncIterable<Buffer>) {
    pieces.push(piece)
    size += piece.length
    if (size > MAX_MESSAGE_BYTES)
      throw new GatewayError('PAYLOAD_TOO_LARGE', 'A call of another process is too large.')
  }
  return Buffer.concat(pieces).toString('utf8')
}

function splitOnce(text: string): readonly [string, string] {
  const end = text.indexOf('\n')
  return end === -1 ? [text, ''] : [text.slice(0, end), text.slice(end + 1)]
}

/** Another process has the server, and this one cannot reach it now; or that is not known. */
function unreachable(): GatewayError {
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    'The process of the gateway that runs this server cannot be reached.',
    { isUnsent: true },
  )
}

function unknownPlace(cause: unknown): GatewayError {
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    'The store does not say which process of the gateway runs this server.',
    { isUnsent: true, cause },
  )
}

/**
 * The network of a simulated fleet: connections in memory between clients and gateways, and among gateways. What is written
 * arrives later, in order, as an event of the process that reads it. Where a message is lost, or a process ends, both ends of
 * the connection learn it, each at its own time.
 */
import type { IncomingMessage, Server } from 'node:http'
import type { Socket } from 'node:net'
import { Duplex } from 'node:stream'
import type { Network } from '../../src/downstream/http/network.ts'
import type { Faults } from './faults.ts'
import type { Scheduler, SimulatedProcess } from './scheduler.ts'

/** A process that accepts connections at an address. */
interface Accepting {
  readonly process: SimulatedProcess
  readonly server: Server
}

interface Surroundings {
  readonly scheduler: Scheduler
  readonly faults: Faults
  /** Called for each request that a gateway begins to handle. */
  onRequest(process: SimulatedProcess, request: IncomingMessage): void
}

/** The ports from which on any free one is taken. */
const FIRST_FREE_PORT = 40_000
/** How long it takes at most until a process learns that a connection is broken, in milliseconds. */
const MAX_NOTICE_MS = 5000
const CONNECT_TIMEOUT_MS = 2000

/** All connections of a simulation. */
export class SimulatedNetwork {
  readonly #surroundings: Surroundings
  readonly #accepting = new Map<string, Accepting>()
  readonly #open = new Set<SimulatedSocket>()
  #lastPort = FIRST_FREE_PORT

  constructor(surroundings: Surroundings) {
    this.#surroundings = surroundings
  }

  /** The network as a gateway at a host sees it. */
  of(process: SimulatedProcess, host: string): Network {
    return {
      listen: async (server, { port = 0 }) => {
        const own = port === 0 ? ++this.#lastPort : port
        const address = addressOf(host, own)
        if (this.#accepting.has(address)) throw failure('EADDRINUSE')
        this.#accepting.set(address, { process, server })
        server.once('close', () => {
          if (this.#accepting.get(address)?.server === server) this.#accepting.delete(address)
        })
        server.prependListener('request', (request) => this.#surroundings.onRequest(process, request))
        // From then on it knows its connections.
        server.emit('listening')
        return own
      },
      connector:
        () =>
        ({ hostname, port }, onConnected) => {
          this.connect(process, addressOf(hostname, Number(port)), 'fleet').then(
            // It has what a client of HTTP uses of a socket.
            (socket) => onConnected(null, socket as unknown as Socket),
            (error: Error) => onConnected(error, null),
          )
        },
    }
  }

  /** Whether a process accepts connections at an address. */
  isAccepting(host: string, port: number): boolean {
    return this.#accepting.get(addressOf(host, port))?.process.isAlive === true
  }

  /** Opens a connection; `way` is what the faults may cut. @throws as a socket that is refused, or gets no answer */
  connect(from: SimulatedProcess, address: string, way: string): Promise<SimulatedSocket> {
    const { scheduler, faults } = this.#surroundings
    return new Promise((resolve, reject) => {
      const found = this.#accepting.get(address)
      const isCut = faults.isCut(from, way) || (found && faults.isCut(found.process, way))
      if (isCut === true) {
        const late = (): void => reject(failure('UND_ERR_CONNECT_TIMEOUT'))
        return void scheduler.after(from, CONNECT_TIMEOUT_MS, 'connect late', late)
      }
      scheduler.after(from, faults.latency(), 'connect', () => {
        // The system of a process that stands still accepts connections for it.
        const accepting = this.#accepting.get(address)
        if (!accepting?.process.isAlive) return reject(failure('ECONNREFUSED'))
        resolve(this.#establish(from, accepting, way))
      })
    })
  }

  #establish(from: SimulatedProcess, { process, server }: Accepting, way: string): SimulatedSocket {
    const [near, far] = [from, process].map((owner) => new SimulatedSocket(owner, way, this))
    if (!near || !far) throw new TypeError('a connection has two ends')
    near.peer = far
    far.peer = near
    this.#open.add(near).add(far)
    this.#deliver(far, () => void server.emit('connection', far))
    return near
  }

  /** Takes what one end writes to the other; nothing is the end of the stream. */
  carry(from: SimulatedSocket, chunk: Buffer | undefined): void {
    const { faults } = this.#surroundings
    const { peer, process, way } = from
    if (!process.isAlive || from.isBroken || from.isFinished || !peer) return
    from.isFinished = chunk === undefined
    const isLost = faults.isCut(process, way) || faults.isCut(peer.process, way)
    if (isLost || faults.delay() === undefined) return this.#break(from)
    this.#deliver(peer, () => {
      if (!peer.destroyed && !peer.isBroken) peer.push(chunk ?? null)
    })
  }

  /** An end was closed by its process. */
  closed(socket: SimulatedSocket): void {
    this.#open.delete(socket)
    this.carry(socket, undefined)
  }

  /** A process has ended: the others at its connections learn that, sooner or later. */
  ended(process: SimulatedProcess): void {
    for (const [address, accepting] of this.#accepting) {
      if (accepting.process !== process) continue
      this.#accepting.delete(address)
      // Its real timers end.
      accepting.server.close()
    }
    for (const socket of this.#open) if (socket.process === process) this.#break(socket)
  }

  #deliver(to: SimulatedSocket, run: () => void): void {
    const { scheduler, faults } = this.#surroundings
    to.readAt = Math.max(scheduler.time + faults.latency(), to.readAt)
    scheduler.after(to.process, to.readAt - scheduler.time, 'socket', run)
  }

  #break(socket: SimulatedSocket): void {
    const { scheduler, faults } = this.#surroundings
    for (const end of [socket, socket.peer]) {
      if (!end || end.isBroken) continue
      end.isBroken = true
      this.#open.delete(end)
      const notice = faults.notice(MAX_NOTICE_MS)
      scheduler.after(end.process, notice, 'reset', () => void end.destroy(failure('ECONNRESET')))
    }
  }
}

/** One end of a connection: as much of a socket as HTTP needs. */
export class SimulatedSocket extends Duplex {
  readonly process: SimulatedProcess
  /** What it is a connection of, for the faults. */
  readonly way: string
  readonly remoteAddress = '10.0.0.1'
  readonly remotePort = 1
  peer: SimulatedSocket | undefined
  isBroken = false
  /** Whether nothing more is written to it. */
  isFinished = false
  /** When the last that was written to it arrives. */
  readAt = 0
  readonly #network: SimulatedNetwork

  constructor(process: SimulatedProcess, way: string, network: SimulatedNetwork) {
    super()
    this.process = process
    this.way = way
    this.#network = network
    // Whoever uses it is told by others of its events.
    this.on('error', () => undefined)
  }

  override _read(): void {
    // What arrives is pushed.
  }

  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.#network.carry(this, chunk)
    done()
  }

  override _writev(chunks: readonly { readonly chunk: Buffer }[], done: () => void): void {
    this.#network.carry(this, Buffer.concat(chunks.map(({ chunk }) => chunk)))
    done()
  }

  override _final(done: () => void): void {
    this.#network.carry(this, undefined)
    done()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#network.closed(this)
    done(error)
  }

  setTimeout(): this {
    return this
  }

  setNoDelay(): this {
    return this
  }

  setKeepAlive(): this {
    return this
  }

  ref(): this {
    return this
  }

  unref(): this {
    return this
  }
}

/** The name of a port of a host. */
export function addressOf(host: string, port: number): string {
  return `${host}:${port}`
}

function failure(code: string): Error {
  return Object.assign(new Error(code), { code })
}

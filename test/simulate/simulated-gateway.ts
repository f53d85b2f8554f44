/** A gateway of a simulation: the product itself. It can end at any moment, and starts again with the same store. */
import { asGatewayError } from '../../src/core/error.ts'
import type { Log } from '../../src/core/log.ts'
import type { Settings } from '../../src/core/settings.ts'
import { Gateway } from '../../src/gateway/gateway.ts'
import { encodeErrorObject, idOf, parseMessage } from '../../src/protocol/jsonrpc.ts'
import { modernError } from '../../src/protocol/modern.ts'
import { world } from '../../src/core/world.ts'
import { createMembership } from '../../src/durable/members.ts'
import type { Faults, Victim } from './faults.ts'
import type { History } from './history.ts'
import type { SimulatedNetwork } from './network.ts'
import type { Scheduler, SimulatedProcess } from './scheduler.ts'
import type { SimulatedServer } from './simulated-server.ts'
import { type SimulatedData, SimulatedStore } from './simulated-store.ts'

/** A request of a client as it arrives at a gateway. */
export interface ArrivingRequest {
  readonly text: string
  readonly principal: string
  /** The server in the URL; undefined for the URL of all servers. */
  readonly upstream: string | undefined
  /** Aborted when the client goes away. */
  readonly controller: AbortController
  respond(text: string | undefined): void
}

/** Where clients send their requests. */
export interface Front {
  readonly name: string
  /** Takes a request to a gateway, and what it answers back. */
  deliver(client: SimulatedProcess, arriving: ArrivingRequest): void
  /** A client goes away. */
  hangUp(client: SimulatedProcess, controller: AbortController): void
}

/** What a member of a fleet has besides. */
interface Membership {
  readonly network: SimulatedNetwork
  readonly host: string
  readonly machine: string
}

interface Options {
  readonly name: string
  readonly settings: Settings
  /** Where it serves clients over HTTP, and reaches the others. */
  readonly member?: Membership
  readonly scheduler: Scheduler
  readonly faults: Faults
  readonly history: History
  readonly data: SimulatedData
  readonly servers: ReadonlyMap<string, SimulatedServer>
}

/** How long a gateway is down after it ended, in milliseconds: at most. */
const MAX_DOWN_MS = 15_000
/** How long calls may take to finish when a gateway stops in order, in milliseconds. */
const SHUTDOWN_TIMEOUT_MS = 10_000

/** One gateway, through all its processes. */
export class SimulatedGateway implements Victim, Front {
  readonly name: string
  readonly #options: Options
  #process: SimulatedProcess | undefined
  #gateway: Gateway | undefined
  #listener: Awaited<ReturnType<Gateway['listen']>> | undefined
  #random: () => number
  /** The process that stops in order. */
  #isStopping: SimulatedProcess | undefined

  constructor(options: Options, random: () => number) {
    this.name = options.name
    this.#options = options
    this.#random = random
  }

  /** The process that runs now, if one does. */
  get process(): SimulatedProcess | undefined {
    return this.#process
  }

  /** Starts a process of the gateway. */
  start(delay: number): void {
    const { scheduler, name, member } = this.#options
    const process = scheduler.process(name, member?.machine ?? `${name}-machine`)
    scheduler.after(process, delay, 'start', () => {
      this.#process = process
      const gateway = this.#open(process)
      this.#gateway = gateway
      if (member) this.#serve(process, gateway)
      else void gateway.start()
    })
  }

  /** Serves as `gatehouse serve` does: until somebody tells it to end. */
  #serve(process: SimulatedProcess, gateway: Gateway): void {
    this.#options.history.add({ kind: 'fault', what: 'starts', process: this.name })
    const serving = async (): Promise<void> => {
      const listener = await gateway.listen()
      if (this.#process !== process) return
      this.#listener = listener
      void gateway.start()
      await gateway.drained
      this.stop()
    }
    serving().catch((error: unknown) => {
      this.#options.history.add({ kind: 'defect', what: `cannot serve: ${String(error)}` })
    })
  }

  /** Ends the process as a power failure does. */
  crash(): void {
    this.#end('crashed')
  }

  /** Stops the process in order: it closes, and ends. */
  stop(): void {
    const { scheduler } = this.#options
    const [process, gateway] = [this.#process, this.#gateway]
    if (!process || !gateway || this.#isStopping === process) return
    this.#isStopping = process
    const listener = this.#listener
    scheduler.after(process, 0, 'stop', () => {
      const end = (): void => {
        if (this.#process === process) this.#end('stopped')
      }
      this.#options.history.add({ kind: 'fault', what: 'stops', process: this.name })
      const close = async (): Promise<void> => {
        await listener?.drain(SHUTDOWN_TIMEOUT_MS)
        await Promise.all([gateway.close(), listener?.close()])
      }
      close().then(end, end)
    })
  }

  /** Has it stopped by an order in the store, as an operator does. */
  order(): void {
    const { scheduler, faults, data } = this.#options
    const gateway = this.#process
    const operator = scheduler.process('operator')
    scheduler.after(operator, 0, 'order', () => {
      const store = new SimulatedStore(operator, { data, scheduler, faults })
      const fleet = createMembership(() => store)
      const drain = async (): Promise<void> => {
        for (const { id, pid } of await fleet.list()) if (pid === gateway?.id) await fleet.drain(id)
      }
      drain().catch(() => undefined)
    })
  }

  /** Stops it for a while, as SIGSTOP does. */
  pause(milliseconds: number): void {
    const { scheduler, history } = this.#options
    const process = this.#process
    if (!process) return
    process.stoppedUntil = scheduler.time + milliseconds
    const until = Math.round(process.stoppedUntil)
    history.add({ kind: 'fault', what: 'stands still', process: this.name, until })
  }

  deliver(client: SimulatedProcess, arriving: ArrivingRequest): void {
    const { scheduler, faults } = this.#options
    const respond = (response: string | undefined): void => {
      const back = faults.delay()
      if (back === undefined) return
      scheduler.after(client, back, 'reply', () => arriving.respond(response))
    }
    const there = faults.delay()
    const target = this.#process
    if (!target) respond(undefined)
    else if (there !== undefined)
      scheduler.after(target, there, 'call', () => this.receive({ ...arriving, respond }))
  }

  hangUp(_client: SimulatedProcess, controller: AbortController): void {
    const { scheduler, faults } = this.#options
    if (this.#process) scheduler.after(this.#process, faults.latency(), 'hang up', () => controller.abort())
  }

  /** Handles a request in the process that runs now; without one, the connection is refused. */
  receive({ text, principal, upstream, controller, respond }: ArrivingRequest): void {
    const [process, gateway] = [this.#process, this.#gateway]
    if (!process?.isAlive || !gateway) return respond(undefined)
    const request = parseMessage(text)
    if (request.kind !== 'request') throw new TypeError('only requests are sent to simulated gateways')
    const requestId = world.requestId()
    const sink = { request: { requestId }, emit: () => undefined, end: respond }
    const served = gateway.serve(request, sink, { principal: { id: principal }, upstream, controller })
    served.catch((thrown: unknown) => {
      respond(encodeErrorObject(idOf(text), modernError(asGatewayError(thrown), requestId)))
    })
  }

  #open(process: SimulatedProcess): Gateway {
    const { settings, data, scheduler, faults, servers, member } = this.#options
    return new Gateway(settings, {
      variables: member ? { POD_IP: member.host } : {},
      log: this.#log(),
      origin: 'http://gateway.example',
      ...(member && { network: member.network.of(process, member.host) }),
      openStore: () => new SimulatedStore(process, { data, scheduler, faults }),
      intercept: (_open, { settings: { name } }) => {
        const server = servers.get(name)
        if (!server) throw new TypeError(`there is no simulated server ${name}`)
        return server.connect(process)
      },
    })
  }

  /** Errors of background work that are no failures of the surroundings are defects. */
  #log(): Log {
    const { history } = this.#options
    return {
      isInfo: false,
      debug: () => undefined,
      info: () => undefined,
      warn: () => undefined,
      error: (event, fields) => {
        if (event === 'background') history.add({ kind: 'defect', what: String(fields?.['error']) })
      },
    }
  }

  #end(what: 'crashed' | 'stopped'): void {
    const { history } = this.#options
    const process = this.#process
    if (!process) return
    process.isAlive = false
    this.#process = this.#gateway = this.#listener = undefined
    this.#options.member?.network.ended(process)
    history.add({ kind: 'fault', what, process: this.name })
    this.start(200 + MAX_DOWN_MS * this.#random())
  }
}

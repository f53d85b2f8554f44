/** A gateway of a simulation: the product itself. It can end at any moment, and starts again with the same store. */
import { asGatewayError } from '../../src/core/error.ts'
import type { Log } from '../../src/core/log.ts'
import type { Settings } from '../../src/core/settings.ts'
import { Gateway } from '../../src/gateway/gateway.ts'
import { encodeErrorObject, idOf, parseMessage } from '../../src/protocol/jsonrpc.ts'
import { modernError } from '../../src/protocol/modern.ts'
import { world } from '../../src/core/world.ts'
import type { Faults, Victim } from './faults.ts'
import type { History } from './history.ts'
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

interface Options {
  readonly name: string
  readonly settings: Settings
  readonly scheduler: Scheduler
  readonly faults: Faults
  readonly history: History
  readonly data: SimulatedData
  readonly servers: ReadonlyMap<string, SimulatedServer>
}

/** How long a gateway is down after it ended, in milliseconds: at most. */
const MAX_DOWN_MS = 15_000

/** One gateway, through all its processes. */
export class SimulatedGateway implements Victim {
  readonly name: string
  readonly #options: Options
  #process: SimulatedProcess | undefined
  #gateway: Gateway | undefined
  #random: () => number

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
    const { scheduler, name } = this.#options
    const process = scheduler.process(name, `${name}-machine`)
    scheduler.after(process, delay, 'start', () => {
      this.#process = process
      this.#gateway = this.#open(process)
      void this.#gateway.start()
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
    if (!process || !gateway) return
    scheduler.after(process, 0, 'stop', () => {
      const end = (): void => {
        if (this.#process === process) this.#end('stopped')
      }
      gateway.close().then(end, end)
    })
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
    const { settings, data, scheduler, faults, servers } = this.#options
    return new Gateway(settings, {
      variables: {},
      log: this.#log(),
      origin: 'http://gateway.example',
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
    this.#process = this.#gateway = undefined
    history.add({ kind: 'fault', what, process: this.name })
    this.start(200 + MAX_DOWN_MS * this.#random())
  }
}

/**
 * A simulated MCP server: a shop whose tools write, and which remembers everything that it did. It speaks 2026-07-28 or
 * 2025-11-25, fails, is slow, and sometimes answers something other than what it did.
 */
import { GatewayError } from '../../core/error.ts'
import { isObject, readJson } from '../../core/json/json.ts'
import type {
  OpenTransport,
  TransportReceiver,
  UpstreamTransport,
} from '../../upstream/transport/transport.ts'
import type { Faults } from './faults.ts'
import type { History } from './history.ts'
import type { Seeded } from './random.ts'
import type { Scheduler, SimulatedProcess } from './scheduler.ts'

type Fields = Readonly<Record<string, unknown>>

/** Something that a server keeps. */
interface Thing {
  readonly id: string
  readonly tool: string
  readonly order: string
  readonly owner: string
  isUndone: boolean
}

const text = { type: 'string' }
const ordering = {
  type: 'object',
  properties: { order: text, owner: text },
  required: ['order', 'owner'],
}
const byId = { type: 'object', properties: { id: text }, required: ['id'] }
const writes = { readOnlyHint: false, destructiveHint: false }

/** The tools. Their undo rules, verifying reads and confirmations are in the settings. */
const tools: readonly Fields[] = [
  { name: 'charge_card', inputSchema: ordering, annotations: writes },
  { name: 'book_room', inputSchema: ordering, annotations: writes },
  { name: 'cancel_booking', inputSchema: byId, annotations: { ...writes, idempotentHint: true } },
  { name: 'create_ticket', inputSchema: ordering, annotations: writes },
  { name: 'set_label', inputSchema: ordering, annotations: { ...writes, idempotentHint: true } },
  {
    name: 'delete_customer',
    inputSchema: ordering,
    annotations: { readOnlyHint: false, destructiveHint: true },
  },
  {
    name: 'list_tickets',
    inputSchema: { type: 'object', properties: { order: text }, required: ['order'] },
    annotations: { readOnlyHint: true },
  },
]

interface Surroundings {
  readonly scheduler: Scheduler
  readonly random: Seeded
  readonly faults: Faults
  readonly history: History
}

interface Options extends Surroundings {
  readonly name: string
}

/** One server. */
export class SimulatedServer {
  readonly name: string
  readonly process: SimulatedProcess
  readonly #options: Options
  readonly #things = new Map<string, Thing>()

  constructor(options: Options) {
    this.name = options.name
    this.process = options.scheduler.process(options.name)
    this.#options = options
  }

  /** The things that an operation made and that were not undone. */
  thingsOf(order: string): readonly string[] {
    return [...this.#things.values()].flatMap((thing) =>
      thing.order === order && !thing.isUndone ? [thing.id] : [],
    )
  }

  /** Opens connections of a gateway. */
  connect(client: SimulatedProcess): OpenTransport {
    const { scheduler, faults } = this.#options
    return (receiver) =>
      new Promise((resolve, reject) => {
        const isRefused = faults.isCut(client, this.name)
        scheduler.after(client, faults.latency(), 'connect', () => {
          if (isRefused) reject(unreachable())
          else resolve(new SimulatedTransport(client, receiver, { ...this.#options, server: this }))
        })
      })
  }

  /** The response to a request, as its members. */
  answer(method: string, params: Fields): Fields {
    switch (method) {
      case 'server/discover':
        return result({
          supportedVersions: ['2026-07-28'],
          capabilities: { tools: {} },
          serverInfo: { name: this.name, version: '1.0.0' },
        })
      case 'initialize':
        return result({
          protocolVersion: '2025-11-25',
          capabilities: { tools: {} },
          serverInfo: { name: this.name, version: '1.0.0' },
        })
      case 'tools/list':
        return result({ tools })
      case 'tools/call':
        return this.#call(String(params['name']), isObject(params['arguments']) ? params['arguments'] : {})
      case 'ping':
        return result({})
      default:
        return { error: { code: -32601, message: `${method} is not supported` } }
    }
  }

  #call(tool: string, args: Fields): Fields {
    const { random, faults, history } = this.#options
    if (tool === 'list_tickets') return done({ items: this.#ticketsOf(String(args['order'])) })
    if (tool === 'cancel_booking') return this.#cancel(String(args['id']))
    const [order, owner] = [String(args['order']), String(args['owner'])]
    const { server, lie } = faults.rates
    if (random.chance(server * 0.3)) return failed('The shop is closed.')
    const isLying = random.chance(lie)
    if (isLying && random.chance(0.5)) {
      history.add({
        kind: 'effect',
        server: this.name,
        tool,
        id: 'none',
        order,
        lie: 'answered without doing',
      })
      return done({ id: 'none', order, owner })
    }
    const id = this.#make(tool, order, owner)
    history.add({
      kind: 'effect',
      server: this.name,
      tool,
      id,
      order,
      ...(isLying && { lie: 'did and failed' }),
    })
    return isLying ? failed('The shop lost the receipt.') : done({ id, order, owner })
  }

  #make(tool: string, order: string, owner: string): string {
    // What is set twice is the same thing.
    const id = tool === 'set_label' ? `label-of-${order}` : `${tool}-${this.#things.size + 1}`
    this.#things.set(id, { id, tool, order, owner, isUndone: false })
    return id
  }

  #cancel(id: string): Fields {
    const thing = this.#things.get(id)
    if (!thing) return failed(`There is no booking ${id}.`)
    if (!thing.isUndone)
      this.#options.history.add({ kind: 'undone', server: this.name, id, order: thing.order })
    thing.isUndone = true
    return done({ id })
  }

  #ticketsOf(order: string): readonly Fields[] {
    return [...this.#things.values()]
      .filter((thing) => thing.tool === 'create_ticket' && thing.order === order)
      .map(({ id, owner }) => ({ id, order, owner }))
  }
}

interface Peer extends Surroundings {
  readonly server: SimulatedServer
}

/** One connection of a gateway to a server. */
class SimulatedTransport implements UpstreamTransport {
  readonly hasProvenance = true
  readonly #client: SimulatedProcess
  readonly #receiver: TransportReceiver
  readonly #peer: Peer
  #isClosed = false

  constructor(client: SimulatedProcess, receiver: TransportReceiver, peer: Peer) {
    this.#client = client
    this.#receiver = receiver
    this.#peer = peer
  }

  async send(message: string): Promise<void> {
    const { server, faults, scheduler } = this.#peer
    if (this.#isClosed || faults.isCut(this.#client, server.name)) throw unreachable()
    const given = readJson(message)
    // Notifications need no answer.
    if (!isObject(given) || typeof given['id'] !== 'number' || !this.#client.isAlive) return
    const { id, method, params } = given
    const there = faults.delay()
    if (there === undefined) return this.#lose(id)
    scheduler.after(server.process, there, 'request', () => {
      const response = server.answer(String(method), isObject(params) ? params : {})
      this.#respond(id, response, method === 'tools/call')
    })
  }

  async close(): Promise<void> {
    this.#isClosed = true
  }

  #respond(id: number, response: Fields, isCall: boolean): void {
    const { faults, scheduler, random, server } = this.#peer
    const back = faults.delay()
    if (back === undefined || faults.isCut(this.#client, server.name)) return this.#lose(id)
    const work = isCall && random.chance(faults.rates.server * 0.2) ? 20_000 * random.next() : 0
    const text = JSON.stringify({ jsonrpc: '2.0', id, ...response })
    const receive = (): void => {
      if (!this.#isClosed) this.#receiver.receive(text, id)
    }
    scheduler.after(this.#client, back + work, 'response', receive)
    // A response that arrives twice.
    if (random.chance(faults.rates.loss))
      scheduler.after(this.#client, back + work + faults.latency(), 'response', receive)
  }

  /** A gateway cannot distinguish a lost request from a lost response. Some connections fail, others stay silent. */
  #lose(id: number): void {
    const { faults, scheduler, random } = this.#peer
    if (random.chance(0.3)) return
    scheduler.after(this.#client, faults.latency(), 'reset', () => this.#receiver.reject(id, lost()))
  }
}

function result(fields: Fields): Fields {
  return { result: { resultType: 'complete', ...fields } }
}

function done(fields: Fields): Fields {
  return result({ content: [{ type: 'text', text: JSON.stringify(fields) }], structuredContent: fields })
}

function failed(message: string): Fields {
  return result({ content: [{ type: 'text', text: message }], isError: true })
}

function unreachable(): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The server cannot be reached.', { isUnsent: true })
}

function lost(): GatewayError {
  return new GatewayError(
    'OUTCOME_UNKNOWN',
    'The connection to the server was lost before the response arrived.',
  )
}

/**
 * A simulated MCP server: a shop whose tools write, and which remembers everything that it did. It speaks 2026-07-28 or
 * 2025-11-25, fails, is slow, and sometimes answers something other than what it did.
 */
import { GatewayError } from '../../src/core/error.ts'
import { type Fields, Payload } from '../../src/core/payload.ts'
import type {
  OpenTransport,
  TransportReceiver,
  UpstreamTransport,
} from '../../src/upstream/transport/transport.ts'
import type { Faults } from './faults.ts'
import type { History } from './history.ts'
import { OddNumbers } from './odd-numbers.ts'
import type { Seeded } from './random.ts'
import type { Scheduler, SimulatedProcess } from './scheduler.ts'

/** The arguments of a call, as JSON texts. */
interface Ordering {
  readonly order: string
  readonly amount: string
  readonly owner: string
}

/** Something that a server keeps. */
interface Thing extends Ordering {
  readonly id: string
  readonly tool: string
  isUndone: boolean
}

const number = { type: ['number', 'string'] }
const ordering = {
  type: 'object',
  properties: { order: number, amount: number, owner: { type: 'string' } },
  required: ['order', 'amount', 'owner'],
}
const byId = { type: 'object', properties: { id: number, order: number }, required: ['id', 'order'] }
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
    name: 'close_account',
    inputSchema: ordering,
    annotations: { readOnlyHint: false, destructiveHint: true },
  },
  {
    name: 'list_tickets',
    inputSchema: { type: 'object', properties: { order: number }, required: ['order'] },
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
  /** The things that `set_label` made, by order. */
  readonly #labels = new Map<string, string>()
  readonly #ids = new OddNumbers()

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
  answer(method: string, params: Payload, by: number): Fields {
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
        return this.#call(String(params.member('name')), params.at('arguments') ?? Payload.of({}), by)
      case 'ping':
        return result({})
      default:
        return { error: { code: -32601, message: `${method} is not supported` } }
    }
  }

  #call(tool: string, args: Payload, by: number): Fields {
    const { random, faults, history } = this.#options
    const textOf = (name: string): string => args.at(name)?.text ?? 'missing'
    const order = textOf('order')
    if (tool === 'list_tickets') return this.#tickets(order)
    if (tool === 'cancel_booking') return this.#cancel(textOf('id'), order)
    const given = { order, amount: textOf('amount'), owner: textOf('owner') }
    const { server, lie } = faults.rates
    if (random.chance(server * 0.3)) return failed('The shop is closed.')
    const isLying = random.chance(lie)
    const isDone = !isLying || random.chance(0.5)
    const made = isDone ? this.#make(tool, given) : this.#ids.next()
    history.add({
      kind: 'effect',
      server: this.name,
      tool,
      id: made,
      order,
      amount: given.amount,
      by,
      ...(isLying && { lie: isDone ? 'did and failed' : 'answered without doing' }),
    })
    return isLying && isDone
      ? failed('The shop lost the receipt.')
      : this.#done(objectOf({ id: made, ...given }))
  }

  #make(tool: string, given: Ordering): string {
    const { order } = given
    // What is set twice is the same thing.
    const id = (tool === 'set_label' ? this.#labels.get(order) : undefined) ?? this.#ids.next()
    if (tool === 'set_label') this.#labels.set(order, id)
    this.#things.set(id, { id, tool, ...given, isUndone: false })
    return id
  }

  #cancel(id: string, order: string): Fields {
    const { history } = this.#options
    history.add({ kind: 'request', server: this.name, tool: 'cancel_booking', id, order })
    const thing = this.#things.get(id)
    if (!thing) return failed(`There is no booking ${id}.`)
    if (!thing.isUndone) history.add({ kind: 'undone', server: this.name, id, order: thing.order })
    thing.isUndone = true
    return this.#done(objectOf({ id }))
  }

  #tickets(order: string): Fields {
    this.#options.history.add({ kind: 'request', server: this.name, tool: 'list_tickets', order })
    const found = [...this.#things.values()]
      .filter((thing) => thing.tool === 'create_ticket' && thing.order === order)
      .map(({ id, amount, owner }) => objectOf({ id, order, amount, owner }).text)
    return this.#done(objectOf({ items: `[${found.join(',')}]` }))
  }

  /** Servers answer with JSON in a text, with structured content, or with both. */
  #done(object: Payload): Fields {
    const { random } = this.#options
    const place = random.pick(['both', 'text', 'structured'])
    return {
      result: Payload.of({
        resultType: 'complete',
        content: place === 'structured' ? [] : [{ type: 'text', text: object.text }],
      }).with(place === 'text' ? {} : { structuredContent: object }),
    }
  }
}

/** An object of members that are JSON texts. */
function objectOf(texts: Readonly<Record<string, string>>): Payload {
  const members = Object.entries(texts).map(([name, text]) => [name, Payload.text(text)] as const)
  return Payload.of({}).with(Object.fromEntries(members))
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
    const given = Payload.text(message)
    const { id, method } = given.fields
    // Notifications need no answer.
    if (typeof id !== 'number' || !this.#client.isAlive) return
    const there = faults.delay()
    if (there === undefined) return this.#lose(id)
    scheduler.after(server.process, there, 'request', () => {
      const response = server.answer(String(method), given.at('params') ?? Payload.of({}), this.#client.id)
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
    const { busy, work: longest } = faults.rates
    const work = isCall && random.chance(busy) ? longest * random.next() : 0
    const { text } = Payload.of({ jsonrpc: '2.0', id }).with(response)
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

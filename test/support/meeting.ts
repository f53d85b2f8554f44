import { vi } from 'vitest'
import type { ConnectOptions, Reply, RequestOptions } from './client/options.ts'
import { connect, type FakeClient } from './fake-client.ts'
import type { FakeServer } from './fake-server.ts'
import type { Kind, Pair } from './matrix.ts'
import { gatewayProgram } from './gateway-process.ts'
import type { Seen } from './server/journal.ts'
import type { Json } from './server/json.ts'
import { type Traits, traitsOf } from './server/revisions.ts'
import { WAIT_TIMEOUT_MS } from './condition.ts'

/** A server behind the gateway, as a test sees it. */
export interface Behind {
  /** Everything it received, oldest first, in all its processes. */
  seen(): readonly Seen[]
  /** Every breach of the protocol it noticed, in all its processes. */
  violations(): readonly string[]
  /** The server itself, where it runs in this process. */
  readonly server?: FakeServer
}

interface Place {
  readonly behind: Behind
  readonly url: string
  /** A configuration with this server alone. */
  readonly config: string
  readonly options: Partial<ConnectOptions>
}

let marks = 0

/** A word no other call of this test file has in it. */
export function mark(): string {
  return `mark-${++marks}-of-${process.pid}`
}

/** A client and a server that talk through the gateway. */
export class Meeting {
  readonly kinds: Pair
  readonly client: Traits
  readonly server: Traits
  readonly #place: () => Place
  readonly #clients: FakeClient[] = []
  #before = 0

  constructor(pair: Pair, place: () => Place) {
    this.kinds = pair
    this.client = traitsOf(pair.client.revision)
    this.server = traitsOf(pair.server.revision)
    this.#place = place
  }

  /** Whether the client sees HTTP statuses. */
  get isHttp(): boolean {
    return this.kinds.client.transport === 'http'
  }

  /** The client under test. */
  get connected(): FakeClient {
    const [first] = this.#clients
    if (first) return first
    throw new Error('The client is not connected')
  }

  async open(): Promise<void> {
    this.#before = this.#place().behind.violations().length
    await this.connect()
  }

  /** Connects one more client of the same kind. */
  async connect(more: Partial<ConnectOptions> = {}): Promise<FakeClient> {
    const { url, config, options } = this.#place()
    const kind: Kind = this.kinds.client
    const [command = process.execPath, ...first] = gatewayProgram()
    const way =
      kind.transport === 'stdio' ? { command, args: [...first, 'stdio', '--config', config] } : { url }
    // A 2026-07-28 client names its version in every POST, notifications included.
    const headers = this.client.modern && this.isHttp ? { 'mcp-protocol-version': kind.revision } : {}
    const client = await connect({ ...kind, ...way, headers, ...options, ...more })
    this.#clients.push(client)
    return client
  }

  /** Makes a request as the client under test. */
  request(method: string, params?: Json, options?: RequestOptions): Promise<Reply> {
    return this.connected.request(method, params, options)
  }

  /** Calls a tool as the client under test. */
  call(name: string, args: unknown = {}, options?: RequestOptions): Promise<Reply> {
    return this.request('tools/call', { name, arguments: args }, options)
  }

  /** Everything the server received, oldest first. */
  seen(): readonly Seen[] {
    return this.#place().behind.seen()
  }

  /** The server itself, where it runs in this process. */
  get behind(): FakeServer | undefined {
    return this.#place().behind.server
  }

  /** Waits until the server received something, at or after a place in what it saw. */
  until(predicate: (entry: Seen) => boolean, from = 0): Promise<Seen> {
    const look = (): Seen => {
      const found = this.seen().slice(from).find(predicate)
      if (found) return found
      throw new Error('The server has seen nothing like it')
    }
    return vi.waitFor(look, { timeout: WAIT_TIMEOUT_MS, interval: 10 })
  }

  /** Every breach of the protocol either side noticed. */
  violations(): { readonly client: readonly string[]; readonly server: readonly string[] } {
    const server = this.#place().behind.violations().slice(this.#before)
    return { client: this.#clients.flatMap(({ violations }) => violations), server }
  }

  async close(): Promise<void> {
    await Promise.all(this.#clients.map((client) => client.close()))
  }
}

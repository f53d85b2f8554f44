/**
 * A load balancer in front of a simulated fleet that is not sticky: it gives each connection to a random gateway, and to
 * another one if that refuses it.
 */
import { exchange, type HttpRequest, type HttpResponse } from './http.ts'
import { addressOf, type SimulatedNetwork } from './network.ts'
import type { Seeded } from './random.ts'
import type { Scheduler, SimulatedProcess } from './scheduler.ts'
import type { ArrivingRequest, Front } from './simulated-gateway.ts'
import { latestModern } from '../../src/core/revisions.ts'
import { standardHeaders } from '../../src/protocol/headers.ts'
import { Payload } from '../../src/core/payload.ts'
import { tokenOf } from './settings.ts'

interface Options {
  readonly network: SimulatedNetwork
  readonly scheduler: Scheduler
  readonly random: Seeded
  /** The hosts of the gateways, those that do not run included. */
  readonly hosts: readonly string[]
  readonly port: number
}

/** How often it is tried to reach any gateway, in milliseconds. */
const RETRY_INTERVAL_MS = 500

/** The balancer. */
export class Balancer implements Front {
  readonly name = 'balancer'
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  /** Makes a request of a client. Resolves at the end of the response. */
  async request(client: SimulatedProcess, request: HttpRequest): Promise<HttpResponse> {
    const { network, random, hosts, port } = this.#options
    while (!request.signal.aborted) {
      const open = hosts.filter((host) => network.isAccepting(host, port))
      for (const host of shuffled(open, random)) {
        const address = addressOf(host, port)
        const socket = await network.connect(client, address, 'clients').catch(() => undefined)
        if (socket) return exchange(socket, request)
      }
      // It holds requests while no gateway is there.
      await new Promise<void>((resolve) => {
        this.#options.scheduler.after(client, RETRY_INTERVAL_MS, 'balancer', resolve)
      })
    }
    return { headers: {} }
  }

  deliver(client: SimulatedProcess, arriving: ArrivingRequest): void {
    const { text, principal, upstream, controller, respond } = arriving
    const message = Payload.text(text)
    const params = message.at('params') ?? Payload.of({})
    const id = message.at('id')?.text
    let answer: string | undefined
    const request: HttpRequest = {
      method: 'POST',
      path: pathOf(upstream),
      headers: {
        authorization: `Bearer ${tokenOf(principal)}`,
        'mcp-protocol-version': latestModern.name,
        ...standardHeaders(String(message.fields['method']), params),
      },
      body: text,
      onMessage: (each) => {
        if (Payload.text(each).at('id')?.text === id) answer = each
      },
      signal: controller.signal,
    }
    void this.request(client, request).then(() => respond(answer))
  }

  /** The connection of a client that goes away is closed. */
  hangUp(_client: SimulatedProcess, controller: AbortController): void {
    controller.abort()
  }
}

/** The path of the endpoint of a server, or of all. */
export function pathOf(upstream: string | undefined): string {
  return upstream === undefined ? '/mcp' : `/mcp/${upstream}`
}

function shuffled<Item>(items: readonly Item[], random: Seeded): readonly Item[] {
  return items
    .map((item) => [random.next(), item] as const)
    .toSorted(([one], [other]) => one - other)
    .map(([, item]) => item)
}

import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import type { HeaderMap } from './server/journal.ts'

/** A load balancer that is not sticky, in front of gateways. */
export interface ScatteringFront {
  readonly origin: string
  /** The endpoint of all servers together. */
  readonly url: string
  /** How many requests each gateway got. */
  readonly counts: readonly number[]
  /** Sends all further requests to one gateway, or to each in turn again. */
  only(index: number | undefined): void
  close(): Promise<void>
}

interface Gateway {
  readonly origin: string
}

/** Sends each request to the next of these gateways, until the test is over. */
export async function scatteringFront(gateways: readonly Gateway[]): Promise<ScatteringFront> {
  const front = await openFront(gateways)
  onTestFinished(() => front.close())
  return front
}

/** Sends each request to the gateway that `pick` says, by default to the next one, until it is closed. */
export async function openFront(
  gateways: readonly Gateway[],
  options: { pick?(): number } = {},
): Promise<ScatteringFront> {
  const counts: number[] = gateways.map(() => 0)
  let next = 0
  let fixed: number | undefined
  const { pick = () => next++ % gateways.length } = options
  const { origin, close } = await listening((incoming, outgoing) => {
    const index = fixed ?? pick()
    counts[index] = (counts[index] ?? 0) + 1
    void relay(incoming, outgoing, gateways[index]).then((isTaken) => isTaken || outgoing.destroy())
  })
  return { origin, url: `${origin}/mcp`, counts, only: (index) => void (fixed = index), close }
}

/** Serves on a free port, until it is closed. */
export async function listening(
  serve: (incoming: IncomingMessage, outgoing: ServerResponse) => void,
): Promise<{ readonly origin: string; close(): Promise<void> }> {
  const server = createServer(serve)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      server.close()
      server.closeAllConnections()
    },
  }
}

interface RelayOptions {
  /** Further headers of the request. */
  readonly headers?: HeaderMap
  /** Sees the answer. */
  onAnswer?(answer: IncomingMessage): void
}

/**
 * Passes a request on to a gateway, and its answer back; what breaks on the way breaks for the client too. Resolves with
 * whether the gateway takes it: false if there is no connection, so that nothing was sent.
 */
export function relay(
  incoming: IncomingMessage,
  outgoing: ServerResponse,
  gateway: Gateway | undefined,
  { headers, onAnswer }: RelayOptions = {},
): Promise<boolean> {
  if (!gateway) return Promise.resolve(false)
  const { method, url = '' } = incoming
  const all = { ...incoming.headers, ...headers }
  const passed = request(new URL(url, gateway.origin), { method, headers: all, agent: false })
  const taken = Promise.withResolvers<boolean>()
  let isTaken = false
  passed.on('socket', (socket) =>
    socket.once('connect', () => {
      isTaken = true
      taken.resolve(true)
      incoming.pipe(passed)
    }),
  )
  passed.on('response', (answer) => {
    outgoing.writeHead(answer.statusCode ?? 502, answer.headers)
    outgoing.flushHeaders()
    answer.pipe(outgoing)
    answer.on('error', () => outgoing.destroy())
    onAnswer?.(answer)
  })
  passed.on('error', () => {
    taken.resolve(false)
    if (isTaken) outgoing.destroy()
  })
  outgoing.on('close', () => passed.destroy())
  return taken.promise
}

import { once } from 'node:events'
import { createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
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
  /** Resolves when each request that the gateways got is over, except where a client does not read. */
  settled(): Promise<void>
  close(): Promise<void>
}

interface Gateway {
  readonly origin: string
}

interface FrontOptions {
  /** The index of the gateway that gets the next request. Default: each in turn. */
  pick?(): number
  /** Answers a request in place of the gateways; false if it does not. */
  answer?(incoming: IncomingMessage, outgoing: ServerResponse): boolean
  /** Default: a free one. */
  readonly port?: number
}

/** How long answers of gateways that have ended may take to the clients, in milliseconds. */
const MAX_SETTLING_MS = 2000

/** Sends each request to the next of these gateways, until the test is over. */
export async function scatteringFront(gateways: readonly Gateway[]): Promise<ScatteringFront> {
  const front = await openFront(gateways)
  onTestFinished(() => front.close())
  return front
}

/** Sends each request to one of the gateways, or to the next one if that does not listen, until it is closed. */
export async function openFront(
  gateways: readonly Gateway[],
  options: FrontOptions = {},
): Promise<ScatteringFront> {
  const counts: number[] = gateways.map(() => 0)
  const open = new Set<ServerResponse>()
  let next = 0
  let fixed: number | undefined
  const { pick = () => next++ % gateways.length, answer, port = 0 } = options
  const pass = async (incoming: IncomingMessage, outgoing: ServerResponse): Promise<void> => {
    open.add(outgoing)
    outgoing.once('close', () => open.delete(outgoing))
    const first = fixed ?? pick()
    const indices = gateways.map((_each, index) => (first + index) % gateways.length)
    for (const index of fixed === undefined ? indices : [fixed])
      if (await relay(incoming, outgoing, gateways[index])) {
        counts[index] = (counts[index] ?? 0) + 1
        return
      }
    outgoing.destroy()
  }
  const { origin, close } = await listening((incoming, outgoing) => {
    if (answer?.(incoming, outgoing) !== true) void pass(incoming, outgoing)
  }, port)
  const settled = async (): Promise<void> => {
    const over = Promise.all([...open].map((each) => once(each, 'close')))
    await Promise.race([over, delay(MAX_SETTLING_MS, undefined, { ref: false })])
  }
  const only = (index: number | undefined): void => void (fixed = index)
  return { origin, url: `${origin}/mcp`, counts, only, settled, close }
}

/** Serves on a port, which is any free one by default, until it is closed. */
export async function listening(
  serve: (incoming: IncomingMessage, outgoing: ServerResponse) => void,
  port = 0,
): Promise<{ readonly origin: string; close(): Promise<void> }> {
  // As long as the gateways, whose answers tell clients how long they may keep a connection.
  const server = createServer({ keepAliveTimeout: 65_000 }, serve)
  server.listen(port, '127.0.0.1')
  await once(server, 'listening')
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: async () => {
      if (!server.listening) return
      const closed = once(server, 'close')
      server.close()
      server.closeAllConnections()
      await closed
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
  { headers = {}, onAnswer }: RelayOptions = {},
): Promise<boolean> {
  const { method, rawHeaders, url = '' } = incoming
  const target = gateway && URL.parse(url, gateway.origin)
  if (!target) return Promise.resolve(false)
  const all = [...rawHeaders, ...Object.entries(headers).flat()]
  const passed = request(target, { method, headers: all, agent: false })
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
    // Who is answered before the request has ended may still send it.
    incoming.unpipe(passed)
    incoming.resume()
    outgoing.writeHead(answer.statusCode ?? 502, answer.statusMessage, answer.rawHeaders)
    outgoing.flushHeaders()
    answer.pipe(outgoing)
    answer.on('error', () => outgoing.destroy())
    onAnswer?.(answer)
  })
  passed.on('error', () => {
    taken.resolve(false)
    if (isTaken && !outgoing.headersSent) outgoing.destroy()
  })
  outgoing.on('close', () => passed.destroy())
  return taken.promise
}

/**
 * The private listener of a gateway: other gateways that share its store send it the requests about what it owns. It
 * accepts nothing else.
 */
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { Log } from '../../../core/log.ts'
import { world } from '../../../core/world.ts'
import type { Network } from '../network.ts'
import { type Decision, type Envelopes, FORWARDED, type Refused } from './envelope.ts'

/** Where the listener is: the path of a Unix socket or a pipe of Windows, or an address. */
export type Place =
  | { readonly path: string }
  | {
      readonly host: string
      /** 0 takes any free port. */
      readonly port: number
    }

interface Options {
  readonly place: Place
  readonly network: Pick<Network, 'listen'>
  readonly envelopes: Pick<Envelopes, 'open'>
  /** Serves a request whose caller the other gateway has authenticated. Never throws. */
  serve(incoming: IncomingMessage, outgoing: ServerResponse, decision: Decision): void
  readonly log: Log
}

/** The open private listener. */
export interface PrivateListener {
  /** The port that it took; undefined for a path. */
  readonly port: number | undefined
  close(): Promise<void>
}

const timeouts = { headersTimeout: 15_000, requestTimeout: 60_000, keepAliveTimeout: 65_000 }
/** The headers of a client, which may have 16 KiB, and the claims of its token in the envelope. */
const MAX_HEADER_BYTES = 64 * 1024

/** How long the last answers have after the end, in milliseconds. */
const LAST_ANSWERS_MS = 500

/** Listens for other gateways. @throws the system error if the place is not available */
export async function listenPrivately(options: Options): Promise<PrivateListener> {
  const { place, network, envelopes, log } = options
  const server = createServer({ ...timeouts, maxHeaderSize: MAX_HEADER_BYTES }, (incoming, outgoing) => {
    const decision = envelopes.open(incoming.headers)
    if (typeof decision !== 'string') return options.serve(incoming, outgoing, decision)
    log.warn('forward.refused', { reason: decision, address: incoming.socket.remoteAddress })
    refuse(outgoing, decision)
  })
  const port = await bind(server, place, network)
  return {
    port,
    close: () =>
      new Promise((resolve) => {
        server.close(() => resolve())
        server.closeIdleConnections()
        // The last answers may be on their way.
        world.setTimeout(() => server.closeAllConnections(), LAST_ANSWERS_MS).unref()
      }),
  }
}

/** How many ports are tried, from the one that is configured: each of the workers on a machine has one. */
const MAX_PORTS = 64

async function bind(
  server: Server,
  place: Place,
  network: Pick<Network, 'listen'>,
): Promise<number | undefined> {
  const first = 'port' in place ? place.port : 0
  for (let next = 0; ; next++) {
    const free = first === 0 ? place : { ...place, port: first + next }
    try {
      // Its own, where workers share the port for clients.
      return await network.listen(server, { ...free, exclusive: true })
    } catch (error) {
      const isTaken = error instanceof Error && 'code' in error && error.code === 'EADDRINUSE'
      if (!isTaken || first === 0 || next === MAX_PORTS - 1) throw error
    }
  }
}

/** The body of a refused request is not read. */
function refuse(outgoing: ServerResponse, reason: Refused): void {
  outgoing.writeHead(403, { [FORWARDED]: 'refused', 'content-type': 'text/plain', connection: 'close' })
  outgoing.end(`This address is for gateways that share a store (${reason}).\n`)
}

/** Tells the other gateway that this one does not own what its request is about. */
export function refuseMoved(outgoing: ServerResponse): void {
  outgoing.writeHead(421, { [FORWARDED]: 'moved', 'content-length': 0 }).end()
}

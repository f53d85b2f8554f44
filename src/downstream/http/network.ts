/**
 * The sockets of a gateway: where it accepts connections, and how it opens those to other gateways. A simulation of several
 * gateways connects them in memory.
 */
import type { Server } from 'node:http'
import type { ListenOptions } from 'node:net'
import { buildConnector } from 'undici'

/** How connections are accepted and opened. */
export interface Network {
  /**
   * Accepts connections for a server. Resolves with the port, where the place has one. @throws the system error if the place
   * is not available
   */
  listen(server: Server, place: ListenOptions): Promise<number | undefined>
  /** Opens connections to one address. */
  connector(options: buildConnector.BuildOptions): buildConnector.connector
}

/** That of the operating system. */
export const systemNetwork: Network = {
  listen: (server, place) =>
    new Promise((resolve, reject) => {
      server.once('error', reject)
      server.listen(place, () => {
        server.off('error', reject)
        const address = server.address()
        resolve(typeof address === 'object' && address ? address.port : undefined)
      })
    }),
  connector: (options) => buildConnector(options),
}

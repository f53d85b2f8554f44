import { type ConnectOptions } from './client/options.ts'
import { connect, type FakeClient } from './fake-client.ts'
import { type FakeServer, fakeServerCommand, startFakeServer } from './fake-server.ts'
import { type RunningGateway, startGateway } from './gateway.ts'
import type { Json } from './server/json.ts'
import { plainFeatures } from './undescribed.ts'
import type { ServerOptions } from './server/options.ts'

/** One gateway in front of many fake servers, each a little different, by name. */
export interface Variants {
  readonly gateway: RunningGateway
  /** The server of this name, where it is reached over HTTP. */
  server(name: string): FakeServer
  /** A new client of the server of this name. */
  client(name: string, options?: Partial<ConnectOptions>): Promise<FakeClient>
  close(): Promise<void>
}

/** Starts servers and a gateway in front of them; `settings` are what the configuration says of each. */
export async function startVariants(
  options: Readonly<Record<string, Partial<ServerOptions>>>,
  settings: Json = {},
  config: Json = {},
): Promise<Variants> {
  const servers = new Map<string, FakeServer>()
  const clients: FakeClient[] = []
  const upstreams: Record<string, Json> = {}
  for (const [name, { revision = '2025-11-25', transport = 'http', ...rest }] of Object.entries(options)) {
    if (transport === 'stdio') {
      const { command, args } = fakeServerCommand({ revision, ...rest })
      upstreams[name] = { command: [command, ...args], ...settings }
      continue
    }
    const server = await startFakeServer({ revision, transport, ...rest })
    servers.set(name, server)
    upstreams[name] = { url: server.url, ...settings }
  }
  const gateway = await startGateway({
    ...config,
    features: plainFeatures(config['features']),
    upstreams,
  })
  return {
    gateway,
    server: (name) => {
      const server = servers.get(name)
      if (!server) throw new Error(`${name} is not reached over HTTP`)
      return server
    },
    client: async (name, { revision = '2025-11-25', ...rest } = {}) => {
      const client = await connect({ transport: 'http', url: `${gateway.url}/${name}`, revision, ...rest })
      clients.push(client)
      return client
    },
    close: async () => {
      for (const client of clients) await client.close().catch(() => undefined)
      await gateway.close()
      for (const server of servers.values()) await server.close()
    },
  }
}

import { environment } from '../config/secrets.ts'
import { ownUrl } from '../core/own-url.ts'
import type { Settings, UpstreamSettings } from '../core/settings.ts'
import type { ServerDescription } from '../documents/portrait.ts'
import { createGateway, openLog } from '../gateway.ts'
import { looking } from './named.ts'

/** A document about a server of a configuration, or about all of them. @throws what listing the server throws */
export async function described<Made>(
  settings: Settings,
  server: UpstreamSettings | undefined,
  make: (description: ServerDescription) => Made,
): Promise<Made> {
  const { host, port } = settings.listen
  const gateway = createGateway(looking(settings, settings.upstreams), {
    variables: environment(),
    log: openLog('error', true),
    origin: ownUrl(host, port),
  })
  try {
    if (server) await gateway.entries(server.name)
    else await gateway.start()
    return await gateway.describe(server?.name, make)
  } finally {
    await gateway.close()
  }
}

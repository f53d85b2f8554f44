import { type GatewayProcess, startGatewayProcess } from './gateway-process.ts'
import type { Json } from './server/json.ts'

/** A gateway with a configuration of its own. Closing it lets it end its servers first. */
export async function gentleGateway(config: Json): Promise<GatewayProcess> {
  const gateway = await startGatewayProcess(config)
  return {
    ...gateway,
    close: async () => {
      gateway.signal('SIGTERM')
      await gateway.ended
      await gateway.close()
    },
  }
}

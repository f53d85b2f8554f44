import { fixtureCommand, type FixtureEra, startFixture } from '../fixtures/conformance-server/start.ts'
import type { GatewayProcess } from './gateway-process.ts'
import { gentleGateway } from './gentle-gateway.ts'

/** Starts a gateway in front of the conformance fixture; closing it ends both. */
export async function gatewayToFixture(
  era: FixtureEra,
  transport: 'http' | 'stdio',
): Promise<GatewayProcess> {
  if (transport === 'stdio') return gentleGateway(config(overStdio(era)))
  const fixture = await startFixture(era)
  const gateway = await gentleGateway(config({ url: fixture.url })).catch(async (error: unknown) => {
    await fixture.close()
    throw error
  })
  return {
    ...gateway,
    close: async () => {
      await gateway.close()
      await fixture.close()
    },
  }
}

// The suite asks for roots, which a server is told of only where the configuration says so.
function config(reach: Record<string, unknown>) {
  return { upstreams: { fixture: { ...reach, roots: 'client' } } }
}

function overStdio(era: FixtureEra) {
  const { command, args, env } = fixtureCommand(era)
  return { command: [command, ...args], env }
}

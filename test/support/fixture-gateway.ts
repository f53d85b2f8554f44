import {
  fixtureCommand,
  type FixtureEra,
  type FixtureStyle,
  startFixture,
} from '../fixtures/conformance-server/start.ts'
import { type RunningGateway, startGateway } from './gateway.ts'

/** Starts a gateway in front of the conformance fixture; closing it ends both. */
export async function gatewayToFixture(
  era: FixtureEra,
  transport: 'http' | 'stdio',
  { style, upstream }: { style?: FixtureStyle; upstream?: Record<string, unknown> } = {},
): Promise<RunningGateway> {
  if (transport === 'stdio') return startGateway(config({ ...overStdio(era, style), ...upstream }))
  const fixture = await startFixture(era, style)
  const gateway = await startGateway(config({ url: fixture.url, ...upstream })).catch(
    async (error: unknown) => {
      await fixture.close()
      throw error
    },
  )
  return {
    ...gateway,
    close: async () => {
      await gateway.close()
      await fixture.close()
    },
  }
}

// The suite asks for roots, which a server is told of only where the configuration says so, and it has no person who
// could confirm anything.
function config(reach: Record<string, unknown>) {
  return { features: { confirm: 'off' }, upstreams: { fixture: { roots: 'client', ...reach } } }
}

function overStdio(era: FixtureEra, style?: FixtureStyle) {
  const { command, args, env } = fixtureCommand(era, style)
  return { command: [command, ...args], env }
}

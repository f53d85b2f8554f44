// Starts what is measured as the gateway.
import { mkdirSync, writeFileSync } from 'node:fs'
import type { Build } from './builds.ts'
import { gatewayConfig, type Setup, type Upstream } from './gateway-config.ts'
import { freePort, launchCommand, launchScript, type Serving } from './launch.ts'

/** How a gateway is started, besides its upstream. */
interface GatewayStart {
  /** Does not exist: it gets the configuration and everything that the gateway writes. */
  readonly folder: string
  readonly setup: Setup
  readonly redisUrl?: string | undefined
  /** Resolves when this answers 200 (default `/ready`). */
  readonly path?: '/ready' | '/health'
}

/** Starts a gateway in front of one upstream. */
export type LaunchGateway = (upstream: Upstream, start: GatewayStart) => Promise<Serving>

/** The setups whose gateways log each call, as they do by default. */
const logging: ReadonlySet<Setup> = new Set(['default', 'guarded', 'everything'])

/** Starts gateways of a build. */
export function launchOf({ main, features }: Build): LaunchGateway {
  return async (upstream, { folder, setup, redisUrl, path = '/ready' }) => {
    mkdirSync(folder, { recursive: true })
    const port = await freePort()
    const config = `${folder}/gateway.config.yaml`
    writeFileSync(config, gatewayConfig(upstream, setup, { folder, features, redisUrl }))
    const command = [process.execPath, main, 'serve', '--config', config, '--port', String(port)]
    if (!logging.has(setup)) command.push('--log-level', 'warn')
    const state = { XDG_STATE_HOME: `${folder}/state` }
    const running = await launchCommand(command, `http://127.0.0.1:${port}${path}`, state)
    return { ...running, url: `http://127.0.0.1:${port}/mcp` }
  }
}

/** A second copy of the baseline in place of the gateway, which shows how far equal programs differ. */
export const launchStandIn: LaunchGateway = (upstream) =>
  'url' in upstream
    ? launchScript('pass-through.ts', [upstream.url])
    : launchScript('line-mux.ts', upstream.command)

import { mkdirSync, writeFileSync } from 'node:fs'
import type { Build } from './builds.ts'
import { gatewayConfig, type Guard, isGuarded, type Upstream } from './gateway-config.ts'
import { freePort, launchCommand, launchScript, type Serving } from './launch.ts'

/** Starts what is measured as the gateway, in front of one upstream; resolves when the path answers 200. */
export type LaunchGateway = (
  folder: string,
  upstream: Upstream,
  path: '/ready' | '/health',
  guard?: Guard,
) => Promise<Serving>

/** Launches a built gateway, with its config and its store in the given folder. */
export function launchOf({ main, features }: Build): LaunchGateway {
  return async (folder, upstream, path, guard = 'off') => {
    mkdirSync(folder)
    const port = await freePort()
    const config = `${folder}/gateway.config.yaml`
    writeFileSync(config, gatewayConfig(upstream, guard, { folder, features }))
    const command = [process.execPath, main, 'serve', '--config', config, '--port', String(port)]
    if (!isGuarded(guard)) command.push('--log-level', 'warn')
    const running = await launchCommand(command, `http://127.0.0.1:${port}${path}`)
    return { ...running, url: `http://127.0.0.1:${port}/mcp` }
  }
}

/** A second copy of the baseline in place of the gateway, which shows how far equal programs differ. */
export const launchStandIn: LaunchGateway = (_folder, upstream) =>
  'url' in upstream
    ? launchScript('pass-through.ts', [upstream.url])
    : launchScript('line-mux.ts', upstream.command)

import { watchFile } from '../config/watch.ts'
import { environment } from '../config/secrets.ts'
import type { Log } from '../core/log.ts'
import type { Settings } from '../core/settings.ts'
import { createGateway, type Gateway, openLog } from '../gateway.ts'
import { foresee, goesOn, tell } from './check.ts'
import { readServed, type Source } from './options.ts'
import { untilStopped } from './stop.ts'

/** How long calls under way may take to end at shutdown, in milliseconds. */
const PATIENCE = 10_000

/** `gatehouse serve`: serves clients over HTTP until it is told to stop. */
export async function serve(args: readonly string[]): Promise<number> {
  const [options, source] = readServed(args, ['config', 'host', 'port', 'log-level'])
  const log = openLog(options.logLevel, process.stderr.isTTY)
  // Nobody is told where to be served, and then is not.
  const foreseen = await foresee(source)
  tell(foreseen, source)
  if (foreseen.length > 0) return 1
  // From here on there is something to end in order.
  const stopped = untilStopped({ onHangUp: process.stderr.isTTY })
  const gateway = createGateway(source.settings, { variables: environment(), log })
  const listener = await gateway.listen().catch(async (error: unknown) => {
    // What it opened would keep the process.
    await gateway.close()
    throw new Error(bindProblem(error, source.settings), { cause: error })
  })
  process.stdout.write(welcome(listener.url, source.settings, gateway.operatorCode))
  const watch = follow(source, gateway, log)
  const warmed = gateway.warm()
  const found = await Promise.race([warmed, stopped.then(() => [])])
  const isServing = goesOn(found, source, log)
  if (isServing) await stopped
  log.info('stopping')
  watch?.close()
  await listener.drain(PATIENCE)
  await Promise.all([gateway.close(), listener.close()])
  return isServing ? 0 : 1
}

/** Goes on with each good version of the file. */
function follow(source: Source, gateway: Gateway, log: Log): { close(): void } | undefined {
  const { file, text } = source
  if (file === undefined || text === undefined) return undefined
  const onChange = async (changed: string): Promise<void> => {
    try {
      await gateway.reload(source.read(changed))
      log.info('config.reloaded', { file })
    } catch (error) {
      log.error('config.rejected', { file, reason: error instanceof Error ? error.message : String(error) })
    }
  }
  return watchFile(file, { text, onChange: (changed) => void onChange(changed) })
}

function welcome(url: string, { listen, upstreams, features }: Settings, code: string | undefined): string {
  const base = (listen.publicUrl ?? url).replace(/\/$/, '')
  const endpoint =
    listen.aggregate || upstreams.length === 1 ? `${base}/mcp` : `${base}/mcp/${upstreams[0]?.name}`
  const width = Math.max(...upstreams.map(({ name }) => name.length))
  const each = upstreams.map(({ name }) => `  ${name.padEnd(width)}  ${base}/mcp/${name}`)
  const snippet = { mcpServers: { gatehouse: { type: 'http', url: endpoint } } }
  return [
    `Gatehouse serves ${endpoint}`,
    ...each,
    '',
    ...(code !== undefined && features.confirm
      ? [`To approve calls at ${base}/confirm use the code ${code}`, '']
      : []),
    'Paste this into the configuration of an MCP client:',
    JSON.stringify(snippet, null, 2),
    '',
    '',
  ].join('\n')
}

function bindProblem(error: unknown, { listen }: Settings): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  const address = `${listen.host}:${listen.port}`
  if (code === 'EADDRINUSE') return `${address} is in use by another program. Choose another with --port.`
  if (code === 'EACCES')
    return `${address} may not be used by this user. Choose a port above 1023 with --port.`
  if (code === 'EADDRNOTAVAIL') return `${listen.host} is not an address of this machine.`
  return error instanceof Error ? error.message : String(error)
}

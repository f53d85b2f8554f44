/**
 * `gatehouse serve` and `gatehouse stdio`: run a gateway until a signal or the end of the input, and reload a
 * changed file.
 */
import { environment } from '../config/secrets.ts'
import { watchFile } from '../config/watch.ts'
import { isProtected } from '../core/auth-settings.ts'
import type { Log } from '../core/log.ts'
import type { Settings } from '../core/settings.ts'
import { clientSnippets, Gateway, openLog } from '../gateway/gateway.ts'
import { foresee, goesOn, tell } from './check.ts'
import { readServed, type Source } from './options.ts'

/** How long calls under way may take to end at shutdown, in milliseconds. */
const SHUTDOWN_TIMEOUT_MS = 10_000

/** `gatehouse serve`: serves clients over HTTP until it is stopped. */
export async function serve(args: readonly string[]): Promise<number> {
  const [options, source] = readServed(args, ['config', 'host', 'port', 'log-level'])
  const log = openLog(options.logLevel, process.stderr.isTTY)
  // The URL is printed only once it is served.
  const foreseen = await foresee(source)
  tell(foreseen, source)
  if (foreseen.length > 0) return 1
  // From here on there is something to end in order.
  const stopped = untilStopped({ onHangUp: process.stderr.isTTY })
  const gateway = new Gateway(source.settings, { variables: environment(), log })
  const listener = await gateway.listen().catch(async (error: unknown) => {
    // What it opened would keep the process.
    await gateway.close()
    throw new Error(bindProblem(error, source.settings), { cause: error })
  })
  process.stdout.write(
    welcome(listener.url, source.settings, { code: gateway.operatorCode, key: await gateway.key() }),
  )
  const watch = follow(source, gateway, log)
  const warmed = gateway.start()
  const found = await Promise.race([warmed, stopped.then(() => [])])
  const isServing = goesOn(found, source, log)
  if (isServing) process.stdout.write(unavailableText(gateway.statuses))
  if (isServing) await stopped
  log.info('stopping')
  watch?.close()
  await listener.drain(SHUTDOWN_TIMEOUT_MS)
  await Promise.all([gateway.close(), listener.close()])
  return isServing ? 0 : 1
}

/** Goes on with each good version of the file. */
function follow(source: Source, gateway: Gateway, log: Log): { close(): void } | undefined {
  const { file, text } = source
  if (file === undefined || text === undefined) return undefined
  const bound = source.settings.listen
  const onChange = async (changed: string): Promise<void> => {
    try {
      const settings = source.read(changed)
      await gateway.reload(settings)
      log.info('config.reloaded', { file })
      for (const key of ['host', 'port'] as const) {
        if (settings.listen[key] === bound[key]) continue
        const reason = `the gateway goes on listening on ${bound.host}:${bound.port}: start it again to change that`
        log.warn('config.not_applied', { file, key: `listen.${key}`, value: settings.listen[key], reason })
      }
    } catch (error) {
      log.error('config.rejected', { file, reason: error instanceof Error ? error.message : String(error) })
    }
  }
  const onUnusable = (state: 'missing' | 'empty'): void => {
    const what = state === 'missing' ? 'the file is not there any more' : 'the file is empty'
    const reason = `${what}: the gateway goes on with the settings it had`
    log.warn('config.not_applied', { file, reason })
  }
  return watchFile(file, { text, onChange: (changed) => void onChange(changed), onUnusable })
}

/** The servers that cannot be reached, and why; nothing where there is none. */
function unavailableText(statuses: Gateway['statuses']): string {
  const away = [...statuses].flatMap(([name, { problem }]) =>
    problem === undefined ? [] : [[name, problem] as const],
  )
  if (away.length === 0) return ''
  const width = Math.max(...away.map(([name]) => name.length))
  const lines = away.map(([name, problem]) => `  ${name.padEnd(width)}  ${problem}`)
  return [
    `Not available: ${away.length} of ${statuses.size} ${statuses.size === 1 ? 'server' : 'servers'}. The gateway keeps trying.`,
    ...lines,
    '',
    '',
  ].join('\n')
}

interface Welcome {
  /** What approves calls on the page. */
  readonly code: string | undefined
  /** The gateway's own key. */
  readonly key: string | undefined
}

function welcome(url: string, settings: Settings, { code, key }: Welcome): string {
  const { listen, upstreams, features, auth } = settings
  const base = (listen.publicUrl ?? url).replace(/\/$/, '')
  const endpoint =
    listen.aggregate || upstreams.length === 1 ? `${base}/mcp` : `${base}/mcp/${upstreams[0]?.name}`
  const width = Math.max(...upstreams.map(({ name }) => name.length))
  const each = upstreams.map(({ name }) => `  ${name.padEnd(width)}  ${base}/mcp/${name}`)
  const needsToken = isProtected(auth) && auth.authorizationServers.length === 0
  const [claude] = clientSnippets({ endpoints: { gatehouse: endpoint }, needsToken }).flatMap(
    ({ client, command }) => (command === undefined ? [] : [`In ${client}: ${command}`]),
  )
  const snippet = { mcpServers: { gatehouse: { type: 'http', url: endpoint } } }
  return [
    `Gatehouse serves ${endpoint}`,
    ...each,
    '',
    `The page for people is ${base}/`,
    ...(claude === undefined ? [] : [claude]),
    ...(key === undefined || settings.store.kind === 'memory'
      ? []
      : [`For clients that start their servers: gatehouse stdio ${endpoint} --gateway-key ${key}`]),
    ...(code !== undefined && features.confirm
      ? [`To approve calls at ${base}/confirm use the code ${code}`]
      : []),
    '',
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

/** `gatehouse stdio`: is itself a stdio MCP server, until its client closes it. */
export async function stdio(args: readonly string[]): Promise<number> {
  const [options, source] = readServed(args, ['config', 'log-level'])
  const log = openLog(options.logLevel, process.stderr.isTTY)
  const foreseen = await foresee(source)
  tell(foreseen, source)
  if (foreseen.length > 0) return 1
  const stopped = untilStopped({ onHangUp: true })
  const gateway = new Gateway(source.settings, { variables: environment(), log })
  const ended = Promise.race([gateway.stdio(process.stdin, process.stdout), stopped])
  const found = await Promise.race([gateway.start(), ended.then(() => [])])
  const isServing = goesOn(found, source, log)
  if (isServing) await ended
  await gateway.close()
  process.stdin.destroy()
  return isServing ? 0 : 1
}

interface Options {
  /** Also when the terminal is closed. What was started to outlive its terminal, with nohup, has none for its stderr. */
  readonly onHangUp: boolean
}

/** Resolves when the process is asked to stop; asked again, it ends at once. */
function untilStopped({ onHangUp }: Options): Promise<void> {
  return new Promise((resolve) => {
    let isAsked = false
    const stop = (): void => {
      if (isAsked) process.exit(1)
      isAsked = true
      resolve()
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
    if (onHangUp) process.on('SIGHUP', stop)
  })
}

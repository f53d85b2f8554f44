/**
 * `gatehouse serve` and `gatehouse stdio`: run a gateway until a signal or the end of the input, and reload the
 * configuration file when it changes.
 */
import { dirname, join } from 'node:path'
import { Writable } from 'node:stream'
import { LOCK_FILE, lockStamp, modeOf } from '../config/lock.ts'
import { joinCommand } from '../core/text/command-line.ts'
import { areSeveral } from '../config/sections/workers.ts'
import { watchFile } from '../config/watch.ts'
import { isProtected } from '../core/auth-settings.ts'
import { collectAll } from '../core/collect.ts'
import type { Finding } from '../core/findings.ts'
import type { Log } from '../core/log.ts'
import { isStoreShared, type Settings } from '../core/settings.ts'
import { stdioWords } from '../descriptions/model/facts.ts'
import { clientSnippets } from '../downstream/pages/client-snippets.ts'
import { openLog } from '../observability/log.ts'
import type { Gateway } from '../gateway/gateway.ts'
import { checkPlaces, reportStartup, printProblems } from './check.ts'
import type { Given } from './command.ts'
import type { commands } from './commands.ts'
import { type Io, type Worker, write, writeError } from './io.ts'
import { countText } from '../core/text/words.ts'
import { type Output } from './output.ts'
import { openGateway, readServed, type Source } from './source.ts'

/** The time in-flight calls have to finish at shutdown, in milliseconds. */
export const SHUTDOWN_TIMEOUT_MS = 10_000

/** Serves clients over HTTP in this process until it is stopped. */
export async function serve(given: Given<typeof commands.serve>, io: Io): Promise<Output> {
  const { worker } = io
  const source = readServed(given, worker === undefined || worker.number === 1 ? io : withoutWarnings(io))
  const log = openLog(given.logLevel, io)
  // The URL is printed only once it accepts connections.
  const problems = await checkPlaces(source, io)
  printProblems(problems, source, io)
  if (problems.length > 0) return 1
  // From here on, a signal starts an orderly shutdown.
  const stopped = io.untilStopped(io.stderr.isTTY)
  const settings = await withPort(source.settings, worker)
  const gateway = openGateway(settings, { io, log, workers: worker?.metrics })
  // What each of several processes holds counts as often as there are processes, and nobody waits for this one yet.
  if (worker) collectAll()
  const listener = await gateway.listen().catch(async (error: unknown) => {
    // Open handles would keep the process alive.
    await gateway.close()
    throw new Error(bindProblem(error, settings), { cause: error })
  })
  write(welcome(listener.url, gateway, await gateway.key()), io)
  const watch = reloadOnChange(source, gateway, { log })
  const started = gateway.start()
  const found = await Promise.race([started, stopped.then(() => [])])
  const isServing = reportStartup(found, source, { io, log: worker?.isFirst === false ? withoutLines : log })
  if (isServing) write(unavailableText(gateway.statuses), io)
  if (isServing) worker?.serving({ host: settings.listen.host, port: settings.listen.port })
  if (isServing) await Promise.race([stopped, gateway.drained])
  log.info('stopping')
  watch?.close()
  await listener.drain(SHUTDOWN_TIMEOUT_MS)
  await Promise.all([gateway.close(), listener.close()])
  return isServing ? 0 : 1
}

/**
 * The settings of a worker with a port, where any is fine: all workers listen on the same one, also one that starts when no other one
 * listens any more. @throws why there is none
 */
async function withPort(settings: Settings, worker: Worker | undefined): Promise<Settings> {
  const { listen } = settings
  if (!worker || listen.port !== 0) return settings
  const port = await worker.freePort(listen.host).catch((error: unknown) => {
    throw new Error(bindProblem(error, settings), { cause: error })
  })
  return { ...settings, listen: { ...listen, port } }
}

/** The same, for a worker that reads what another one has told about. */
function withoutWarnings(io: Io): Io {
  const stderr = new Writable({ write: (_chunk, _encoding, done) => done() })
  return Object.create(io, { stderr: { value: stderr } })
}

const withoutLines: Log = {
  debug: () => undefined,
  info: () => undefined,
  warn: () => undefined,
  error: () => undefined,
}

/**
 * Reloads the gateway with each valid version of the file, of the file with its variables, and of the lock beside it; with
 * `lockOnly`, only with those of the lock.
 */
function reloadOnChange(
  source: Source,
  gateway: Gateway,
  { log, lockOnly = false }: { readonly log: Log; readonly lockOnly?: boolean },
): { close(): void } | undefined {
  const { file, text, variables } = source
  if (file === undefined || text === undefined) return undefined
  const bound = source.settings.listen
  let current = text
  const reload = async (changed: string): Promise<void> => {
    try {
      const settings = source.read(current)
      await gateway.reload(settings)
      log.info('config.reloaded', { file: changed })
      for (const key of ['host', 'port'] as const) {
        if (settings.listen[key] === bound[key]) continue
        const reason = `the gateway still listens on ${bound.host}:${bound.port}: restart it to change that`
        log.warn('config.not_applied', { file, key: `listen.${key}`, value: settings.listen[key], reason })
      }
      if (settings.workers !== source.settings.workers) {
        const reason = `as many serve as before, ${source.settings.workers}: restart the gateway to change that`
        log.warn('config.not_applied', { file, key: 'workers', value: settings.workers, reason })
      }
    } catch (error) {
      log.error('config.rejected', {
        file: changed,
        reason: error instanceof Error ? error.message : String(error),
      })
    }
  }
  const onUnusable = (state: 'missing' | 'empty'): void => {
    const what = state === 'missing' ? 'the file no longer exists' : 'the file is empty'
    const reason = `${what}: the gateway keeps its previous settings`
    log.warn('config.not_applied', { file, reason })
  }
  const onChange = (changed: string): void => {
    current = changed
    void reload(file)
  }
  const watches = [watchLock(join(dirname(file), LOCK_FILE), { gateway, log, reload })]
  if (!lockOnly) watches.push(watchFile(file, { text, onChange, onUnusable }))
  if (!lockOnly && variables !== undefined)
    watches.push(
      watchFile(variables.file, { text: variables.text, onChange: () => void reload(variables.file) }),
    )
  return { close: () => watches.forEach((watch) => watch.close()) }
}

interface LockWatch {
  readonly gateway: Gateway
  readonly log: Log
  reload(changed: string): Promise<void>
}

/** Reloads when the lock changes, if it matters. The file is large, so it is known by when it changed. */
function watchLock(lock: string, { gateway, log, reload }: LockWatch): { close(): void } {
  const isPinned = (): boolean =>
    gateway.settings.upstreams.some(({ name }) => modeOf(gateway.settings, name) !== undefined)
  return watchFile(lock, {
    text: gateway.settings.accepted?.stamp ?? '',
    read: lockStamp,
    onChange: (stamp) => {
      // A change of the configuration reads it as well.
      if (isPinned() && stamp !== gateway.settings.accepted?.stamp) void reload(lock)
    },
    onUnusable: () => {
      const reason = 'the file no longer exists: the gateway keeps what was accepted'
      if (gateway.settings.accepted) log.warn('config.not_applied', { file: lock, reason })
    },
  })
}

/** The unavailable servers and the reasons; empty if there are none. */
function unavailableText(statuses: Gateway['statuses']): string {
  const unavailable = [...statuses].flatMap(([name, { problem }]) =>
    problem === undefined ? [] : [[name, problem] as const],
  )
  if (unavailable.length === 0) return ''
  const width = Math.max(...unavailable.map(([name]) => name.length))
  const lines = unavailable.map(([name, problem]) => `  ${name.padEnd(width)}  ${problem}`)
  return [
    `Unavailable: ${unavailable.length} of ${countText(statuses.size, 'server')}. The gateway keeps trying.`,
    ...lines,
    '',
    '',
  ].join('\n')
}

/** What a gateway says once it serves; `key` is its own one. */
function welcome(url: string, gateway: Gateway, key: string | undefined): string {
  const { settings, operatorCode } = gateway
  const { listen, upstreams, features, auth } = settings
  const base = (listen.publicUrl ?? url).replace(/\/$/, '')
  const endpoint =
    listen.aggregate || upstreams.length === 1 ? `${base}/mcp` : `${base}/mcp/${upstreams[0]?.name}`
  const width = Math.max(...upstreams.map(({ name }) => name.length))
  const each = upstreams.map(({ name }) => `  ${name.padEnd(width)}  ${base}/mcp/${name}`)
  const needsToken = isProtected(auth) && auth.authorizationServers.length === 0
  const lasting = settings.store.kind === 'memory' ? undefined : key
  const connection = { needsToken, isProtected: isProtected(auth), key: lasting }
  const [claude] = clientSnippets({ endpoints: { gatehouse: endpoint }, ...connection }).flatMap(
    ({ client, command }) => (command === undefined ? [] : [`In ${client}: ${command}`]),
  )
  const snippet = { mcpServers: { gatehouse: { type: 'http', url: endpoint } } }
  return [
    `Gatehouse serves ${endpoint}`,
    ...each,
    '',
    `Web page: ${base}/`,
    `Console: ${base}/console`,
    ...(claude === undefined ? [] : [claude]),
    `For clients that use stdio: ${joinCommand(['gatehouse', ...stdioWords(endpoint, connection)])}`,
    ...(operatorCode === undefined
      ? approvalLines(gateway)
      : [
          `To open the console${features.confirm ? `, and to approve calls at ${base}/confirm` : ''}, enter the code ${operatorCode}`,
        ]),
    '',
    'Add this to the configuration of an MCP client:',
    JSON.stringify(snippet, null, 2),
    '',
    '',
  ].join('\n')
}

/** How people approve calls where they do not enter the code on a page. */
function approvalLines({ settings, approvalCode }: Gateway): readonly string[] {
  // A gateway behind this one asks for the approvals of its calls itself.
  const isAsking = settings.upstreams.some(({ gatewayKey }) => gatewayKey === undefined)
  if (!settings.features.confirm || !isStoreShared(settings) || !isAsking) return []
  return [
    `To approve calls, run ${approvalsCommand(settings)} in a terminal, and enter the code ${approvalCode}`,
  ]
}

/** The command with which a person at a terminal finds the calls that wait, from any folder of this machine. */
function approvalsCommand({ file, store }: Pick<Settings, 'file' | 'store'>): string {
  const command = ['gatehouse', 'approvals', 'list']
  if (file !== undefined) return joinCommand([...command, '--config', file])
  return joinCommand(store.kind === 'folder' ? [...command, '--store', store.path] : command)
}

export function bindProblem(error: unknown, { listen }: Settings): string {
  const code = error instanceof Error && 'code' in error ? error.code : undefined
  const address = `${listen.host}:${listen.port}`
  if (code === 'EADDRINUSE')
    return `${address} is in use by another program. Choose another port with --port.`
  if (code === 'EACCES')
    return `${address} cannot be used by this user. Choose a port above 1023 with --port.`
  if (code === 'EADDRNOTAVAIL') return `${listen.host} is not an address of this machine.`
  return error instanceof Error ? error.message : String(error)
}

/** `gatehouse stdio`: runs as a stdio MCP server until its client closes the input. */
export async function stdio(given: Given<typeof commands.stdio>, io: Io): Promise<Output> {
  const source = readServed(given, io)
  const log = openLog(given.logLevel, io)
  const problems = [...workerProblems(source.settings), ...(await checkPlaces(source, io))]
  printProblems(problems, source, io)
  if (problems.length > 0) return 1
  const stopped = io.untilStopped(true)
  const gateway = openGateway(source.settings, { io, log })
  for (const line of approvalLines(gateway)) writeError(`${line}\n`, io)
  const ended = Promise.race([gateway.stdio(io.stdin, io.stdout), stopped])
  const watch = reloadOnChange(source, gateway, { log, lockOnly: true })
  const found = await Promise.race([gateway.start(), ended.then(() => [])])
  const isServing = reportStartup(found, source, { io, log })
  if (isServing) await ended
  watch?.close()
  await gateway.close()
  io.stdin.destroy()
  return isServing ? 0 : 1
}

/** One client on a pipe has one process. */
function workerProblems({ workers }: Settings): readonly Finding[] {
  if (!areSeveral(workers)) return []
  const message =
    'gatehouse stdio serves its client with one process: remove this, or run gatehouse serve, and connect the client to its URL'
  return [{ path: ['workers'], message }]
}

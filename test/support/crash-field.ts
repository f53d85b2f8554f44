import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from './condition.ts'
import { type EffectsServer, effectsCommand, serversOf, startEffects } from './effects.ts'
import { type CommandOptions, type CommandProcess, startCommandProcess } from './gateway-process.ts'
import { steadyPort } from './steady-port.ts'
import type { Json } from './server/json.ts'

/** A gateway that can be killed, and started again on its port. */
export interface MortalGateway {
  readonly url: string
  /** Its address without a path. */
  readonly origin: string
  /** The id of its process; 0 if it was never started. */
  pid(): number
  kill(): Promise<void>
  /** Asks it to end, as a supervisor does; resolves once it has. @throws Error if it fails */
  stop(): Promise<void>
  /** Stops its process where it is, until it goes on. */
  freeze(): void
  thaw(): void
  start(): Promise<void>
  /** Resolves once it does not run. */
  ended(): Promise<unknown>
}

/** Where a gateway is: it listens on loopback if there is no host. */
export type MortalOptions = CommandOptions & { readonly host?: string | undefined }

/** Gateways that share a store, in front of a server of effects. */
export interface CrashField {
  readonly gateways: readonly [MortalGateway, ...MortalGateway[]]
  /** The file the effects are lines of. */
  readonly log: string
  /** Kills what does the effects, wherever it runs; it is there again when this resolves, or when it is needed. */
  killServer(): Promise<void>
  /** Resolves once what was begun by servers that outlived their gateways is done. */
  settled(): Promise<void>
  close(): Promise<void>
}

/** MORTAL_LOG=info shows what gateways did before they were killed. */
const LOG_LEVEL = process.env['MORTAL_LOG'] ?? 'error'

interface FieldOptions {
  readonly upstream: 'stdio' | 'http'
  /** A URL of Redis; a folder of the field's own where it is absent. */
  readonly store?: string
  readonly gateways: number
  /** The settings of the tools of the server. */
  readonly tools: Json
  /** The limits of its calls; the usual ones where not given. */
  readonly limits?: Json
}

/** Starts gateways and their server. */
export async function startField(options: FieldOptions): Promise<CrashField> {
  const { upstream, store, gateways, tools, limits } = options
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-crash-'))
  const log = join(folder, 'effects.log')
  const server = upstream === 'http' ? await startEffects(log, await steadyPort()) : undefined
  const reach = server ? { url: server.url } : { command: effectsCommand(log) }
  const configFile = join(folder, 'gateway.config.yaml')
  const settings = { ...reach, tools, trust: true }
  const config = {
    store: store ?? join(folder, 'store'),
    ...(limits && { limits }),
    // A server that was killed is back at once.
    features: { breaker: { pause: '250ms' } },
    upstreams: { effects: settings },
  }
  writeFileSync(configFile, JSON.stringify(config))
  const made = await Promise.all(Array.from({ length: gateways }, () => mortal(configFile, '/mcp/effects')))
  const close = async (): Promise<void> => {
    await Promise.all(made.map((each) => each.kill()))
    await server?.kill()
    for (const pid of serversOf(log)) process.kill(pid, 'SIGKILL')
    rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
  }
  const started = await startAll(made, close)
  const settled = async (): Promise<void> => {
    if (server) return server.settled()
    await until(() => serversOf(log).length <= gateways, 'the servers of killed gateways to end')
  }
  return { gateways: started, log, killServer: () => killServer(server, log), settled, close }
}

/** Starts the gateways of a field. If one does not start, closes the field. */
export async function startAll(
  gateways: readonly MortalGateway[],
  close: () => Promise<void>,
): Promise<readonly [MortalGateway, ...MortalGateway[]]> {
  const [first, ...others] = gateways
  if (!first) throw new TypeError('A field has a gateway at least')
  try {
    await Promise.all(gateways.map((each) => each.start()))
  } catch (error) {
    await close()
    throw error
  }
  return [first, ...others]
}

/** A gateway that is not yet started; `path` is that of its endpoint, `options` are asked for at each start. */
export async function mortal(
  configFile: string,
  path: string,
  options: () => MortalOptions = () => ({}),
): Promise<MortalGateway> {
  const port = await steadyPort()
  const { host = '127.0.0.1' } = options()
  const origin = `http://${host}:${port}`
  let running: CommandProcess | undefined
  const start = async (): Promise<void> => {
    const place = ['--host', host, '--port', String(port)]
    const words = ['serve', '--config', configFile, ...place, '--log-level', LOG_LEVEL]
    const command = startCommandProcess(words, options())
    running = command
    const ended = command.ended.then(({ stderr, signal, code }) => {
      // It may be killed while it starts.
      if (signal !== 'SIGKILL' && code !== 0) throw new Error(`The gateway ended:\n${stderr}`)
      return true
    })
    await Promise.race([until(() => isReady(origin), 'the gateway to be ready'), ended])
  }
  const kill = async (): Promise<void> => {
    if (!running) return
    running.signal('SIGKILL')
    await running.ended
    await running.close()
  }
  return {
    url: `${origin}${path}`,
    origin,
    pid: () => running?.pid ?? 0,
    kill,
    stop: async () => {
      if (!running) return
      running.stop()
      const { code, stderr } = await running.ended
      if (code !== 0) throw new Error(`The gateway ended with ${code}:\n${stderr}`)
    },
    freeze: () => running?.signal('SIGSTOP'),
    thaw: () => running?.signal('SIGCONT'),
    start,
    ended: async () => running?.ended,
  }
}

async function killServer(server: EffectsServer | undefined, log: string): Promise<void> {
  if (!server) {
    for (const pid of serversOf(log)) process.kill(pid, 'SIGKILL')
    return
  }
  await server.kill()
  await server.start()
}

async function isReady(origin: string): Promise<boolean> {
  const response = await fetch(`${origin}/ready`)
  await response.body?.cancel()
  return response.status === 200
}

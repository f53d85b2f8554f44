/**
 * Commands and gateways in this process: the built product, with streams, an environment and a stop of its own. A test
 * whose subject is the process itself, such as its signals, its pipes or its memory, uses `gateway-process.ts`; so do all
 * of them where GATEHOUSE_COMMAND names another program.
 */
import { createRequire } from 'node:module'
import { checkAmbient } from './canary.ts'
import { until } from './condition.ts'
import {
  type Command,
  type CommandOptions,
  environmentWith,
  finished,
  type Finished,
  type GatewayOptions,
  type RunningGateway,
  serving,
  startCommandProcess,
} from './gateway-process.ts'
import { memoryIo } from './memory-io.ts'
import { isScattered, startScattered, workersOfEach } from './scattered.ts'
import type { Json } from './server/json.ts'

export type { Command, Finished, RunningGateway }

type InProcess = Omit<CommandOptions, 'program'> & {
  /** Its input and messages are a terminal. Only in this process. */
  readonly isTerminal?: boolean
}

/** Starts a command of the gateway. Closing it stops it, and waits until it has released everything. */
export function startCommand(args: readonly string[], options: InProcess = {}): Command {
  return process.env['GATEHOUSE_COMMAND'] === undefined
    ? startHere(args, options)
    : gently(startCommandProcess(args, options))
}

/** Runs a command of the gateway to its end. */
export function runCommand(args: readonly string[], options: InProcess = {}): Promise<Finished> {
  return finished(startCommand(args, options))
}

/** Starts a gateway on a free port with a configuration of its own, and waits until it is ready. */
export async function startGateway(config: Json, options: GatewayOptions = {}): Promise<RunningGateway> {
  const workers = workersOfEach()
  const command =
    workers > 0
      ? (...words: Parameters<typeof startCommandProcess>) => gently(startCommandProcess(...words))
      : startCommand
  const start = (each: Json, given: GatewayOptions): Promise<RunningGateway> => serving(each, given, command)
  if (!isScattered()) return start(config, options)
  const gateway = await startScattered(config, options, start)
  if (workers === 0) return gateway
  try {
    await until(async () => (await membersOf(gateway, options)) === workers, 'all workers')
    return gateway
  } catch (error) {
    await gateway.close()
    throw error
  }
}

/** How many of its workers serve; others may share their store. */
async function membersOf({ configFile, log }: RunningGateway, { env }: GatewayOptions): Promise<number> {
  const words = ['fleet', 'list', '--json', '--config', configFile]
  const { stdout } = await runCommand(words, { ...(env && { env }) })
  const { gateways } = JSON.parse(stdout) as { readonly gateways: readonly { readonly pid: unknown }[] }
  const started = log().filter(({ event }) => event === 'worker.started')
  const pids = new Set(started.map(({ pid }) => pid))
  return gateways.filter(({ pid }) => pids.size === 0 || pids.has(pid)).length
}

/** Loads what is built. An import would require a build before the types can be checked. */
const native = createRequire(import.meta.url)

function startHere(args: readonly string[], { cwd, env, isTerminal = false }: InProcess): Command {
  const { run } = native('../../dist/cli/run.js') as typeof import('../../src/cli/run.ts')
  const io = memoryIo({ env: environmentWith(env), isTerminal, ...(cwd !== undefined && { cwd }) })
  const { stdin, written, stop } = io
  const ended = run(args, io).then((code) => ({ code, signal: null, ...written }))
  return gently({
    stdin,
    stdout: () => written.stdout,
    stderr: () => written.stderr,
    stop,
    ended,
    close: async () => checkAmbient(written),
  })
}

/** The same, but closing it lets it end by itself first. */
function gently(command: Command): Command {
  return {
    ...command,
    close: async () => {
      command.stop()
      await command.ended
      await command.close()
    },
  }
}

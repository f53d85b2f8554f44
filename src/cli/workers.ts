/**
 * `gatehouse serve`, in one process or in several: this process then supervises them, and loads no gateway. The default is one
 * process without a supervisor.
 */
import { availableParallelism } from 'node:os'
import { loadWorkers } from '../config/load-sections.ts'
import type { Settings } from '../core/settings.ts'
import { openLog } from '../observability/log.ts'
import type { Given } from './command.ts'
import type { commands } from './commands.ts'
import { configFile, variablesOf } from './config-file.ts'
import { type Io } from './io.ts'
import type { Output } from './output.ts'
import { PLACE_VARIABLE } from './worker.ts'

type ServeOptions = Given<typeof commands.serve>

/** Serves as one process, as one of several workers, or as the supervisor of these. */
export async function serve(given: ServeOptions, io: Io): Promise<Output> {
  if (io.env[PLACE_VARIABLE] !== undefined) return serveAsWorker(given, io)
  const workers = given.workers ?? configured(given, io)
  const count = workers === 'auto' ? availableParallelism() : workers
  if (count > 1) return supervise(count, given, io)
  return (await import('./serve.ts')).serve(given, io)
}

/** How many processes the file says; one if it cannot be read, which then says why. */
function configured({ config, envFile, servers, command }: ServeOptions, io: Io): Settings['workers'] {
  if (servers.length > 0 || command !== undefined) return 1
  try {
    const { file, text } = configFile(config, io)
    return loadWorkers(text, { file, env: variablesOf(file, envFile, io) })
  } catch {
    return 1
  }
}

async function supervise(count: number, { logLevel }: ServeOptions, io: Io): Promise<number> {
  const { Supervisor, forkWorker } = await import('./supervisor.ts')
  const supervisor = new Supervisor({ count, fork: forkWorker, log: openLog(logLevel, io) })
  void io.untilStopped(io.stderr.isTTY).then(() => supervisor.stop())
  return supervisor.run()
}

async function serveAsWorker(given: ServeOptions, io: Io): Promise<Output> {
  const [{ workerIo }, serving] = await Promise.all([import('./worker.ts'), import('./serve.ts')])
  const own = workerIo(io)
  if (!own) return serving.serve(given, io)
  try {
    return await serving.serve({ ...given, ...own.worker.bound }, own)
  } finally {
    await own.worker.leave()
  }
}

/**
 * `gatehouse serve`, in one process or in several: this process then supervises them, and loads no gateway. The default is one
 * process without a supervisor.
 */
import { availableParallelism } from 'node:os'
import { loadSupervision } from '../config/load-sections.ts'
import type { Log } from '../core/log.ts'
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
  const configured = configuredIn(given, io)
  const workers = given.workers ?? configured.workers
  const count = workers === 'auto' ? availableParallelism() : workers
  if (count > 1) return supervise(count, openLog(given.logLevel ?? configured.logLevel, io), io)
  return (await import('./serve.ts')).serve(given, io)
}

/** What the file says of the processes: there is one if it cannot be read, which then says why. */
function configuredIn(
  { config, envFile, servers, command }: ServeOptions,
  io: Io,
): ReturnType<typeof loadSupervision> {
  if (servers.length > 0 || command !== undefined) return { workers: 1 }
  try {
    const { file, text } = configFile(config, io)
    return loadSupervision(text, { file, env: variablesOf(file, envFile, io) })
  } catch {
    return { workers: 1 }
  }
}

async function supervise(count: number, log: Log, io: Io): Promise<number> {
  const { Supervisor, forkWorker } = await import('./supervisor.ts')
  const supervisor = new Supervisor({ count, fork: forkWorker, log })
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

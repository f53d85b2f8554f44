/** Runs a test again whenever the configuration, or a file that starts a server, changes. */
import { statSync } from 'node:fs'
import { resolve } from 'node:path'
import { ConfigError, problemLine } from '../config/problem.ts'
import { readText } from '../config/secrets.ts'
import { type FileWatcher, watchFile } from '../config/watch.ts'
import type { UpstreamSettings } from '../core/settings.ts'
import { type Io, printError, writeError } from './io.ts'
import type { Source } from './options.ts'

interface Watched {
  readonly io: Io
  run(source: Source, signal: AbortSignal): Promise<number>
}

/** Runs until the process is to stop; the exit code is that of the last run. `server` is the only one that is tested. */
export async function watching(
  source: Source,
  server: string | undefined,
  { io, run }: Watched,
): Promise<number> {
  const stopping = new AbortController()
  const stopped = io.untilStopped({ onHangUp: true }).then(() => stopping.abort())
  let now = source
  let code = 0
  while (!stopping.signal.aborted) {
    // Watched before the run, so that a change during it is not missed.
    const change = new Change(now, server, io.cwd)
    try {
      code = await run(now, stopping.signal)
    } catch (error) {
      code = 1
      for (const line of linesOf(error)) printError(line, io)
    }
    if (!stopping.signal.aborted) writeError('waiting for a change; Ctrl-C ends it\n', io)
    const text = await Promise.race([change.text, stopped])
    change.close()
    if (typeof text === 'string') now = reread(now, text, io)
  }
  return code
}

/** The changed settings; those before if the file has mistakes, which are printed. */
function reread(source: Source, text: string, io: Io): Source {
  try {
    return { ...source, text, settings: source.read(text) }
  } catch (error) {
    for (const line of linesOf(error)) printError(line, io)
    printError('the settings before the change are tested', io)
    return { ...source, text }
  }
}

function linesOf(error: unknown): readonly string[] {
  if (error instanceof ConfigError) return error.problems.map(problemLine)
  return [error instanceof Error ? error.message : String(error)]
}

/** The first change of the files of some servers. */
class Change {
  /** The text of the configuration as it is then; empty without one. */
  readonly text: Promise<string>
  readonly #watchers: readonly FileWatcher[]

  constructor({ file, text = '', settings, variables }: Source, server: string | undefined, folder: string) {
    const { promise, resolve: changed } = Promise.withResolvers<string>()
    this.text = promise
    const servers = settings.upstreams.filter(({ name }) => server === undefined || name === server)
    const others = [
      ...(variables === undefined ? [] : [variables]),
      ...servers.flatMap((each) => filesOf(each, folder)),
    ]
    this.#watchers = [
      ...(file === undefined ? [] : [watchFile(file, { text, onChange: changed })]),
      ...[...new Set(others)].map((each) =>
        watchFile(each, {
          text: textIn(each),
          onChange: () => changed(file === undefined ? '' : textIn(file)),
        }),
      ),
    ]
  }

  close(): void {
    for (const watcher of this.#watchers) watcher.close()
  }
}

/** Larger files are not watched, in bytes. */
const MAX_SIZE = 2_000_000

/** The files among the words of the command that starts a server, such as `server.js`; not a program of the path. */
function filesOf({ reach }: UpstreamSettings, folder: string): readonly string[] {
  if (reach.kind === 'url') return []
  const { command, args, cwd = folder } = reach
  const own = /[\\/]/.test(command) ? [command] : []
  return [...own, ...args].map((word) => resolve(cwd, word)).filter(isSmallFile)
}

function isSmallFile(path: string): boolean {
  try {
    const found = statSync(path)
    return found.isFile() && found.size <= MAX_SIZE
  } catch {
    return false
  }
}

/** The text of a file that may not exist. */
function textIn(file: string): string {
  try {
    return readText(file)
  } catch {
    return ''
  }
}

import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { post } from './client/raw.ts'
import { isObject, parseExact } from './server/json.ts'

/** Something the server of effects did. Numbers are their digits. */
export interface Effect {
  readonly id: string
  readonly key: string
  readonly value: string
}

const program = fileURLToPath(new URL('effects-server.ts', import.meta.url))

/** The words that start a server whose tools have effects that are lines of a file. */
export function effectsCommand(file: string, more: readonly string[] = []): readonly string[] {
  return [process.execPath, program, '--log', file, ...more]
}

/** The effects a file tells of, the removed ones left out. */
export function effectsOf(file: string): readonly Effect[] {
  const lines = entriesOf(file)
  const removed = new Set(lines.map((line) => line.removed))
  return lines.flatMap(({ id = '', key = '', value = '', removed: isRemoval }) =>
    isRemoval === undefined && !removed.has(id) ? [{ id, key, value }] : [],
  )
}

/** The processes that have served a file and still run. */
export function serversOf(file: string): readonly number[] {
  return pidsOf(`${file}.pids`)
}

/** The processes of which the numbers are lines of a file, as far as they still run. */
export function pidsOf(file: string): readonly number[] {
  return linesOf(file).map(Number).filter(isRunning)
}

/** How often each key was added, by what the file tells. */
export function additionsOf(file: string): ReadonlyMap<string, number> {
  const keys = entriesOf(file).flatMap(({ key }) => key ?? [])
  return new Map([...Map.groupBy(keys, (key) => key)].map(([key, all]) => [key, all.length]))
}

/** A server of effects over HTTP, which can be killed and started again on its port. */
export interface EffectsServer {
  readonly url: string
  kill(): Promise<void>
  start(): Promise<void>
  /** Resolves once what was begun is done. */
  settled(): Promise<void>
}

/** Starts a server of effects over HTTP. */
export async function startEffects(
  file: string,
  port: number,
  more: readonly string[] = [],
): Promise<EffectsServer> {
  let child: ChildProcess | undefined
  const start = async (): Promise<void> => {
    const [command = '', ...args] = effectsCommand(file, ['--port', String(port), ...more])
    child = spawn(command, args, { stdio: ['ignore', 'pipe', 'inherit'] })
    if (!child.stdout) throw new Error('It has no output')
    await once(createInterface(child.stdout), 'line')
  }
  const kill = async (): Promise<void> => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }
  await start()
  const at = more.indexOf('--host')
  const url = `http://${at < 0 ? '127.0.0.1' : more[at + 1]}:${port}/mcp`
  const settled = async (): Promise<void> => {
    await post(url, '{"jsonrpc":"2.0","id":1,"method":"ping"}')
  }
  return { url, kill, start, settled }
}

/** The lines of a file, with all values as text. */
function entriesOf(file: string): readonly Partial<Effect & { readonly removed: string }>[] {
  return linesOf(file).map((line) => {
    const entry = parseExact(line)
    return Object.fromEntries(
      Object.entries(isObject(entry) ? entry : {}).map(([name, value]) => [name, String(value)]),
    )
  })
}

function linesOf(file: string): readonly string[] {
  const text = existsSync(file) ? readFileSync(file, 'utf8') : ''
  return text.split('\n').filter((line) => line !== '')
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    // A process that ended and was not waited for can still be signalled.
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'))
  } catch {
    return false
  }
}

/** A server on stdio that writes down its starts and ends, so that it is seen where it runs and when. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { shellServer } from './journey.ts'
import type { Json } from './server/json.ts'
import type { ServerOptions } from './server/options.ts'

export interface PlacedServer {
  /** Its settings: it runs in one of the gateways that share a store. */
  readonly settings: Json
  /** The ids of its processes, in the order of their starts. */
  starts(): readonly number[]
  /** Those that run now. */
  running(): readonly number[]
}

/** `home` is a folder for the notes of the server. */
export function placedServer(home: string, options: Partial<ServerOptions> = {}): PlacedServer {
  const file = join(home, 'starts')
  const settings = shellServer(`echo $$ >> ${file}`, options, { placement: 'one', cwd: home })
  const starts = (): number[] =>
    existsSync(file) ? readFileSync(file, 'utf8').trim().split('\n').map(Number) : []
  return { settings, starts, running: () => starts().filter(isRunning) }
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}

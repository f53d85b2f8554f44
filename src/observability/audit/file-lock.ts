/**
 * A file that one process at a time writes, for what is not in a store: of the processes that may write in a folder, some
 * share no store. It is no `Lease`: nothing tells a holder that it lost the lock, as one on another machine may that did not
 * touch it for longer than it takes to be stale.
 *
 * The lock is a file beside it that names its holder. A holder on this machine holds it until its process has ended; the
 * lock of one on another machine is stale when it was not touched for a while, by the clock of the file system.
 */
import { closeSync, openSync, readFileSync, renameSync, rmSync, statSync, writeSync } from 'node:fs'
import { hostname } from 'node:os'
import { parseJson } from '../../core/json/read.ts'
import { world } from '../../core/world.ts'

/** How often a holder touches its lock, and the age at which a lock is stale, in milliseconds. */
const HEARTBEAT_INTERVAL_MS = 20_000
const LOCK_STALE_MS = 90_000

/** A file that only this process may write. */
export interface FileLock {
  release(): void
}

/** Acquires a lock; undefined if another live process holds it. @throws the system error */
export function takeLock(path: string): FileLock | undefined {
  const token = world.randomUUID()
  if (!create(path, token) && !(takeOver(path, token) && create(path, token))) return undefined
  const isOurs = (): boolean => read(path)?.token === token
  const beat = world
    .setInterval(() => {
      if (isOurs()) beatAt(path)
    }, HEARTBEAT_INTERVAL_MS)
    .unref()
  held.add(path)
  return {
    release: () => {
      world.clearInterval(beat)
      held.delete(path)
      if (isOurs()) rmSync(path, { force: true })
    },
  }
}

/** The locks of this process. */
const held = new Set<string>()

function create(path: string, token: string): boolean {
  try {
    const file = openSync(path, 'wx', 0o600)
    writeSync(file, JSON.stringify({ pid: world.processId(), host: hostname(), token }))
    closeSync(file)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  }
}

/** Removes a lock whose holder has exited. */
function takeOver(path: string, token: string): boolean {
  const found = read(path)
  if (held.has(path) || (found && isAlive(found, path))) return false
  const aside = `${path}.${token}`
  try {
    renameSync(path, aside)
    // Another process may have taken it over: then this is its lock.
    const isSame = read(aside)?.token === found?.token
    if (!isSame) renameSync(aside, path)
    rmSync(aside, { force: true })
    return isSame
  } catch {
    return false
  }
}

interface Holder {
  readonly pid: number
  readonly host: string
  readonly token: string
}

function isAlive({ pid, host }: Holder, path: string): boolean {
  // The same process id on the same host is an earlier run, as in a restarted container.
  if (host !== hostname()) return timeBeside(path) - statSync(path).mtimeMs < LOCK_STALE_MS
  return pid !== world.processId() && world.isRunning(pid)
}

/** Writes the first byte again: then the file has the time of its file system, as clocks of machines differ. */
function beatAt(path: string): void {
  const file = openSync(path, 'r+')
  try {
    writeSync(file, '{', 0)
  } finally {
    closeSync(file)
  }
}

/** The time by the clock of the file system, in milliseconds since 1970. */
function timeBeside(path: string): number {
  const probe = `${path}.${world.randomUUID()}`
  closeSync(openSync(probe, 'wx', 0o600))
  try {
    return statSync(probe).mtimeMs
  } finally {
    rmSync(probe, { force: true })
  }
}

function read(path: string): Holder | undefined {
  try {
    const holder: unknown = parseJson(readFileSync(path, 'utf8'))
    return isHolder(holder) ? holder : undefined
  } catch {
    return undefined
  }
}

function isHolder(value: unknown): value is Holder {
  if (typeof value !== 'object' || value === null) return false
  return 'pid' in value && 'host' in value && 'token' in value && typeof value.pid === 'number'
}

import { randomUUID } from 'node:crypto'
import {
  closeSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  utimesSync,
  writeSync,
} from 'node:fs'
import { hostname } from 'node:os'

/** How often a lock is shown to be held, and after which silence it is not, in milliseconds. */
const HEARTBEAT_INTERVAL_MS = 20_000
const LOCK_STALE_MS = 90_000

/** A file only this process may write to. */
export interface FileLock {
  release(): void
}

/** Takes a lock; nothing where another process that lives has it. @throws the system's error */
export function takeLock(path: string): FileLock | undefined {
  const token = randomUUID()
  if (!create(path, token) && !(takeOver(path, token) && create(path, token))) return undefined
  const isOurs = (): boolean => read(path)?.token === token
  const beat = setInterval(() => {
    const now = new Date()
    if (isOurs()) utimesSync(path, now, now)
  }, HEARTBEAT_INTERVAL_MS).unref()
  held.add(path)
  return {
    release: () => {
      clearInterval(beat)
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
    writeSync(file, JSON.stringify({ pid: process.pid, host: hostname(), token }))
    closeSync(file)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  }
}

/** Puts away a lock whose holder has ended. */
function takeOver(path: string, token: string): boolean {
  const found = read(path)
  if (held.has(path) || (found && isAlive(found, path))) return false
  const aside = `${path}.${token}`
  try {
    renameSync(path, aside)
    // Another may have been quicker: then this is its lock.
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
  // The same id on the same host is an earlier life of this process, as in a container that was started again.
  if (host !== hostname()) return Date.now() - statSync(path).mtimeMs < LOCK_STALE_MS
  return pid !== process.pid && isRunning(pid)
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

function read(path: string): Holder | undefined {
  try {
    const holder: unknown = JSON.parse(readFileSync(path, 'utf8'))
    return isHolder(holder) ? holder : undefined
  } catch {
    return undefined
  }
}

function isHolder(value: unknown): value is Holder {
  if (typeof value !== 'object' || value === null) return false
  return 'pid' in value && 'host' in value && 'token' in value && typeof value.pid === 'number'
}

/**
 * Data as files, for servers on this machine whose tools take a path. Each file is alone in a private folder, which is
 * removed after the call.
 *
 * Invariants: no file that exists is written to; a folder belongs to one call at a time. The same data has the same path
 * as long as no other call uses it, so an approval or an idempotency key also holds for a call that is made again.
 */
import { createHash, randomUUID } from 'node:crypto'
import { lstat, mkdir, open, readdir, readFile, realpath, rm, utimes, writeFile } from 'node:fs/promises'
import { hostname, tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Call, isOpen, type Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject, readJson } from '../../core/json/json.ts'
import { background, type Log } from '../../core/log.ts'
import type { Bytes } from '../../store/blobs/blobs.ts'
import { fileName } from './file-name.ts'

/** What a file is made of. */
export interface NewFile {
  /** What identifies the data and its place in the arguments, for its path. */
  readonly key: readonly string[]
  /** What people call the data, and its media type: the name of the file is made of both. */
  readonly name: string
  readonly type: string
  readonly bytes: Bytes
}

interface Options {
  /** The absolute path of the folder of all files; without one, a folder of this user among the temporary files. */
  readonly folder?: string | undefined
  /** How large the files of all calls may be together, in bytes. */
  readonly total: number
  readonly log: Log
}

/** The key of this layer in a call's request state. */
const STATE_KEY = 'reference_files'
/** The beginning of the names of folders, and the file that says whose one is. */
const PREFIX = 'gatehouse-'
const OWNER = '.owner'
/** How many calls may use the same data as a file at once. */
const MAX_COPIES = 100
/** How many calls may leave files to their continuation, and for how long, in milliseconds. */
const MAX_HELD_CALLS = 1000
const HELD_MS = 3_600_000
/** A folder whose owner cannot be found out is deleted once it is this old, in milliseconds. */
const STALE_MS = 600_000

/** The files of one folder, for the calls of all servers that it belongs to. */
export class ReferenceFiles {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  /** The files of a call: new ones, or those of an earlier round of the same call. */
  begin({ requestState, principal }: Call): CallFiles {
    const id = requestState[STATE_KEY]
    const held = typeof id === 'string' ? own.held.get(id) : undefined
    if (typeof id !== 'string' || held?.caller !== principal.id)
      return new CallFiles(principal.id, this.#options)
    own.held.delete(id)
    return held
  }

  /** Deletes what processes that ended left behind, and says that the folders of this one are in use. */
  async sweep(): Promise<void> {
    const folder = this.#options.folder ?? defaultFolder()
    for (const name of await namesIn(folder)) {
      const path = join(folder, name)
      if (own.live.has(path)) await utimes(path, new Date(), new Date()).catch(() => undefined)
      else if (name.startsWith(PREFIX) && (await isAbandoned(path)))
        await rm(path, { recursive: true, force: true })
    }
  }
}

/** The files of one call. */
export class CallFiles {
  readonly caller: string
  readonly #options: Options
  readonly #paths = new Map<string, string>()
  readonly #folders = new Map<string, number>()

  constructor(caller: string, options: Options) {
    this.caller = caller
    this.#options = options
  }

  /**
   * Writes a file, and resolves with its path. In a later round of the same call, the file that is already there.
   * @throws QUOTA_EXHAUSTED, SERVER_UNAVAILABLE, OVERLOADED, and what the bytes end with
   */
  async write({ key, name, type, bytes }: NewFile): Promise<string> {
    const digest = createHash('sha256')
      .update(JSON.stringify([this.caller, ...key]))
      .digest('hex')
    const known = this.#paths.get(digest)
    if (known !== undefined) return known
    const folder = await this.#claim(digest.slice(0, 32))
    this.#folders.set(folder, 0)
    const path = join(folder, fileName(name, type))
    await attempt(() => this.#fill(folder, path, bytes))
    this.#paths.set(digest, path)
    return path
  }

  /** Deletes the files; after an outcome from which the server goes on with them, they stay for the next round. */
  async after(outcome: Outcome): Promise<Outcome> {
    if (this.#folders.size === 0) return outcome
    if (outcome.kind === 'result' || !isOpen(outcome)) {
      await this.remove()
      return outcome
    }
    const withdrawn = outcome.kind === 'input_required' ? outcome.withdrawn : undefined
    const id = own.hold(this, () => background(this.remove(), this.#options.log), withdrawn)
    return { ...outcome, requestState: { ...outcome.requestState, [STATE_KEY]: id } }
  }

  /** Deletes the files. What cannot be deleted is left to the next sweep. */
  async remove(): Promise<void> {
    for (const [folder, size] of this.#folders) {
      await rm(folder, { recursive: true, force: true }).catch((error: unknown) =>
        this.#options.log.warn('references.file_not_deleted', { folder, reason: String(error) }),
      )
      own.live.delete(folder)
      own.size -= size
    }
    this.#folders.clear()
    this.#paths.clear()
  }

  /** A new folder, for which no other call has a file. */
  async #claim(digest: string): Promise<string> {
    const base = await privateFolder(this.#options.folder)
    for (let copy = 1; copy <= MAX_COPIES; copy++) {
      const folder = join(base, `${PREFIX}${digest}${copy === 1 ? '' : `-${copy}`}`)
      if (own.live.has(folder)) continue
      // A sweep must not find it without its owner.
      own.live.add(folder)
      try {
        await attempt(() => mkdir(folder, { mode: 0o700 }))
        return folder
      } catch (error) {
        own.live.delete(folder)
        if (codeOf(error) !== 'EEXIST') throw error
      }
    }
    throw new GatewayError('OVERLOADED', 'Too many calls use this data as a file.', { isUnsent: true })
  }

  async #fill(folder: string, path: string, bytes: Bytes): Promise<void> {
    const owner = { host: hostname(), pid: process.pid }
    await writeFile(join(folder, OWNER), JSON.stringify(owner), { flag: 'wx', mode: 0o600 })
    const file = await open(path, 'wx', 0o600)
    try {
      for await (const chunk of bytes) {
        own.size += chunk.byteLength
        this.#folders.set(folder, (this.#folders.get(folder) ?? 0) + chunk.byteLength)
        if (own.size > this.#options.total) throw noRoom(this.#options.total)
        await file.writeFile(chunk)
      }
    } finally {
      await file.close()
    }
  }
}

/** The files of this process. */
class ProcessFiles {
  /** The folders in use. */
  readonly live = new Set<string>()
  readonly held = new Map<string, CallFiles>()
  /** The size of all files, in bytes. */
  size = 0

  /** Keeps the files of a call for its next round, until that is due no more. */
  hold(files: CallFiles, remove: () => void, withdrawn: AbortSignal | undefined): string {
    const id = randomUUID()
    const end = (): void => {
      if (this.held.delete(id)) remove()
    }
    this.held.set(id, files)
    setTimeout(end, HELD_MS).unref()
    withdrawn?.addEventListener('abort', end, { once: true })
    const [oldest] = this.held
    if (this.held.size > MAX_HELD_CALLS && oldest) {
      this.held.delete(oldest[0])
      void oldest[1].remove()
    }
    return id
  }
}

/** They outlive the runtime whose calls use them: it may be replaced meanwhile. */
const own = new ProcessFiles()

function defaultFolder(): string {
  return join(tmpdir(), `gatehouse-references-${process.getuid?.() ?? 'user'}`)
}

/** The folder of all files, which is created. @throws SERVER_UNAVAILABLE if others can change what is in it */
async function privateFolder(given: string | undefined): Promise<string> {
  const folder = given ?? defaultFolder()
  try {
    await attempt(() => mkdir(folder, { recursive: true, mode: 0o700 }))
  } catch (error) {
    if (codeOf(error) !== 'EEXIST') throw error
  }
  const problem = await folderProblem(folder)
  if (problem !== undefined) throw unusable(`${folder} ${problem}`)
  return realpath(folder)
}

/** Why a folder cannot have files of references; undefined if it can, or does not exist yet. */
export async function folderProblem(folder: string): Promise<string | undefined> {
  const found = await lstat(folder).catch((error: unknown) => {
    if (codeOf(error) === 'ENOENT') return undefined
    throw error
  })
  if (!found) return undefined
  if (!found.isDirectory()) return 'is not a folder'
  const user = process.getuid?.()
  if (user !== undefined && found.uid !== user) return 'belongs to another user'
  // The sticky bit keeps others from renaming what is not theirs.
  const isOpenToOthers = (found.mode & 0o022) !== 0 && (found.mode & 0o1000) === 0
  return isOpenToOthers ? 'can be written by other users' : undefined
}

/** Whether the process that a folder belongs to has ended. */
async function isAbandoned(folder: string): Promise<boolean> {
  const found = await lstat(folder).catch(() => undefined)
  if (!found?.isDirectory()) return false
  if (found.mtimeMs < Date.now() - STALE_MS) return true
  const text = await readFile(join(folder, OWNER), 'utf8').catch(() => '')
  const value = readJson(text)
  if (!isObject(value) || value.host !== hostname() || typeof value.pid !== 'number') return false
  // No call of this process has it, so it belonged to another one with the same number.
  return value.pid === process.pid || !isRunning(value.pid)
}

function isRunning(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch (error) {
    return codeOf(error) !== 'ESRCH'
  }
}

async function namesIn(folder: string): Promise<readonly string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (codeOf(error) === 'ENOENT' || codeOf(error) === 'ENOTDIR') return []
    throw error
  }
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

/** Runs an action on files; what the disk refuses is an error for callers, which names no path of this machine. */
async function attempt<Value>(act: () => Promise<Value>): Promise<Value> {
  try {
    return await act()
  } catch (error) {
    const code = codeOf(error)
    if (error instanceof GatewayError || code === 'EEXIST' || typeof code !== 'string') throw error
    if (code === 'ENOSPC' || code === 'EDQUOT')
      throw new GatewayError(
        'QUOTA_EXHAUSTED',
        'The disk of the gateway is full: the data cannot be a file.',
        {
          cause: error,
          reason: 'disk_full',
          category: 'transient',
          isUnsent: true,
        },
      )
    throw unusable(String(error), error)
  }
}

function unusable(problem: string, cause?: unknown): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The gateway cannot write files for references.', {
    cause,
    isUnsent: true,
    forOperator: `${problem}: set features.references.folder to a folder that only the gateway writes to.`,
    suggestion: 'Send the data in another form, such as ?as=text, or ask the operator of the gateway.',
  })
}

function noRoom(total: number): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', `Files of references may have ${total} bytes at once.`, {
    data: { limit: 'reference_files' },
    isUnsent: true,
    suggestion: 'Select a part of the data, or wait until other calls have ended.',
  })
}

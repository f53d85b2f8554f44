/**
 * Data as files, for servers on this machine whose tools take a path. Each file is alone in a private folder, which is
 * removed after the call.
 *
 * Invariants: no file that exists is written to; a folder belongs to one call at a time. The same data has the same path
 * as long as no other call uses it, so an approval or an idempotency key also holds for a call that is made again.
 */
import type { Finding } from '../../../core/findings.ts'
import { createHash, randomUUID } from 'node:crypto'
import {
  lstat,
  mkdir,
  mkdtemp,
  open,
  readdir,
  readFile,
  realpath,
  rm,
  rmdir,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Call, isOpen, type Outcome } from '../../../core/call.ts'
import { GatewayError, systemCodeOf } from '../../../core/error.ts'
import { Holdings } from '../../../core/holdings.ts'
import { background, type Log } from '../../../core/log.ts'
import { hasReachedShare, type Principal, shareOf } from '../../../core/principal.ts'
import type { Bytes } from '../../../store/blobs/blobs.ts'
import { folderProblem, isOwnPlace, plantedProblem } from '../../../store/private-folder.ts'
import type { Services, SettingsOf } from '../../feature.ts'
import { fileName } from '../kept-data.ts'
import { gatewayWide, type ReferenceSettings } from '../../settings/authorize.ts'

/** The files of each folder that the settings name: of one for all servers, and of others for single ones. */
export function fileFolders(
  settings: SettingsOf<ReferenceSettings | false>,
  { log, scope, servers }: Pick<Services, 'log' | 'scope' | 'servers'>,
): {
  at(folder: string | undefined): ReferenceFiles
  /** Those of all servers, used or not. */
  all(): readonly ReferenceFiles[]
  /** The folders that cannot be used. */
  problems(): readonly Finding[]
} {
  const { total } = gatewayWide(settings())
  const files = scope.once(GatewayFiles)
  const folders = (): (readonly [upstream: string | undefined, folder: string | undefined])[] =>
    [undefined, ...servers.names()].map((upstream) => [upstream, (settings(upstream) || {}).folder])
  const at = (folder: string | undefined): ReferenceFiles => new ReferenceFiles({ folder, total, files, log })
  return {
    at,
    all: () => [...new Set(folders().map(([, folder]) => folder))].map(at),
    problems: () =>
      folders().flatMap(([upstream, folder]): readonly Finding[] => {
        const isInherited = upstream !== undefined && folder === (settings() || {}).folder
        if (folder === undefined || isInherited) return []
        const message = folderProblem(folder) ?? plantedProblem(folder)
        const place = upstream === undefined ? [] : ['upstreams', upstream]
        return message === undefined
          ? []
          : [{ path: [...place, 'features', 'references', 'folder'], message }]
      }),
  }
}

/** What a file is made of. */
export interface NewFile {
  /** What identifies the data and its place in the arguments, for its path. */
  readonly key: readonly string[]
  /** What people call the data, and its media type: the name of the file is made of both. */
  readonly name: string
  readonly type: string
  readonly bytes: Bytes
}

interface FileFolder {
  /** The absolute path of the folder of all files; without one, a folder of this user among the temporary files. */
  readonly folder?: string | undefined
  /** How large the files of all calls may be together, in bytes; those of one caller, a quarter of it. */
  readonly total: number
  readonly files: GatewayFiles
  readonly log: Log
}

/** The key of this layer in a call's request state. */
const STATE_KEY = 'reference_files'
/** The names of folders, and the file that says which process has one. */
const PREFIX = 'gatehouse-'
const FOLDER = /^gatehouse-[0-9a-f]{32}(?:-\d{1,3})?$/
const OWNER = '.owner'
/** How many calls may use the same data as a file at once. */
const MAX_COPIES = 100
/** How many calls may leave files to their continuation, and for how long, in milliseconds. */
const MAX_HELD_CALLS = 1000
const HELD_MS = 3_600_000
/** How long a folder of another process may be untouched before it is deleted, in milliseconds. */
const STALE_MS = 600_000

/** The files of one folder, for the calls of all servers that it belongs to. */
export class ReferenceFiles {
  readonly #options: FileFolder

  constructor(options: FileFolder) {
    this.#options = options
  }

  /** The files of a call: new ones, or those of an earlier round of the same call. */
  begin({ requestState, principal }: Call): CallFiles {
    const { files } = this.#options
    return files.take(requestState[STATE_KEY], principal) ?? new CallFiles(principal, this.#options)
  }

  /** Deletes what processes that ended left behind, and touches the folders in use. */
  async sweep(): Promise<void> {
    const { folder: given, files, log } = this.#options
    await files.touch()
    const base = await usableFolder(given ?? defaultFolder())
    if (base === undefined) return
    const now = await timeIn(base)
    const names = await readdir(base)
    for (const folder of names.filter((name) => FOLDER.test(name)).map((name) => join(base, name)))
      await removeAbandoned(folder, now, files).catch((error: unknown) => warnOfFolder(log, folder, error))
  }
}

/** The files of one call. */
export class CallFiles {
  readonly caller: Principal
  readonly #options: FileFolder
  readonly #paths = new Map<string, string>()
  readonly #folders = new Map<string, number>()

  constructor(caller: Principal, options: FileFolder) {
    this.caller = caller
    this.#options = options
  }

  /**
   * Writes a file, and resolves with its path. In a later round of the same call, the file that is already there.
   * @throws QUOTA_EXHAUSTED, SERVER_UNAVAILABLE, OVERLOADED, and what the bytes end with
   */
  async write({ key, name, type, bytes }: NewFile): Promise<string> {
    const digest = createHash('sha256')
      .update(JSON.stringify([this.caller.id, ...key]))
      .digest('hex')
    const known = this.#paths.get(digest)
    if (known !== undefined) return known
    // Once the call is made, its files may have to be held.
    if (this.#options.files.isFull(this.caller)) throw tooManyHeld()
    const folder = await this.#claim(digest.slice(0, 32))
    this.#folders.set(folder, 0)
    const path = join(folder, fileName(name, type))
    await attempt(() => this.#fill(folder, path, bytes))
    this.#paths.set(digest, path)
    return path
  }

  /** Deletes the files; if the server continues the call with them, they stay for the next round. */
  async after(outcome: Outcome): Promise<Outcome> {
    if (this.#folders.size === 0) return outcome
    if (outcome.kind === 'result' || !isOpen(outcome)) {
      await this.remove()
      return outcome
    }
    const withdrawn = outcome.kind === 'input_required' ? outcome.withdrawn : undefined
    const id = this.#options.files.hold(this, () => background(this.remove(), this.#options.log), withdrawn)
    return { ...outcome, requestState: { ...outcome.requestState, [STATE_KEY]: id } }
  }

  /** Deletes the files. What cannot be deleted is left to the next sweep. */
  async remove(): Promise<void> {
    for (const [folder, size] of this.#folders) {
      await rm(folder, { recursive: true, force: true }).catch((error: unknown) =>
        warnOfFolder(this.#options.log, folder, error),
      )
      this.#options.files.live.delete(folder)
      this.#options.files.sizes.change(this.caller, -size)
    }
    this.#folders.clear()
    this.#paths.clear()
  }

  /** A new folder, for which no other call has a file. */
  async #claim(digest: string): Promise<string> {
    const base = await privateFolder(this.#options.folder)
    for (let copy = 1; copy <= MAX_COPIES; copy++) {
      const folder = join(base, `${PREFIX}${digest}${copy === 1 ? '' : `-${copy}`}`)
      if (this.#options.files.live.has(folder)) continue
      // A sweep must not find it without its owner.
      this.#options.files.live.add(folder)
      try {
        await attempt(() => mkdir(folder, { mode: 0o700 }))
        return folder
      } catch (error) {
        this.#options.files.live.delete(folder)
        if (systemCodeOf(error) !== 'EEXIST') throw error
      }
    }
    throw new GatewayError('OVERLOADED', 'Too many calls use this data as a file.', { isUnsent: true })
  }

  async #fill(folder: string, path: string, bytes: Bytes): Promise<void> {
    const { caller } = this
    const { total } = this.#options
    await writeFile(join(folder, OWNER), this.#options.files.instance, { flag: 'wx', mode: 0o600 })
    const file = await open(path, 'wx', 0o600)
    try {
      for await (const chunk of bytes) {
        this.#options.files.sizes.change(caller, chunk.byteLength)
        this.#folders.set(folder, (this.#folders.get(folder) ?? 0) + chunk.byteLength)
        if (!this.#options.files.sizes.fits(caller, total)) throw tooLarge(shareOf(caller, total))
        await file.writeFile(chunk)
      }
    } finally {
      await file.close()
    }
  }
}

/** The files of a call that its server continues. */
interface Held {
  readonly files: CallFiles
  /** The end of the time that they are held for. */
  readonly timer: NodeJS.Timeout
}

/** The files of a gateway. They outlive the runtime whose calls use them: it may be replaced meanwhile. */
export class GatewayFiles {
  /** Identifies the gateway that owns a folder. Numbers of processes are not unique: containers may share a folder. */
  readonly instance = randomUUID()
  /** The folders in use. */
  readonly live = new Set<string>()
  readonly #held = new Map<string, Held>()
  /** The size of the files of each caller, in bytes. */
  readonly sizes = new Holdings()

  /** Touches the folders in use, so that other processes do not delete them. */
  async touch(): Promise<void> {
    for (const path of this.live) await timeIn(path).catch(() => undefined)
  }

  /** Whether so many calls are held that a caller may have no more of them. */
  isFull(caller: Principal): boolean {
    if (this.#held.size >= MAX_HELD_CALLS) return true
    return hasReachedShare(caller, this.#held, ({ files }) => files.caller.id, MAX_HELD_CALLS)
  }

  /** Keeps the files of a call for its next round, until it expires or its input request is withdrawn. */
  hold(files: CallFiles, remove: () => void, withdrawn: AbortSignal | undefined): string {
    const id = randomUUID()
    const end = (): void => {
      if (this.#release(id)) remove()
    }
    this.#held.set(id, { files, timer: setTimeout(end, HELD_MS).unref() })
    withdrawn?.addEventListener('abort', end, { once: true })
    return id
  }

  /** The files that are held for a round of a caller's call. */
  take(id: unknown, caller: Principal): CallFiles | undefined {
    const held = typeof id === 'string' ? this.#held.get(id) : undefined
    if (typeof id !== 'string' || held?.files.caller.id !== caller.id) return undefined
    this.#release(id)
    return held.files
  }

  /** Forgets what is held. The servers may still read those files, so they are left to the sweep of another gateway. */
  close(): void {
    for (const id of this.#held.keys()) this.#release(id)
  }

  #release(id: string): boolean {
    clearTimeout(this.#held.get(id)?.timer)
    return this.#held.delete(id)
  }
}

function defaultFolder(): string {
  return join(tmpdir(), `gatehouse-references-${process.getuid?.() ?? 'user'}`)
}

/** The folder of all files, which is created. @throws SERVER_UNAVAILABLE if others can change what is in it */
async function privateFolder(given: string | undefined): Promise<string> {
  const folder = given ?? defaultFolder()
  try {
    await attempt(() => mkdir(folder, { recursive: true, mode: 0o700 }))
  } catch (error) {
    if (systemCodeOf(error) !== 'EEXIST') throw error
  }
  const problem = folderProblem(folder) ?? placeProblem(given)
  if (problem !== undefined) throw unusable(`${folder} ${problem}`)
  return realpath(folder)
}

/** Why others can replace the folder. */
function placeProblem(given: string | undefined): string | undefined {
  if (given !== undefined) return plantedProblem(given)
  return isOwnPlace(tmpdir()) ? undefined : 'is in a folder of another user'
}

/** The folder by its real path, as those of calls are known; undefined if it is not there or cannot be used. */
async function usableFolder(folder: string): Promise<string | undefined> {
  return folderProblem(folder) === undefined ? ifThere(realpath(folder)) : undefined
}

/**
 * The time by the clock of the file system, in milliseconds since 1970: those of machines that share a folder differ. A
 * folder gets this time too.
 */
async function timeIn(folder: string): Promise<number> {
  const entry = await mkdtemp(join(folder, '.time-'))
  try {
    return (await lstat(entry)).mtimeMs
  } finally {
    await rmdir(entry)
  }
}

/** Deletes the folder of a call if the process that it belongs to has ended; `now` is by the clock of the file system. */
async function removeAbandoned(folder: string, now: number, { live, instance }: GatewayFiles): Promise<void> {
  const found = live.has(folder) ? undefined : await ifThere(lstat(folder))
  if (!found?.isDirectory()) return
  const isOld = found.mtimeMs < now - STALE_MS
  const owner = await ifThere(lstat(join(folder, OWNER)))
  if (!owner) {
    // Its process ended before it wrote anything, or it is not one of a call.
    if (isOld && (await readdir(folder)).length === 0) await rmdir(folder)
    return
  }
  if (!owner.isFile()) return
  const isOwn = (await readFile(join(folder, OWNER), 'utf8')) === instance
  if ((isOwn || isOld) && !live.has(folder)) await rm(folder, { recursive: true, force: true })
}

/** What a file operation finds; undefined if there is nothing at the path. */
async function ifThere<Found>(finding: Promise<Found>): Promise<Found | undefined> {
  try {
    return await finding
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

function warnOfFolder(log: Log, folder: string, error: unknown): void {
  log.warn('references.file_not_deleted', { folder, reason: String(error) })
}

/** Runs an action on files; what the disk refuses is an error for callers, which names no path of this machine. */
async function attempt<Value>(act: () => Promise<Value>): Promise<Value> {
  try {
    return await act()
  } catch (error) {
    const code = systemCodeOf(error)
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

function tooLarge(total: number): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', `Data in files may have at most ${total} bytes in all.`, {
    data: { limit: 'reference_files' },
    isUnsent: true,
    suggestion: 'Select a part of the data, or wait until other calls have ended.',
  })
}

function tooManyHeld(): GatewayError {
  return new GatewayError('OVERLOADED', 'Too many unfinished calls have data as files.', {
    isUnsent: true,
    suggestion: 'Wait until some of them have ended, or send the data in another form, such as ?as=text.',
  })
}

/**
 * The folder of a store, apart from the database in it: that it is there, which store it is, that there is room for a
 * first write, and whether it is still the same one while it is used. The library that writes the database holds its
 * files open and would go on writing to them for ever after they were removed.
 */
import {
  closeSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { LostStore, UnusableFile } from './lmdb-file.ts'

/** The file LMDB keeps everything in, and the one its processes share. */
export const DATA = 'data.mdb'
const LOCK = 'lock.mdb'
/** The file beside the data that names the store: it tells data that was removed from data that never was. */
const GENERATION_FILE = 'generation'
/** How much room a new store needs, and how large the file is that processes share, at least, in bytes. */
const FIRST_ROOM = 1024 * 1024
const LOCK_SIZE = 16_384
/** What systems answer where there is no room. */
export const FULL: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

/** Makes a folder with those it is in. What is in one that was made here is no part of a repository around it. */
export function makeFolder(path: string): void {
  if (!existsSync(path)) {
    makeParents(path)
    if (statSync(path).isDirectory()) writeFileSync(join(path, '.gitignore'), '*\n', { mode: 0o600 })
  }
  makeParents(path)
}

/** Node.js would do it, but never ends where the system makes none, as in /proc. */
function makeParents(path: string): void {
  const parent = dirname(path)
  if (!existsSync(parent) && parent !== path) makeParents(parent)
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    if (!existsSync(path) || !statSync(path).isDirectory()) throw error
  }
}

/** Whether there is data in the folder of a store. @throws LostStore where there was */
export function hasData(directory: string): boolean {
  const size = sizeOf(join(directory, DATA))
  if (size !== undefined && size > 0) return true
  if (size === 0) throw new LostStore(`its file ${DATA} is empty`)
  if (generationOf(directory) !== undefined) throw new LostStore(`its file ${DATA} is gone`)
  return false
}

/** Which store the folder says it holds; nothing where it does not say. */
export function generationOf(directory: string): string | undefined {
  const file = join(directory, GENERATION_FILE)
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined
}

/** Writes down which store the folder holds. */
export function writeGeneration(directory: string, id: string): void {
  const draft = join(directory, `${GENERATION_FILE}.${process.pid}`)
  writeFileSync(draft, `${id}\n`, { mode: 0o600, flush: true })
  renameSync(draft, join(directory, GENERATION_FILE))
}

/** Has the folder hold whatever store is in it, or a new one. */
export function forgetGeneration(directory: string): void {
  rmSync(join(directory, GENERATION_FILE), { force: true })
  if (sizeOf(join(directory, DATA)) !== 0) return
  for (const file of [DATA, LOCK]) rmSync(join(directory, file), { force: true })
}

/** Whether the disk of a folder, which may be missing yet, has room for a new store. */
export function hasRoom(directory: string): boolean {
  if (!existsSync(directory)) {
    const parent = dirname(directory)
    return parent === directory || hasRoom(parent)
  }
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize >= FIRST_ROOM + LOCK_SIZE
}

/**
 * Makes sure that there is room for a new store. The library fails harmlessly over a file that cannot grow, but ends
 * the process over the one its processes share: that one is written here, with all its bytes. @throws UnusableFile
 */
export function reserveRoom(directory: string): void {
  const draft = join(directory, `room.${process.pid}`)
  try {
    writeDurably(draft, FIRST_ROOM)
    const lock = join(directory, LOCK)
    if (!existsSync(lock)) writeDurably(lock, LOCK_SIZE)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    if (FULL.has(code)) throw new UnusableFile('the disk is full')
    if (code !== 'EEXIST') throw error
  } finally {
    rmSync(draft, { force: true })
  }
}

function writeDurably(path: string, length: number): void {
  const file = openSync(path, 'wx', 0o600)
  try {
    for (let written = 0; written < length;) written += writeSync(file, Buffer.alloc(length - written))
    fsyncSync(file)
  } catch (error) {
    rmSync(path, { force: true })
    throw error
  } finally {
    closeSync(file)
  }
}

function sizeOf(path: string): number | undefined {
  return statSync(path, { throwIfNoEntry: false })?.size
}

/** What became of a folder in use. */
export interface Loss {
  readonly reason: string
  /** What is mapped into memory is not there any more: to read it would end the process. */
  readonly isCut: boolean
}

/** Looks whether the folder of an open store is still the one that was opened. */
export class FolderWatch {
  readonly #directory: string
  readonly #files: readonly { readonly path: string; readonly id: string }[]
  #size = 0

  constructor(directory: string) {
    this.#directory = directory
    this.#files = [directory, join(directory, DATA), join(directory, LOCK)].map((path) => {
      return { path, id: idOf(path) ?? '' }
    })
    this.#size = sizeOf(join(directory, DATA)) ?? 0
  }

  /** What is wrong with it just then; nothing where it is as it was. */
  look(): Loss | undefined {
    for (const { path, id } of this.#files) {
      const now = idOf(path)
      if (now === id) continue
      const what = path === this.#directory ? 'the folder' : `its file ${basename(path)}`
      const how = now === undefined ? 'removed' : 'replaced'
      return { reason: `${what} was ${how} while it was in use`, isCut: false }
    }
    const size = sizeOf(join(this.#directory, DATA)) ?? 0
    if (size < this.#size) return { reason: `its file ${DATA} was cut while it was in use`, isCut: true }
    this.#size = size
    return undefined
  }
}

/** Tells a file from all others there are; nothing where it is not there. */
function idOf(path: string): string | undefined {
  try {
    const found = statSync(path, { throwIfNoEntry: false })
    return found && `${found.dev}:${found.ino}`
  } catch {
    return undefined
  }
}

/** The files of the store: checks before opening, room on the disk, identity of the folder. */
import {
  closeSync,
  fstatSync,
  openSync,
  readSync,
  existsSync,
  fsyncSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { faultOf, type Head, NO_PAGE, type Tree } from './pages.ts'

// Looks whether a file is a whole LMDB database (data format 2), before the library maps it into memory: what is torn
// or overwritten would end the process there, or lose what was promised without a word. All pages in use are walked:
// each is used once, holds what its place says, in order, and as much as the heads of the file count; no free page is
// in use; and each value has its checksum.

/** Why the file of a store cannot be used, for people. */
export class UnusableFile extends Error {}

/** What a store promised to keep is not there any more, or another store is in its place. */
export class LostStore extends UnusableFile {}

/** What is said of a database that is none of Gatehouse. */
export const FOREIGN = 'it is a database of another program'
const DAMAGED = 'it was damaged'

// The layout of a page at the head of the file, as far as it is looked at.
const MAGIC = 0xbeefc0de
const META = {
  magic: 24,
  version: 28,
  address: 32,
  pageSize: 48,
  free: 48,
  main: 96,
  lastPage: 144,
  snapshot: 152,
}
const TREE = { flags: 4, depth: 6, branches: 8, leaves: 16, overflows: 24, entries: 32, root: 40 }
const VERSIONS_FLAG = 0x100
const INTEGER_KEYS = 8
const META_PAGE_BYTES = 168
const FLAGS = 18
const META_PAGE_FLAG = 8
/** How often a file is walked that others write to meanwhile, until it is walked while they may not. */
const MAX_ATTEMPTS = 3

/**
 * Looks at a file without opening it. Whether it has to be looked at again once others can be kept from writing: they
 * write to it, and something in it does not go together. A file that is missing or empty is as good as new.
 * @throws UnusableFile
 */
export async function checkFile(path: string): Promise<'whole' | 'busy'> {
  const file = openIfThere(path)
  if (file === undefined) return 'whole'
  try {
    for (let attempt = 1; ; attempt++) {
      const head = readHead(file)
      if (!head) return 'whole'
      const fault = await inTurns(faultIn(file, head))
      if (fault === undefined) return 'whole'
      if (readHead(file)?.snapshot === head.snapshot) throw new UnusableFile(fault)
      if (attempt === MAX_ATTEMPTS) return 'busy'
    }
  } finally {
    closeSync(file)
  }
}

/** The same at once, for who keeps others from writing. @throws UnusableFile */
export function checkHeldFile(path: string): void {
  const file = openIfThere(path)
  if (file === undefined) return
  try {
    const head = readHead(file)
    if (!head) return
    const steps = faultIn(file, head)
    let step = steps.next()
    while (step.done !== true) step = steps.next()
    if (step.value !== undefined) throw new UnusableFile(step.value)
  } finally {
    closeSync(file)
  }
}

/** Whether a glance at its head finds nothing wrong with a file: all of it is looked at by `checkFile`. */
export function looksWhole(path: string): boolean {
  const file = openIfThere(path)
  if (file === undefined) return true
  try {
    const head = readHead(file)
    return !head || !isCut(file, head)
  } catch (error) {
    if (error instanceof UnusableFile) return false
    throw error
  } finally {
    closeSync(file)
  }
}

function openIfThere(path: string): number | undefined {
  try {
    return openSync(path, 'r')
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return undefined
    throw error
  }
}

/** Goes through something step by step, while others get their turn. */
async function inTurns<Value>(steps: Generator<undefined, Value>): Promise<Value> {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
    await new Promise(setImmediate)
  }
}

/** The newer one of the two heads. */
function readHead(file: number): Head | undefined {
  if (fstatSync(file).size === 0) return undefined
  const first = headAt(file, 0, 0)
  const second = headAt(file, 1, first.pageSize)
  const [older, newer] = second.snapshot > first.snapshot ? [first, second] : [second, first]
  // Snapshots are written to the two of them in turn.
  const isInTurn = newer.snapshot - older.snapshot <= 1n && (newer.snapshot === 0n || isPlaced(newer, second))
  if (!isInTurn) throw new UnusableFile(DAMAGED)
  return newer
}

function isPlaced(newer: Head, second: Head): boolean {
  return (newer.snapshot % 2n === 1n) === (newer === second)
}

function headAt(file: number, index: 0 | 1, position: number): Head {
  const page = readPart(file, position, META_PAGE_BYTES)
  if (page.length < META_PAGE_BYTES || page.readUInt32LE(META.magic) !== MAGIC)
    throw new UnusableFile(index === 0 ? 'it holds something else than a store, or was damaged' : DAMAGED)
  const version = page.readUInt32LE(META.version) & 0xffff
  if (version !== 2) throw new UnusableFile(`it has the database format ${version} instead of 2`)
  const pageSize = page.readUInt32LE(META.pageSize)
  const isSized = pageSize >= 256 && pageSize <= 65_536 && (pageSize & (pageSize - 1)) === 0
  const free = treeAt(page, META.free)
  const isKnown =
    page.readUInt16LE(FLAGS) === META_PAGE_FLAG &&
    page.readBigUInt64LE(0) === BigInt(index) &&
    page.readBigUInt64LE(META.address) === 0n &&
    (free.flags & INTEGER_KEYS) !== 0
  if (!isSized || !isKnown) throw new UnusableFile(DAMAGED)
  return {
    pageSize,
    free,
    main: treeAt(page, META.main),
    lastPage: page.readBigUInt64LE(META.lastPage),
    snapshot: page.readBigUInt64LE(META.snapshot),
  }
}

function treeAt(page: Buffer, at: number): Tree {
  return {
    root: page.readBigUInt64LE(at + TREE.root),
    depth: page.readUInt16LE(at + TREE.depth),
    branches: page.readBigUInt64LE(at + TREE.branches),
    leaves: page.readBigUInt64LE(at + TREE.leaves),
    overflows: page.readBigUInt64LE(at + TREE.overflows),
    entries: page.readBigUInt64LE(at + TREE.entries),
    flags: page.readUInt16LE(at + TREE.flags),
  }
}

/** Whether its values have versions, as those of a store do. */
function isOurs({ main }: Head): boolean {
  return main.root === NO_PAGE || (main.flags & VERSIONS_FLAG) !== 0
}

/** What is wrong with the file, if anything is. */
function* faultIn(file: number, head: Head): Generator<undefined, string | undefined> {
  if (isCut(file, head)) return 'its end is missing'
  // Opening it would change that.
  if (!isOurs(head)) return FOREIGN
  const { pageSize } = head
  return yield* faultOf(head, (page, count) => readPart(file, Number(page) * pageSize, count * pageSize))
}

function isCut(file: number, { lastPage, pageSize }: Head): boolean {
  return BigInt(fstatSync(file).size) < (lastPage + 1n) * BigInt(pageSize)
}

function readPart(file: number, position: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length)
  return bytes.subarray(0, readSync(file, bytes, 0, length, position))
}

// The folder of a store, apart from the database in it: that it is there, which store it is, that there is room for a
// first write, and whether it is still the same one while it is used. The library that writes the database holds its
// files open and would go on writing to them for ever after they were removed.

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

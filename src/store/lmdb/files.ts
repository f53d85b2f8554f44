/** The files of the store: checks before opening, free disk space, identity of the folder. */
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
  accessSync,
  constants,
} from 'node:fs'
import { basename, dirname, join } from 'node:path'
import type { RootDatabase } from 'lmdb'
import { faultOf, type Head, NO_PAGE, type Tree } from './pages.ts'
import { messageOf, systemCodeOf } from '../../core/error.ts'
import { plantedProblem } from '../private-folder.ts'
import { ACCEPT_HINT } from '../sentinel.ts'

// Checks that a file is an intact LMDB database (data format 2) before the library maps it into memory: there, a torn
// or overwritten file would end the process or silently lose critical data. All pages in use are walked: each is used
// once, is of the expected kind, in key order, and counted by the meta pages; no free page is in use; and each value
// matches its checksum.

/** Why the file of a store cannot be used, as text for people. */
class UnusableFile extends Error {}

/** Durable data of the store is missing, or another store is in its place. */
export class LostStore extends UnusableFile {}

/** The reason if a database does not belong to Gatehouse. */
const FOREIGN = 'it is a database of another program'
const DAMAGED = 'it was damaged'

// The layout of a meta page, as far as it is checked.
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
/** How often a file is walked while others write to it, before it is walked under the write lock. */
const MAX_ATTEMPTS = 3

/**
 * Checks a file without opening the database. `busy` means that another process writes to it and the walk was
 * inconsistent: it has to be checked again under the write lock. A missing or empty file is fine.
 * @throws UnusableFile
 */
async function checkFile(path: string): Promise<'whole' | 'busy'> {
  const file = openIfExists(path)
  if (file === undefined) return 'whole'
  try {
    for (let attempt = 1; ; attempt++) {
      const head = readHead(file)
      if (!head) return 'whole'
      const fault = await runInTurns(findFault(file, head))
      if (fault === undefined) return 'whole'
      if (readHead(file)?.snapshot === head.snapshot) throw new UnusableFile(fault)
      if (attempt === MAX_ATTEMPTS) return 'busy'
    }
  } finally {
    closeSync(file)
  }
}

/** The same synchronously, for a caller that holds the write lock. @throws UnusableFile */
function checkHeldFile(path: string): void {
  const fault = ofFile(path, (file, head) => {
    const steps = findFault(file, head)
    let step = steps.next()
    while (step.done !== true) step = steps.next()
    return step.value
  })
  if (fault !== undefined) throw new UnusableFile(fault)
}

/** Whether a check of the meta pages alone finds nothing wrong; `checkFile` checks everything. */
function looksWhole(path: string): boolean {
  try {
    return ofFile(path, isTruncated) !== true
  } catch (error) {
    if (error instanceof UnusableFile) return false
    throw error
  }
}

/** What a look at a file finds; undefined if it is missing or empty. */
function ofFile<Found>(path: string, look: (file: number, head: Head) => Found): Found | undefined {
  const file = openIfExists(path)
  if (file === undefined) return undefined
  try {
    const head = readHead(file)
    return head && look(file, head)
  } finally {
    closeSync(file)
  }
}

function openIfExists(path: string): number | undefined {
  try {
    return openSync(path, 'r')
  } catch (error) {
    if (systemCodeOf(error) === 'ENOENT') return undefined
    throw error
  }
}

/** Runs a generator step by step and yields to the event loop in between. */
async function runInTurns<Value>(steps: Generator<undefined, Value>): Promise<Value> {
  for (;;) {
    const step = steps.next()
    if (step.done === true) return step.value
    await new Promise(setImmediate)
  }
}

/** The newer one of the two meta pages. */
function readHead(file: number): Head | undefined {
  if (fstatSync(file).size === 0) return undefined
  const first = headAt(file, 0, 0)
  const second = headAt(file, 1, first.pageSize)
  const [older, newer] = second.snapshot > first.snapshot ? [first, second] : [second, first]
  // Snapshots are written to the two meta pages alternately.
  const isConsistent =
    newer.snapshot - older.snapshot <= 1n && (newer.snapshot === 0n || isInExpectedPlace(newer, second))
  if (!isConsistent) throw new UnusableFile(DAMAGED)
  return newer
}

function isInExpectedPlace(newer: Head, second: Head): boolean {
  return (newer.snapshot % 2n === 1n) === (newer === second)
}

function headAt(file: number, index: 0 | 1, position: number): Head {
  const page = readPart(file, position, META_PAGE_BYTES)
  if (page.length < META_PAGE_BYTES || page.readUInt32LE(META.magic) !== MAGIC)
    throw new UnusableFile(index === 0 ? 'it is not a store, or it is damaged' : DAMAGED)
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

/** Whether its values have versions, as in every store of Gatehouse. */
function isStore({ main }: Head): boolean {
  return main.root === NO_PAGE || (main.flags & VERSIONS_FLAG) !== 0
}

/** What is wrong with the file, if anything. */
function* findFault(file: number, head: Head): Generator<undefined, string | undefined> {
  if (isTruncated(file, head)) return 'its end is missing'
  // Opening the database would modify it.
  if (!isStore(head)) return FOREIGN
  const { pageSize } = head
  return yield* faultOf(head, (page, count) => readPart(file, Number(page) * pageSize, count * pageSize))
}

function isTruncated(file: number, { lastPage, pageSize }: Head): boolean {
  return BigInt(fstatSync(file).size) < (lastPage + 1n) * BigInt(pageSize)
}

function readPart(file: number, position: number, length: number): Buffer {
  const bytes = Buffer.allocUnsafe(length)
  return bytes.subarray(0, readSync(file, bytes, 0, length, position))
}

// The folder of a store, apart from the database in it: whether it exists, which store it contains, whether the disk
// has space, and whether it is still the same folder while it is in use. The library keeps its files open and would
// go on writing to them after they were removed.

/** The data file of LMDB, and the lock file that its processes share. */
export const DATA = 'data.mdb'
const LOCK = 'lock.mdb'
/** The file that identifies the store: it distinguishes removed data from data that never existed. */
const GENERATION_FILE = 'generation'
/** The folder of values that are too large for the database. */
export const BLOBS = 'blobs'
/** The disk space that a new store needs, and the minimum size of the lock file, in bytes. */
const NEW_STORE_BYTES = 1024 * 1024
const LOCK_FILE_BYTES = 16_384
/** The error codes of a full disk. */
export const FULL: ReadonlySet<string> = new Set(['ENOSPC', 'EDQUOT', 'EFBIG'])

/** Creates a folder and its parents, with a `.gitignore` if the folder did not exist. */
function makeFolder(path: string): void {
  if (!existsSync(path)) {
    makeParents(path)
    if (statSync(path).isDirectory()) writeFileSync(join(path, '.gitignore'), '*\n', { mode: 0o600 })
  }
  makeParents(path)
}

/** Not `mkdir` with `recursive`: Node.js loops forever where the system refuses to create folders, as in /proc. */
function makeParents(path: string): void {
  const parent = dirname(path)
  if (!existsSync(parent) && parent !== path) makeParents(parent)
  try {
    mkdirSync(path, { mode: 0o700 })
  } catch (error) {
    if (!existsSync(path) || !statSync(path).isDirectory()) throw error
  }
}

/** Whether the folder of a store contains data. @throws LostStore if it did and no longer does */
function hasData(directory: string): boolean {
  const size = sizeOf(join(directory, DATA))
  if (size !== undefined && size > 0) return true
  if (size === 0) throw new LostStore(`its file ${DATA} is empty`)
  if (generationOf(directory) !== undefined) throw new LostStore(`its file ${DATA} is gone`)
  return false
}

/** The id of the store in the folder; undefined if the folder has no such file. */
export function generationOf(directory: string): string | undefined {
  const file = join(directory, GENERATION_FILE)
  return existsSync(file) ? readFileSync(file, 'utf8').trim() : undefined
}

/** Records the id of the store in the folder. */
export function writeGeneration(directory: string, id: string): void {
  const draft = join(directory, `${GENERATION_FILE}.${process.pid}`)
  writeFileSync(draft, `${id}\n`, { mode: 0o600, flush: true })
  renameSync(draft, join(directory, GENERATION_FILE))
}

/** Accepts whatever store is in the folder, or a new one. */
export function forgetGeneration(directory: string): void {
  rmSync(join(directory, GENERATION_FILE), { force: true })
  if (sizeOf(join(directory, DATA)) !== 0) return
  for (const file of [DATA, LOCK]) rmSync(join(directory, file), { force: true })
}

/** Whether the disk of a folder, which may not exist yet, has space for a new store. */
function hasSpace(directory: string): boolean {
  if (!existsSync(directory)) {
    const parent = dirname(directory)
    return parent === directory || hasSpace(parent)
  }
  const { bavail, bsize } = statfsSync(directory)
  return bavail * bsize >= NEW_STORE_BYTES + LOCK_FILE_BYTES
}

/**
 * Makes sure that there is space for a new store. A data file that cannot grow is a harmless error in the library, but
 * a lock file that cannot grow ends the process, so the lock file is written here in full. @throws UnusableFile
 */
function reserveSpace(directory: string): void {
  const draft = join(directory, `space.${process.pid}`)
  try {
    writeDurably(draft, NEW_STORE_BYTES)
    const lock = join(directory, LOCK)
    if (!existsSync(lock)) writeDurably(lock, LOCK_FILE_BYTES)
  } catch (error) {
    const code = String(systemCodeOf(error))
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

/** What happened to a folder in use. */
export interface Loss {
  readonly reason: string
  /** The memory-mapped data file was truncated: reading it would end the process. */
  readonly isTruncated: boolean
}

/** Checks whether the folder of an open store is still the one that was opened. */
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

  /** What is wrong with the folder at present; undefined if nothing changed. */
  check(): Loss | undefined {
    for (const { path, id } of this.#files) {
      const now = idOf(path)
      if (now === id) continue
      const subject = path === this.#directory ? 'the folder' : `its file ${basename(path)}`
      const change = now === undefined ? 'removed' : 'replaced'
      return { reason: `${subject} was ${change} while it was in use`, isTruncated: false }
    }
    const size = sizeOf(join(this.#directory, DATA)) ?? 0
    if (size < this.#size)
      return { reason: `its file ${DATA} was truncated while it was in use`, isTruncated: true }
    this.#size = size
    return undefined
  }
}

/** Identifies a file; undefined if it does not exist. */
function idOf(path: string): string | undefined {
  try {
    const found = statSync(path, { throwIfNoEntry: false })
    return found && `${found.dev}:${found.ino}`
  } catch {
    return undefined
  }
}

/*
 * Opens the database of a folder after checking that it is intact and the expected one; explains why a folder cannot be
 * used, and how to fix it.
 */

/** The maximum size of a store, in bytes. */
export const MAX_STORE_BYTES = 1024 * 1024 * 1024
/** Distinguishes a store from the databases of other programs. No stored value can have this key. */
export const FORMAT_MARK = { key: 'gatehouse', format: 1 }

/** How often a file is checked again that another process may be creating, and the delay, in milliseconds. */
const MAX_CHECKS = 10
const RECHECK_DELAY_MS = 100

/** The database of a folder. */
export type Base = RootDatabase<string, string>

/**
 * Opens the database of a folder. A missing database is created, unless it `isAwaited`: then critical data has to be
 * there. @throws if it cannot be used
 */
export async function openDatabase(directory: string, isAwaited: boolean): Promise<Base> {
  // Loaded lazily: gateways without a folder do not need the library.
  const { open } = await import('lmdb')
  const problem = plantedProblem(directory)
  if (problem !== undefined) throw new PlantedStore(`it ${problem}`)
  if (isAwaited && !existsSync(directory)) throw new LostStore('it is gone')
  makeFolder(directory)
  // Also in a folder that was made meanwhile.
  for (const name of [DATA, LOCK, GENERATION_FILE, BLOBS]) {
    const planted = plantedProblem(join(directory, name))
    if (planted !== undefined) throw new PlantedStore(`its ${name} ${planted}`)
  }
  const state = await detectState(directory)
  if (state === 'new' && isAwaited) throw new LostStore('its data is gone')
  if (state === 'new') reserveSpace(directory)
  const options = {
    path: directory,
    noSubdir: false,
    mapSize: 2 * MAX_STORE_BYTES,
    encoding: 'string' as const,
    useVersions: true,
    // A write is acknowledged once it is on disk, and the file is consistent at any time.
    overlappingSync: false,
    permissionsMode: 0o600,
  }
  const database = open<string, string>(options)
  try {
    // Within a transaction no other process can write.
    if (state === 'busy') database.transactionSync(() => checkHeldFile(join(directory, DATA)))
    const [first] = database.getKeys({ limit: 1 })
    if (first !== undefined) checkMark(database.get(FORMAT_MARK.key))
    return database
  } catch (error) {
    await database.close()
    throw error
  }
}

/** The state of a folder, once no other process is creating a store there. @throws UnusableFile */
async function detectState(directory: string): Promise<'new' | 'whole' | 'busy'> {
  for (let attempt = 1; ; attempt++) {
    try {
      return hasData(directory) ? await checkFile(join(directory, DATA)) : 'new'
    } catch (error) {
      const maxAttempts = error instanceof LostStore ? MAX_CHECKS : 2
      if (attempt >= maxAttempts || !(error instanceof UnusableFile)) throw error
      await new Promise((resolve) => setTimeout(resolve, RECHECK_DELAY_MS))
    }
  }
}

/** Whether a quick check finds nothing that would prevent opening the database of a folder. */
export function looksUsable(directory: string, isAwaited: boolean): boolean {
  try {
    if (plantedProblem(directory) !== undefined) return false
    if (!existsSync(directory)) return !isAwaited && hasSpace(directory)
    accessSync(directory, constants.W_OK | constants.X_OK)
    return hasData(directory) ? looksWhole(join(directory, DATA)) : !isAwaited && hasSpace(directory)
  } catch {
    return false
  }
}

/** @throws UnusableFile if it is not the mark of a store */
function checkMark(mark: string | undefined): void {
  const format = /^[0-9a-z]+ format (\d+)$/.exec(mark ?? '')?.[1]
  if (format === undefined) throw new UnusableFile(FOREIGN)
  if (Number(format) === FORMAT_MARK.format) return
  throw new UnusableFile(
    `it was written by a newer version of Gatehouse (format ${format}), so use that version`,
  )
}

/** Another user may have made the store, and what is in it. */
class PlantedStore extends UnusableFile {}

/** Why a folder cannot be used, and how to fix it. */
export function reasonOf(error: unknown, directory: string): string {
  const at = `the store in ${directory} cannot be used: `
  const elsewhere = 'or name another folder under `store`'
  const code = String(systemCodeOf(error))
  const text = messageOf(error)
  if (['EEXIST', 'ENOTDIR'].includes(code)) return `${at}a file of that name exists. Remove it, ${elsewhere}`
  if (['EACCES', 'EPERM', 'EROFS', '13', '30'].includes(code))
    return `${at}it is not writable (${text}). Give this user write access, ${elsewhere}`
  if (error instanceof PlantedStore)
    return `${at}${text}, who may read and change what is in it. Name a folder under \`store\` that only this user can write to`
  if (error instanceof LostStore) return `${at}${text}. Restore it, or ${ACCEPT_HINT}`
  if (FULL.has(code)) return `${at}the disk is full. Free some space, ${elsewhere}`
  if (text.includes('full')) return `${at}${text}. Free some space, ${elsewhere}`
  const isBroken = text.includes('damaged') || text.includes('missing')
  const fix = isBroken
    ? 'Restore it from a backup, or move it away and run `gatehouse store accept` to continue without it'
    : 'Move it away'
  return `${at}${text}. ${fix}, ${elsewhere}`
}

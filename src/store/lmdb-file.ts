/**
 * Looks whether a file is a whole LMDB database (data format 2), before the library maps it into memory: what is torn
 * or overwritten would end the process there, or lose what was promised without a word. All pages in use are walked:
 * each is used once, holds what its place says, in order, and as much as the heads of the file count; no free page is
 * in use; and each value has its checksum.
 */
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { faultOf, type Head, NO_PAGE, type Tree } from './lmdb-pages.ts'

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

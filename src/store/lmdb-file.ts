import { closeSync, fstatSync, openSync, readSync } from 'node:fs'

/** Why the file of a store can not be used, for people. */
export class UnusableFile extends Error {}

/** What is said of a database that is none of Gatehouse. */
export const FOREIGN = 'it is a database of another program'

interface Tree {
  readonly root: bigint
  readonly depth: number
}

/** What a page at the head of the file says of a snapshot. */
interface Head {
  readonly pageSize: number
  readonly lastPage: bigint
  readonly snapshot: bigint
  readonly trees: readonly Tree[]
  /** Its values have versions, as those of a store do. */
  readonly hasVersions: boolean
}

// The layout of LMDB's data format 2, as far as it is looked at.
const MAGIC = 0xbeefc0de
const HEADER = 24
const META = { magic: 24, version: 28, pageSize: 48, free: 48, main: 96, lastPage: 144, snapshot: 152 }
const TREE = { flags: 4, depth: 6, root: 40 }
const VERSIONS = 0x100
const SIZE = 168
const EMPTY = 0xffffffffffffffffn
const FLAGS = 18
const [BRANCH, LEAF, OVERFLOW, HEAD] = [1, 2, 4, 8]
const LARGE = 1
/** How many pages are looked at: enough to read all of a usual store, and few enough to start soon. */
const PAGES = 8192

/**
 * Looks whether a file is a whole LMDB database, before it is mapped into memory: what is torn or of another kind
 * would end the process there. A file that is missing or empty is as good as new.
 * @throws UnusableFile
 */
export function checkFile(path: string): void {
  const file = openIfThere(path)
  if (file === undefined) return
  try {
    for (let attempt = 0; ; attempt++) {
      const head = readHead(file)
      if (!head) return
      const fault = findFault(file, head)
      // Opening it would change that.
      if (fault === undefined && !head.hasVersions) throw new UnusableFile(FOREIGN)
      if (fault === undefined) return
      // Another process may have written meanwhile.
      if (attempt > 5 || readHead(file)?.snapshot === head.snapshot) throw new UnusableFile(fault)
    }
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

/** The newer one of the two heads. */
function readHead(file: number): Head | undefined {
  if (fstatSync(file).size === 0) return undefined
  const first = headAt(file, 0)
  const second = headAt(file, first.pageSize)
  return second.snapshot > first.snapshot ? second : first
}

function headAt(file: number, position: number): Head {
  const page = read(file, position, SIZE)
  if (page.length < SIZE || page.readUInt32LE(META.magic) !== MAGIC)
    throw new UnusableFile(
      position === 0 ? 'it holds something else than a store, or was damaged' : 'it was damaged',
    )
  if (page.readUInt16LE(FLAGS) !== HEAD) throw new UnusableFile('it was damaged')
  const version = page.readUInt32LE(META.version) & 0xffff
  if (version !== 2) throw new UnusableFile(`it has the database format ${version} instead of 2`)
  const pageSize = page.readUInt32LE(META.pageSize)
  if (pageSize < 256 || pageSize > 65_536 || (pageSize & (pageSize - 1)) !== 0)
    throw new UnusableFile('it was damaged')
  return {
    pageSize,
    lastPage: page.readBigUInt64LE(META.lastPage),
    snapshot: page.readBigUInt64LE(META.snapshot),
    hasVersions:
      page.readBigUInt64LE(META.main + TREE.root) === EMPTY ||
      (page.readUInt16LE(META.main + TREE.flags) & VERSIONS) !== 0,
    trees: [META.free, META.main].map((at) => ({
      root: page.readBigUInt64LE(at + TREE.root),
      depth: page.readUInt16LE(at + TREE.depth),
    })),
  }
}

function findFault(file: number, head: Head): string | undefined {
  if (isCut(file, head)) return 'its end is missing'
  let left = PAGES
  const waiting = head.trees.flatMap(({ root, depth }) => (root === EMPTY ? [] : [{ number: root, depth }]))
  for (let next = waiting.pop(); next && left > 0; next = waiting.pop(), left--) {
    const children = childrenOf(read(file, Number(next.number) * head.pageSize, head.pageSize), next, head)
    if (!children) return `its page ${next.number} was damaged`
    waiting.push(...children)
  }
  return undefined
}

function isCut(file: number, { lastPage, pageSize }: Head): boolean {
  return BigInt(fstatSync(file).size) < (lastPage + 1n) * BigInt(pageSize)
}

interface Place {
  readonly number: bigint
  /** How many levels there are from it on. */
  readonly depth: number
}

/** The pages below one; nothing where it is not as it must be. */
function childrenOf(
  page: Buffer,
  { number, depth }: Place,
  { lastPage, pageSize }: Head,
): Place[] | undefined {
  if (page.length < pageSize || page.readBigUInt64LE(0) !== number || depth === 0) return undefined
  const isBranch = depth > 1
  if ((page.readUInt16LE(FLAGS) & (BRANCH | LEAF | OVERFLOW)) !== (isBranch ? BRANCH : LEAF)) return undefined
  const [lower, upper] = [page.readUInt16LE(20), page.readUInt16LE(22)]
  if (lower > upper || upper > pageSize - HEADER) return undefined
  const children: Place[] = []
  for (let index = 0; index < lower / 2; index++) {
    const at = page.readUInt16LE(HEADER + 2 * index) + HEADER
    const end = nodeEnd(page, at, isBranch)
    if (at < HEADER + upper || end === undefined || end > pageSize) return undefined
    if (isBranch) children.push({ number: childOf(page, at), depth: depth - 1 })
    else if ((page.readUInt16LE(at + 4) & LARGE) !== 0 && !isWithin(page, end - 24, lastPage))
      return undefined
  }
  return children.every((child) => child.number > 1n && child.number <= lastPage) ? children : undefined
}

function nodeEnd(page: Buffer, at: number, isBranch: boolean): number | undefined {
  if (at + 8 > page.length) return undefined
  const keyEnd = at + 8 + page.readUInt16LE(at + 6)
  if (isBranch) return keyEnd
  const isLarge = (page.readUInt16LE(at + 4) & LARGE) !== 0
  return keyEnd + (isLarge ? 24 : page.readUInt16LE(at) + page.readUInt16LE(at + 2) * 0x10000)
}

function childOf(page: Buffer, at: number): bigint {
  return BigInt(
    page.readUInt16LE(at) + page.readUInt16LE(at + 2) * 0x10000 + page.readUInt16LE(at + 4) * 2 ** 32,
  )
}

/** Whether a value that has pages of its own has them within the file. */
function isWithin(page: Buffer, at: number, lastPage: bigint): boolean {
  const [first, count] = [page.readBigUInt64LE(at), page.readBigUInt64LE(at + 16)]
  return first > 1n && count > 0n && first + count <= lastPage + 1n
}

function read(file: number, position: number, length: number): Buffer {
  const bytes = Buffer.alloc(length)
  return bytes.subarray(0, readSync(file, bytes, 0, length, position))
}

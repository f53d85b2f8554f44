/**
 * Walks the pages of an LMDB database and finds inconsistencies. No library reports damage before it fails over it, so
 * each page in use is checked: it is where its parent points, used once, and not free; its nodes are adjacent, with
 * keys in order and within the parent's range; the counts match the meta page; and each value matches its checksum.
 */
import { crc32 } from 'node:zlib'

/** One of the two trees of the file: free pages, or values. */
export interface Tree {
  readonly root: bigint
  readonly depth: number
  readonly branches: bigint
  readonly leaves: bigint
  readonly overflows: bigint
  readonly entries: bigint
  readonly flags: number
}

/** A meta page: the description of a snapshot. */
export interface Head {
  readonly pageSize: number
  readonly lastPage: bigint
  readonly snapshot: bigint
  readonly free: Tree
  readonly main: Tree
}

/** The root of a tree without pages. */
export const NO_PAGE = 0xffffffffffffffffn

// The layout of pages, as far as it is checked.
const HEADER = 24
const PAGE_OFFSETS = { number: 0, flags: 18, lower: 20, upper: 22, count: 20 }
const NODE = { low: 0, high: 2, flags: 4, keySize: 6, key: 8 }
const [BRANCH, LEAF, OVERFLOW] = [1, 2, 4]
/** The flags of a page, except the dirty flag, which is meaningless on disk. */
const FLAGS = 0xffff - 0x2000
/** The flag of a node whose value has overflow pages, and the length of the reference to them. */
const LARGE = 1
const REFERENCE = 24
/** The length of the version before each value. */
const VERSION = 8
/** The maximum depth of a tree. */
const MAX_DEPTH = 32
/** How many pages are checked before yielding. */
const PAGES_PER_TURN = 64

class Fault extends Error {}

interface Node {
  readonly at: number
  readonly end: number
  readonly key: Buffer
  /** Leaf nodes only. */
  readonly size: number
  readonly isLarge: boolean
  /** Branch nodes only. */
  readonly child: bigint
}

/** The key range of a page: `from` inclusive, `to` exclusive. */
interface Range {
  readonly from?: Buffer | undefined
  readonly to?: Buffer | undefined
}

interface Counts {
  branches: bigint
  leaves: bigint
  overflows: bigint
  entries: bigint
}

/** Checks all pages in use, yielding now and then. Returns what is wrong, if anything. */
export function* faultOf(
  head: Head,
  read: (page: bigint, count: number) => Buffer,
): Generator<undefined, string | undefined> {
  try {
    const walk = new Walk(head, read)
    yield* walk.free()
    yield* walk.values()
    return undefined
  } catch (error) {
    if (error instanceof Fault) return error.message
    throw error
  }
}

class Walk {
  readonly #head: Head
  readonly #read: (page: bigint, count: number) => Buffer
  /** Which pages are in use, or free. */
  readonly #taken: Uint8Array
  #pagesChecked = 0

  constructor(head: Head, read: (page: bigint, count: number) => Buffer) {
    this.#head = head
    this.#read = read
    this.#taken = new Uint8Array(Number(head.lastPage) + 1)
    // The two meta pages.
    this.#taken.fill(1, 0, 2)
  }

  *free(): Generator<undefined, void> {
    yield* this.#tree(this.#head.free, compareNumbers, (_key, value, page) => {
      for (const [first, count] of freePages(value, page)) this.#take(first, count)
    })
  }

  *values(): Generator<undefined, void> {
    yield* this.#tree(this.#head.main, Buffer.compare, (key, value, page) => {
      if (value.length < VERSION || !isIntact(key, value.subarray(VERSION))) throw faultAt(page)
    })
  }

  *#tree(
    { root, depth, ...expected }: Tree,
    compare: (one: Buffer, other: Buffer) => number,
    visitEntry: (key: Buffer, value: Buffer, page: bigint) => void,
  ): Generator<undefined, void> {
    const counts: Counts = { branches: 0n, leaves: 0n, overflows: 0n, entries: 0n }
    if (depth > MAX_DEPTH || (root === NO_PAGE) !== (depth === 0)) throw new Fault('its head was damaged')
    if (depth > 0) yield* this.#visit(root, depth, {}, { counts, compare, visitEntry })
    const isSame =
      counts.branches === expected.branches &&
      counts.leaves === expected.leaves &&
      counts.overflows === expected.overflows &&
      counts.entries === expected.entries
    if (!isSame) throw new Fault('its head was damaged')
  }

  *#visit(
    number: bigint,
    depth: number,
    range: Range,
    tree: {
      readonly counts: Counts
      readonly compare: (one: Buffer, other: Buffer) => number
      readonly visitEntry: (key: Buffer, value: Buffer, page: bigint) => void
    },
  ): Generator<undefined, void> {
    this.#take(number, 1n)
    if (++this.#pagesChecked % PAGES_PER_TURN === 0) yield
    const page = this.#page(number, depth > 1 ? BRANCH : LEAF)
    const nodes = nodesOf(page, number, depth > 1)
    checkOrder(nodes, { range, number, isBranch: depth > 1, compare: tree.compare })
    if (depth > 1) {
      tree.counts.branches++
      for (const [index, { child, key }] of nodes.entries()) {
        const inner = { from: index === 0 ? range.from : key, to: nodes[index + 1]?.key ?? range.to }
        yield* this.#visit(child, depth - 1, inner, tree)
      }
      return
    }
    tree.counts.leaves++
    tree.counts.entries += BigInt(nodes.length)
    for (const node of nodes) {
      const value = node.isLarge
        ? this.#large(page, node, tree.counts)
        : page.subarray(valueAt(node), valueAt(node) + node.size)
      tree.visitEntry(node.key, value, number)
    }
  }

  /** Reads a page of the expected kind. */
  #page(number: bigint, kind: number, count = 1): Buffer {
    const { pageSize } = this.#head
    const page = this.#read(number, count)
    const isExpected =
      page.length === count * pageSize &&
      page.readBigUInt64LE(PAGE_OFFSETS.number) === number &&
      (page.readUInt16LE(PAGE_OFFSETS.flags) & FLAGS) === kind
    if (!isExpected) throw faultAt(number)
    return page
  }

  /** Reads a value with overflow pages. */
  #large(page: Buffer, node: Node, counts: Counts): Buffer {
    const at = valueAt(node)
    const [first, count] = [page.readBigUInt64LE(at), page.readBigUInt64LE(at + 16)]
    const needed = Math.ceil((HEADER + node.size) / this.#head.pageSize)
    // A value that was replaced by a shorter one keeps its pages.
    if (count < BigInt(needed)) throw faultAt(first)
    this.#take(first, count)
    counts.overflows += count
    const pages = this.#page(first, OVERFLOW, needed)
    if (BigInt(pages.readUInt32LE(PAGE_OFFSETS.count)) !== count) throw faultAt(first)
    return pages.subarray(HEADER, HEADER + node.size)
  }

  #take(first: bigint, count: bigint): void {
    if (first < 2n || count < 1n || first + count > this.#head.lastPage + 1n) throw faultAt(first)
    const [start, end] = [Number(first), Number(first + count)]
    for (let at = start; at < end; at++) {
      if (this.#taken[at] !== 0) throw faultAt(BigInt(at))
      this.#taken[at] = 1
    }
  }
}

function nodesOf(page: Buffer, number: bigint, isBranch: boolean): readonly Node[] {
  const [lower, upper] = [page.readUInt16LE(PAGE_OFFSETS.lower), page.readUInt16LE(PAGE_OFFSETS.upper)]
  const capacity = page.length - HEADER
  if (lower === 0 || lower % 2 !== 0 || lower > upper || upper > capacity) throw faultAt(number)
  const nodes = Array.from({ length: lower / 2 }, (_each, index) => {
    const at = HEADER + page.readUInt16LE(HEADER + 2 * index)
    if (at < HEADER + upper || at + NODE.key > page.length) throw faultAt(number)
    return nodeAt(page, at, isBranch)
  })
  // Nodes fill the end of the page, in any order.
  let next = HEADER + upper
  for (const { at, end } of nodes.toSorted((one, other) => one.at - other.at)) {
    if (at !== next || end > page.length) throw faultAt(number)
    next = end
  }
  if (next !== page.length || nodes.some(({ size }) => size < 0)) throw faultAt(number)
  return nodes
}

function nodeAt(page: Buffer, at: number, isBranch: boolean): Node {
  const low = page.readUInt16LE(at + NODE.low) + page.readUInt16LE(at + NODE.high) * 0x10000
  const flags = page.readUInt16LE(at + NODE.flags)
  const keyEnd = at + NODE.key + page.readUInt16LE(at + NODE.keySize)
  const key = page.subarray(at + NODE.key, keyEnd)
  const isLarge = !isBranch && flags === LARGE
  const end = keyEnd + (isBranch ? 0 : isLarge ? REFERENCE : low)
  return {
    at,
    end: end + (end % 2),
    key,
    // A store uses no other flags.
    size: isBranch || isLarge || flags === 0 ? low : -1,
    isLarge,
    child: BigInt(low) + (BigInt(flags) << 32n),
  }
}

function valueAt({ at, key }: Node): number {
  return at + NODE.key + key.length
}

interface Order {
  readonly range: Range
  readonly number: bigint
  readonly isBranch: boolean
  readonly compare: (one: Buffer, other: Buffer) => number
}

function checkOrder(nodes: readonly Node[], { range: { from, to }, number, isBranch, compare }: Order): void {
  let before = from
  let isFirst = true
  // The first key of a branch is meaningless.
  for (const { key } of isBranch ? nodes.slice(1) : nodes) {
    const isAfter = before === undefined || compare(before, key) < (isFirst && !isBranch ? 1 : 0)
    if (!isAfter) throw faultAt(number)
    before = key
    isFirst = false
  }
  if (to !== undefined && before !== undefined && before !== from && compare(before, to) >= 0)
    throw faultAt(number)
}

/** Compares numbers of eight bytes; NaN for keys of other lengths, which fail every order check. */
function compareNumbers(one: Buffer, other: Buffer): number {
  if (one.length !== 8 || other.length !== 8) return Number.NaN
  const [first, second] = [one.readBigUInt64LE(), other.readBigUInt64LE()]
  return first < second ? -1 : first > second ? 1 : 0
}

/** The pages that a free-list record contains: a count, then page numbers, or minus a run length followed by its start. */
function freePages(value: Buffer, page: bigint): readonly (readonly [first: bigint, count: bigint])[] {
  const count = value.length % 8 === 0 && value.length > 0 ? Number(value.readBigUInt64LE()) : -1
  if (count < 0 || (count + 1) * 8 > value.length) throw faultAt(page)
  const found: (readonly [bigint, bigint])[] = []
  for (let at = 8; at <= count * 8; at += 8) {
    const number = value.readBigInt64LE(at)
    if (number === 0n) continue
    if (number > 0n) {
      found.push([number, 1n])
      continue
    }
    at += 8
    if (at > count * 8) throw faultAt(page)
    found.push([value.readBigInt64LE(at), -number])
  }
  return found
}

function faultAt(page: bigint): Fault {
  return new Fault(`its page ${page} was damaged`)
}

// The format of stored values: expiry, a checksum of expiry, key and text, and the text. A value with a wrong checksum
// is never treated as absent, because a completed call would then run again. Values without a checksum were written by
// earlier versions, which in turn can read values with one.

/** A value, with the version of its write. */
export interface StoredValue {
  readonly text: string
  /** In milliseconds since 1970. */
  readonly until: number
  readonly version: number
}

/** A value differs from what was written. */
export class DamagedValue extends Error {
  override readonly message = 'a value in it was damaged'
}

/** Encodes a value. */
export function encodeValue(key: string, text: string, until: number): string {
  const end = Math.ceil(until).toString(36)
  return `${end}.${checksum(key, end, text)} ${text}`
}

/** Decodes a value; undefined if there is none. @throws DamagedValue */
export function decodeValue(key: string, stored: string | undefined, version = 0): StoredValue | undefined {
  if (stored === undefined) return undefined
  const space = stored.indexOf(' ')
  const head = /^([0-9a-z]+)(?:\.([0-9a-z]+))?$/.exec(stored.slice(0, Math.max(space, 0)))
  const [, end = '', sum] = head ?? []
  const text = stored.slice(space + 1)
  if (!head || (sum !== undefined && sum !== checksum(key, end, text))) throw new DamagedValue()
  return { until: Number.parseInt(end, 36), text, version }
}

/** Whether the bytes of a value are intact; its key is given as bytes too. */
function isIntact(key: Buffer, stored: Buffer): boolean {
  const space = stored.subarray(0, MAX_HEAD_LENGTH).indexOf(0x20)
  const head = /^([0-9a-z]+)(?:\.([0-9a-z]+))?$/.exec(stored.toString('latin1', 0, Math.max(space, 0)))
  if (!head) return false
  const [, end = '', sum] = head
  // Keys with control characters are encoded differently.
  if (sum === undefined || key.some((byte) => byte < 0x20)) return true
  return sum === crc32(stored.subarray(space + 1), crc32(`${end} `, crc32(key))).toString(36)
}

/** The maximum length of a value's header, in bytes: two numbers in base 36, and the separators. */
const MAX_HEAD_LENGTH = 32

function checksum(key: string, end: string, text: string): string {
  return crc32(text, crc32(`${end} `, crc32(key))).toString(36)
}

/** A version that no other write of any process has. */
export function newVersion(): number {
  return 1 + Math.floor(Math.random() * 2 ** 52)
}

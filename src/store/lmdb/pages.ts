/**
 * Walks the pages of an LMDB database and finds what does not go together in it. No library tells of damage before it
 * fails over it, so each page in use is looked at: it is where the page above says, used once, and not free; its nodes
 * lie side by side, with keys in order and within those of the page above; there are as many as the head counts; and
 * each value is what was written.
 */
import { crc32 } from 'node:zlib'

/** One of the two trees of the file: that of free pages, and that of values. */
export interface Tree {
  readonly root: bigint
  readonly depth: number
  readonly branches: bigint
  readonly leaves: bigint
  readonly overflows: bigint
  readonly entries: bigint
  readonly flags: number
}

/** What a page at the head of the file says of a snapshot. */
export interface Head {
  readonly pageSize: number
  readonly lastPage: bigint
  readonly snapshot: bigint
  readonly free: Tree
  readonly main: Tree
}

/** The root of a tree without pages. */
export const NO_PAGE = 0xffffffffffffffffn

// The layout of pages, as far as it is looked at.
const HEADER = 24
const PAGE_OFFSETS = { number: 0, flags: 18, lower: 20, upper: 22, count: 20 }
const NODE = { low: 0, high: 2, flags: 4, keySize: 6, key: 8 }
const [BRANCH, LEAF, OVERFLOW] = [1, 2, 4]
/** Of the flags of a page, all but one that says nothing once it is written. */
const FLAGS = 0xffff - 0x2000
/** A node whose value has pages of its own, and what stands in the node then. */
const LARGE = 1
const REFERENCE = 24
/** The version before each value. */
const VERSION = 8
/** No tree is deeper. */
const MAX_DEPTH = 32
/** How many pages are looked at in one go. */
const PAGES_PER_TURN = 64

class Fault extends Error {}

interface Node {
  readonly at: number
  readonly end: number
  readonly key: Buffer
  /** Of a leaf alone. */
  readonly size: number
  readonly isLarge: boolean
  /** Of a branch alone. */
  readonly child: bigint
}

/** Between which keys those of a page lie: from the first one, before the second one. */
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

/** Looks at all pages in use; pauses now and then. Gives what is wrong, if anything is. */
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
  /** Which pages are used, or free. */
  readonly #taken: Uint8Array
  #looked = 0

  constructor(head: Head, read: (page: bigint, count: number) => Buffer) {
    this.#head = head
    this.#read = read
    this.#taken = new Uint8Array(Number(head.lastPage) + 1)
    // The heads of the file.
    this.#taken.fill(1, 0, 2)
  }

  *free(): Generator<undefined, void> {
    yield* this.#tree(this.#head.free, compareNumbers, (_key, value, page) => {
      for (const [first, count] of freePages(value, page)) this.#take(first, count)
    })
  }

  *values(): Generator<undefined, void> {
    yield* this.#tree(this.#head.main, Buffer.compare, (key, value, page) => {
      if (value.length < VERSION || !isSound(key, value.subarray(VERSION))) throw faultAt(page)
    })
  }

  *#tree(
    { root, depth, ...told }: Tree,
    compare: (one: Buffer, other: Buffer) => number,
    look: (key: Buffer, value: Buffer, page: bigint) => void,
  ): Generator<undefined, void> {
    const counts: Counts = { branches: 0n, leaves: 0n, overflows: 0n, entries: 0n }
    if (depth > MAX_DEPTH || (root === NO_PAGE) !== (depth === 0)) throw new Fault('its head was damaged')
    if (depth > 0) yield* this.#visit(root, depth, {}, { counts, compare, look })
    const isSame =
      counts.branches === told.branches &&
      counts.leaves === told.leaves &&
      counts.overflows === told.overflows &&
      counts.entries === told.entries
    if (!isSame) throw new Fault('its head was damaged')
  }

  *#visit(
    number: bigint,
    depth: number,
    range: Range,
    tree: {
      readonly counts: Counts
      readonly compare: (one: Buffer, other: Buffer) => number
      readonly look: (key: Buffer, value: Buffer, page: bigint) => void
    },
  ): Generator<undefined, void> {
    this.#take(number, 1n)
    if (++this.#looked % PAGES_PER_TURN === 0) yield
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
      tree.look(node.key, value, number)
    }
  }

  /** A page of a kind. */
  #page(number: bigint, kind: number, count = 1): Buffer {
    const { pageSize } = this.#head
    const page = this.#read(number, count)
    const isIt =
      page.length === count * pageSize &&
      page.readBigUInt64LE(PAGE_OFFSETS.number) === number &&
      (page.readUInt16LE(PAGE_OFFSETS.flags) & FLAGS) === kind
    if (!isIt) throw faultAt(number)
    return page
  }

  /** A value that has pages of its own. */
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
  const room = page.length - HEADER
  if (lower === 0 || lower % 2 !== 0 || lower > upper || upper > room) throw faultAt(number)
  const nodes = Array.from({ length: lower / 2 }, (_each, index) => {
    const at = HEADER + page.readUInt16LE(HEADER + 2 * index)
    if (at < HEADER + upper || at + NODE.key > page.length) throw faultAt(number)
    return nodeAt(page, at, isBranch)
  })
  // They fill the end of the page, in any order.
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
    // No other flag is one of a store.
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
  // The first key of a branch says nothing.
  for (const { key } of isBranch ? nodes.slice(1) : nodes) {
    const isAfter = before === undefined || compare(before, key) < (isFirst && !isBranch ? 1 : 0)
    if (!isAfter) throw faultAt(number)
    before = key
    isFirst = false
  }
  if (to !== undefined && before !== undefined && before !== from && compare(before, to) >= 0)
    throw faultAt(number)
}

/** Numbers of eight bytes, in the order of their values; what is none comes nowhere. */
function compareNumbers(one: Buffer, other: Buffer): number {
  if (one.length !== 8 || other.length !== 8) return Number.NaN
  const [first, second] = [one.readBigUInt64LE(), other.readBigUInt64LE()]
  return first < second ? -1 : first > second ? 1 : 0
}

/** The pages a record lists as free: how many numbers follow, then each, or minus a count and the first of so many. */
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

// Values as they stand in the database: until when they are kept, a checksum of that, the key and the text, and the
// text. A value whose checksum is wrong was damaged on the disk; it is never taken for one that is not there, as a call
// that was answered would run again then. Values without a checksum were written by earlier versions, which in turn
// read those that have one.

/** A value that was found, with the version of that write. */
export interface Found {
  readonly text: string
  /** In milliseconds since 1970. */
  readonly until: number
  readonly version: number
}

/** A value is not what was written. */
export class DamagedValue extends Error {
  override readonly message = 'a value in it was damaged'
}

/** A value as it is stored. */
export function storedValue(key: string, text: string, until: number): string {
  const end = Math.ceil(until).toString(36)
  return `${end}.${checksum(key, end, text)} ${text}`
}

/** A value as it was stored; nothing where there is none. @throws DamagedValue */
export function readValue(key: string, stored: string | undefined, version = 0): Found | undefined {
  if (stored === undefined) return undefined
  const space = stored.indexOf(' ')
  const head = /^([0-9a-z]+)(?:\.([0-9a-z]+))?$/.exec(stored.slice(0, Math.max(space, 0)))
  const [, end = '', sum] = head ?? []
  const text = stored.slice(space + 1)
  if (!head || (sum !== undefined && sum !== checksum(key, end, text))) throw new DamagedValue()
  return { until: Number.parseInt(end, 36), text, version }
}

/** Whether the bytes of a value are those that were stored, its key given as bytes too. */
function isSound(key: Buffer, stored: Buffer): boolean {
  const space = stored.subarray(0, MAX_HEAD_LENGTH).indexOf(0x20)
  const head = /^([0-9a-z]+)(?:\.([0-9a-z]+))?$/.exec(stored.toString('latin1', 0, Math.max(space, 0)))
  if (!head) return false
  const [, end = '', sum] = head
  // Keys with control characters are written in another way than their text.
  if (sum === undefined || key.some((byte) => byte < 0x20)) return true
  return sum === crc32(stored.subarray(space + 1), crc32(`${end} `, crc32(key))).toString(36)
}

/** No head of a value is longer, in bytes: two numbers of 36 digits, and what stands between them. */
const MAX_HEAD_LENGTH = 32

function checksum(key: string, end: string, text: string): string {
  return crc32(text, crc32(`${end} `, crc32(key))).toString(36)
}

/** What no other write has, of any process. */
export function newVersion(): number {
  return 1 + Math.floor(Math.random() * 2 ** 52)
}

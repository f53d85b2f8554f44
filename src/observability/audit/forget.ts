/**
 * Forgetting a person in an audit log. A line that names the person becomes a stub of the same length: its number, its time, its
 * hash and that of the line before stay, so the chain is the same, and whoever writes the file at its end need not know of it.
 *
 * Invariants: a stub contains nothing else, as its hash does not cover what it contains. Which lines are stubs is said in a later
 * line of the same chain, the order to forget, which is written first. So lines cannot be hidden unseen: a stub that no order names
 * is a break of the log. These orders name who gave them, and are not erased.
 */
import { closeSync, createReadStream, fsync, fstatSync, openSync, write } from 'node:fs'
import { hash } from 'node:crypto'
import { promisify } from 'node:util'
import { isObject } from '../../core/json/json.ts'
import { parseJson } from '../../core/json/read.ts'
import { type AuditLine, readLine, withRotated } from './file.ts'

type Fields = Readonly<Record<string, unknown>>

/** What the lines have that order to forget. */
export const forgetOrder = { event: 'order', order: 'forget' } as const
/** The event of a stub, and all that it has. */
const FORGOTTEN = 'forgotten'
const stubMembers: ReadonlySet<string> = new Set(['seq', 'time', 'event', 'prev', 'hash'])

/** How many runs of numbers one order names. */
const MAX_RANGES_PER_ORDER = 200

const writeAt = promisify(write)
const sync = promisify(fsync)

/** A person as audit logs and orders name it once it is forgotten. */
export function personHash(id: string): string {
  return `sha256:${hash('sha256', id)}`
}

/** Whether a line is the stub of one that was erased. */
export function isStub({ event, isSound, fields }: AuditLine): boolean {
  return !isSound && event === FORGOTTEN && Object.keys(fields).every((name) => stubMembers.has(name))
}

/** Whether a line orders to forget lines. */
export function isForgetOrder({ event, fields }: Pick<AuditLine, 'event' | 'fields'>): boolean {
  return event === forgetOrder.event && fields.order === forgetOrder.order
}

/** How many lines of a log name a person, by the hash of its id. @throws the system error */
export async function countNaming(path: string, person: string): Promise<number> {
  const erasing = new Erasing(path, 'r')
  try {
    return (await erasing.find(person)).length
  } finally {
    erasing.close()
  }
}

/** A line to erase, and where it is. */
interface FoundLine {
  readonly file: number
  readonly offset: number
  readonly text: string
}

/** The lines of a log that are to be erased. Its files are found by what they are, also after a rotation. */
export class Erasing {
  readonly #files: readonly number[]
  #found: readonly FoundLine[] = []

  /** @throws the system error */
  constructor(path: string, mode: 'r' | 'r+' = 'r+') {
    this.#files = withRotated(path).map((each) => openSync(each, mode))
  }

  /** Finds the lines that name a person; resolves with their numbers. */
  async find(person: string): Promise<readonly number[]> {
    const isOf = nameMatcher(person)
    const found: FoundLine[] = []
    const numbers: number[] = []
    for (const file of this.#files) {
      for await (const { offset, text } of linesOf(file)) {
        const fields = parsed(text)
        if (!isObject(fields) || typeof fields.seq !== 'number' || !names(fields).some(isOf)) continue
        if (isForgetOrder({ event: fields.event, fields }) || !readLine(text)) continue
        found.push({ file, offset, text })
        numbers.push(fields.seq)
      }
    }
    this.#found = found
    return numbers
  }

  /** Erases what was found. */
  async erase(): Promise<void> {
    for (const { file, offset, text } of this.#found) {
      const stub = Buffer.from(stubOf(text))
      await writeAt(file, stub, 0, stub.length, offset)
    }
    for (const file of new Set(this.#found.map((line) => line.file))) await sync(file)
  }

  close(): void {
    for (const file of this.#files) closeSync(file)
  }
}

/** The stub of a line, as long as that is in bytes. */
function stubOf(text: string): string {
  const fields = parsed(text)
  const { seq, time, prev, hash: digest } = isObject(fields) ? fields : {}
  const isTime = typeof time === 'string' && /^[\d.:TZ-]{1,40}$/.test(time)
  const start = JSON.stringify({ seq, ...(isTime && { time }), event: FORGOTTEN }).slice(0, -1)
  const end = `,${JSON.stringify({ prev, hash: digest }).slice(1)}`
  const padding = Buffer.byteLength(text) - start.length - end.length
  if (padding < 0) throw new Error(`line ${String(seq)} is too short to be forgotten`)
  return `${start}${' '.repeat(padding)}${end}`
}

/** The people that a line names. Several that approved a call are in one text, separated by commas. */
function names({
  principal,
  caller,
  approved_by: approved,
  declined_by: declined,
}: Fields): readonly string[] {
  return [principal, caller, ...joined(approved), ...joined(declined)].filter(
    (each) => typeof each === 'string',
  )
}

/** How many of the people who approved a call are looked at. */
const MAX_JOINED_NAMES = 20

/** The names in a text, which may have commas themselves: all runs of its parts. */
function joined(text: unknown): readonly string[] {
  if (typeof text !== 'string') return []
  const parts = text.split(', ').slice(0, MAX_JOINED_NAMES)
  return [
    text,
    ...parts.flatMap((_part, from) =>
      parts.slice(from).map((_each, length) => parts.slice(from, from + length + 1).join(', ')),
    ),
  ]
}

/** How many names are known by their hashes. */
const MAX_KNOWN_NAMES = 10_000

function nameMatcher(person: string): (name: string) => boolean {
  const known = new Map<string, boolean>()
  return (name) => {
    const found = known.get(name) ?? personHash(name) === person
    if (known.size >= MAX_KNOWN_NAMES) known.clear()
    known.set(name, found)
    return found
  }
}

/** The whole lines of a file that others append to, with their places in bytes. */
async function* linesOf(file: number): AsyncGenerator<{ readonly offset: number; readonly text: string }> {
  const { size } = fstatSync(file)
  if (size === 0) return
  const stream = createReadStream('', {
    fd: file,
    autoClose: false,
    start: 0,
    end: size - 1,
    highWaterMark: 1024 * 1024,
  })
  let rest = Buffer.alloc(0)
  let offset = 0
  for await (const chunk of stream) {
    const bytes = Buffer.concat([rest, chunk as Buffer])
    let from = 0
    for (let end = bytes.indexOf(LINE_FEED); end !== -1; end = bytes.indexOf(LINE_FEED, from)) {
      yield { offset: offset + from, text: bytes.toString('utf8', from, end) }
      from = end + 1
    }
    rest = bytes.subarray(from)
    offset += from
  }
}

const LINE_FEED = 0x0a

function parsed(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    return undefined
  }
}

// Numbers of lines as text: `3-9,12`.

/** The first and the last of a run of numbers. */
export type Range = readonly [from: number, to: number]

/** Ascending numbers as texts for orders, each of a limited length. */
export function lineTexts(numbers: readonly number[]): readonly string[] {
  const ranges: [number, number][] = []
  for (const number of numbers) {
    const last = ranges.at(-1)
    if (last && last[1] + 1 === number) last[1] = number
    else ranges.push([number, number])
  }
  const texts = ranges.map(([from, to]) => (from === to ? String(from) : `${from}-${to}`))
  return Array.from({ length: Math.ceil(texts.length / MAX_RANGES_PER_ORDER) }, (_each, index) =>
    texts.slice(index * MAX_RANGES_PER_ORDER, (index + 1) * MAX_RANGES_PER_ORDER).join(','),
  )
}

/** The numbers that an order names, of lines before its own. */
export function orderedRanges({
  seq,
  fields: { lines },
}: Pick<AuditLine, 'seq' | 'fields'>): readonly Range[] {
  if (typeof lines !== 'string' || !/^\d{1,15}(?:-\d{1,15})?(?:,\d{1,15}(?:-\d{1,15})?)*$/.test(lines))
    return []
  const ranges = lines.split(',').map((text): Range => {
    const [from = 0, to = from] = text.split('-').map(Number)
    return [from, Math.min(to, seq - 1)]
  })
  return ranges.filter(([from, to]) => from <= to)
}

/** A stub, and where it is. */
export interface StubPlace {
  readonly seq: number
  readonly file: string
  readonly line: number
}

/** The first of several stubs, in the order of their numbers, that no order names. */
export function unordered(stubs: readonly StubPlace[], ranges: readonly Range[]): StubPlace | undefined {
  const sorted = ranges.toSorted(([one], [other]) => one - other)
  let index = 0
  let last = -1
  return stubs.find(({ seq }) => {
    for (let range = sorted[index]; range && range[0] <= seq; range = sorted[++index])
      last = Math.max(last, range[1])
    return seq > last
  })
}

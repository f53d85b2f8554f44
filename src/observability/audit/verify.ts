/** Verifies the chain over all files of a log, and its anchor. */
import { createReadStream, existsSync, readFileSync } from 'node:fs'
import {
  AuditFile,
  type AuditLine,
  type Head,
  origin,
  parseHead,
  readLine,
  tornDigest,
  withRotated,
} from './file.ts'
import { isForgetOrder, isStub, orderedRanges, type Range, type StubPlace, unordered } from './forget.ts'

/** The position and reason of a break in an audit log. */
interface Break {
  readonly file: string
  /** From 1; absent if it concerns the whole file. */
  readonly line?: number
  readonly reason: string
}

/** The result for one audit log, with its files in order. */
export interface LogVerification {
  readonly files: readonly string[]
  readonly lines: number
  /** How many of them are stubs of lines about people who were forgotten. */
  readonly forgotten: number
  /** The numbers of the lines that order that. */
  readonly orders: readonly number[]
  readonly last?: Head
  /** The number of the anchored line; absent if the store has no anchor of the log. */
  readonly anchored?: number
  readonly problem?: Break
}

interface Expected {
  /** The hash of a required line. */
  readonly head?: string | undefined
  /** The anchor of a log, by its current file. */
  anchorOf?(file: string): Promise<Head | undefined>
}

/**
 * Verifies audit logs; the files of one log are grouped. Where several processes write a log with the same name, the name of the first
 * file stands for all of them.
 */
export async function verifyAudit(
  files: readonly string[],
  { head, anchorOf }: Expected = {},
): Promise<LogVerification[]> {
  const logs = new Map<string, readonly string[]>()
  for (const file of files) {
    const log = logOf(file)
    logs.set(log, [...(logs.get(log) ?? []), file])
  }
  for (const other of [...logs.keys()].flatMap((log) => AuditFile.places(log).slice(1))) {
    if (logs.has(other)) continue
    if (existsSync(other)) logs.set(other, withRotated(other))
    else if (await anchorOf?.(other)) logs.set(other, [])
  }
  const verdicts: LogVerification[] = []
  let isFound = false
  for (const [log, each] of logs) {
    if (each.length === 0) {
      const problem = { file: log, reason: 'does not exist, but the store knows lines of it' }
      verdicts.push({ files: [log], lines: 0, forgotten: 0, orders: [], problem })
      continue
    }
    const chain = new Chain(head, await anchorOf?.(log))
    verdicts.push(await chain.verify(each))
    isFound ||= chain.isFound
  }
  const [first, ...others] = verdicts
  if (head === undefined || isFound || !first || verdicts.some(({ problem }) => problem)) return verdicts
  const reason = `no line has the hash ${head}: lines at the end are missing`
  return [{ ...first, problem: { file: first.files.at(-1) ?? '', reason } }, ...others]
}

/** The current file of the log that a file belongs to. */
function logOf(file: string): string {
  return file.replace(/\.\d+$/, '')
}

/** Verifies the lines of one log. */
class Chain {
  readonly #head: string | undefined
  isFound = false
  #last: Head | undefined
  #lines = 0
  /** Text after the last line that is not a line, and where it begins. */
  #torn: { text: string; line: number } | undefined
  readonly #stubs: StubPlace[] = []
  /** What orders to forget name, and the numbers of their lines. */
  readonly #forgotten: Range[] = []
  readonly #orders: number[] = []
  /** Heads recorded elsewhere: next to the file and in the store. */
  #written: readonly Head[] = []
  readonly #anchor: Head | undefined

  constructor(head: string | undefined, anchor: Head | undefined) {
    this.#head = head
    this.#anchor = anchor
  }

  async verify(given: readonly string[]): Promise<LogVerification> {
    const files = await inOrder(given)
    this.#written = [writtenHead(files.at(-1) ?? ''), this.#anchor].filter((each) => each !== undefined)
    const problem = await this.#walk(files)
    const last = this.#last
    const anchored = this.#anchor && { anchored: this.#anchor.seq }
    const counts = { lines: this.#lines, forgotten: this.#stubs.length, orders: this.#orders }
    return { files, ...counts, ...(last && { last }), ...anchored, ...(problem && { problem }) }
  }

  async #walk(files: readonly string[]): Promise<Break | undefined> {
    for (const file of files) {
      let number = 0
      for await (const text of linesOf(file)) {
        number++
        const broken = this.#take(text, { file, number }, file === files[0] && number === 1)
        if (broken) return { file, ...broken }
      }
      if (this.#torn)
        return { file, line: this.#torn.line, reason: 'is cut off, or is not a line of an audit log' }
    }
    return this.#atEnd(files.at(-1) ?? '')
  }

  #take(
    text: string,
    { file, number }: { readonly file: string; readonly number: number },
    isFirst: boolean,
  ): Omit<Break, 'file'> | undefined {
    const line = readLine(text)
    if (!line) {
      this.#torn = this.#torn
        ? { ...this.#torn, text: `${this.#torn.text}\n${text}` }
        : { text, line: number }
      return undefined
    }
    const torn = this.#torn
    this.#torn = undefined
    if (torn && !(line.isSound && line.event === 'torn' && line.fields.torn === tornDigest(torn.text)))
      return { line: torn.line, reason: 'is not a line of an audit log' }
    const reason = this.#fault(line, isFirst)
    if (reason !== undefined) return { line: number, reason }
    this.#last = line
    this.#lines++
    this.#noteForgotten(line, { seq: line.seq, file, line: number })
    this.isFound ||= line.hash === this.#head
    const isOther = this.#written.some(({ seq, hash }) => seq === line.seq && hash !== line.hash)
    return isOther ? { line: number, reason: 'is not the line that was written here' } : undefined
  }

  #noteForgotten(line: AuditLine, place: StubPlace): void {
    if (isStub(line)) this.#stubs.push(place)
    const ranges = line.isSound && isForgetOrder(line) ? orderedRanges(line) : []
    if (ranges.length > 0) this.#orders.push(line.seq)
    this.#forgotten.push(...ranges)
  }

  #fault(line: AuditLine, isFirst: boolean): string | undefined {
    if (!line.isSound && !isStub(line)) return 'was altered'
    const { seq, prev, event, fields } = line
    const before = this.#last ?? (isFirst && event === 'continued' ? { seq: seq - 1, hash: prev } : origin)
    if (seq > before.seq + 1)
      return `comes after line(s) ${span(before.seq + 1, seq - 1)} of the log, which are missing`
    if (seq < before.seq + 1)
      return `is out of order: it is line ${seq} of the log, but line ${before.seq + 1} is expected`
    if (prev !== before.hash) return 'does not follow the previous line'
    if (event === 'missing')
      return `reports that line(s) ${String(fields.from)} to ${String(fields.to)} are missing`
    return undefined
  }

  #atEnd(file: string): Break | undefined {
    const hidden = unordered(this.#stubs, this.#forgotten)
    if (hidden)
      return {
        file: hidden.file,
        line: hidden.line,
        reason: 'was forgotten, and no later line of these files orders that',
      }
    const { seq = 0 } = this.#last ?? {}
    if (this.#lines === 0 && this.#written.length === 0) return { file, reason: 'has no lines' }
    const end = Math.max(seq, ...this.#written.map((each) => each.seq))
    if (end === seq) return undefined
    return { file, reason: `line(s) ${span(seq + 1, end)} of the log are missing at the end` }
  }
}

function span(from: number, to: number): string {
  return from === to ? `${from}` : `${from} to ${to}`
}

/** The files of a log, the oldest first. */
async function inOrder(files: readonly string[]): Promise<string[]> {
  const begun = await Promise.all(files.map(async (file) => ({ file, seq: await firstSeq(file) })))
  return begun.toSorted((one, other) => one.seq - other.seq).map(({ file }) => file)
}

async function firstSeq(file: string): Promise<number> {
  for await (const text of linesOf(file)) {
    const line = readLine(text)
    if (line) return line.seq
  }
  return Number.MAX_SAFE_INTEGER
}

/** The head recorded next to the file, if it exists. */
function writtenHead(file: string): Head | undefined {
  const path = `${file}.head`
  return existsSync(path) ? parseHead(readFileSync(path, 'utf8')) : undefined
}

/** The lines of a file; the last one may be unterminated. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of createReadStream(file, { encoding: 'utf8', highWaterMark: 1024 * 1024 })) {
    const lines = (rest + String(chunk)).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest !== '') yield rest
}

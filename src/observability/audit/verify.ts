/** Verifies the chain over all files and its anchor. */
import { createReadStream, existsSync, readFileSync } from 'node:fs'
import { type AuditLine, type Head, origin, parseHead, readLine, tornDigest } from './file.ts'

/** Where an audit log is broken, and why. */
interface Break {
  readonly file: string
  /** From 1; absent where it is about the file as a whole. */
  readonly line?: number
  readonly reason: string
}

/** What was found out about one audit log: its files in their order. */
export interface Verdict {
  readonly files: readonly string[]
  readonly lines: number
  readonly last?: Head
  /** The number of the line up to which the store vouches for it; absent where the store does not know the log. */
  readonly anchored?: number
  readonly problem?: Break
}

interface Expected {
  /** The hash of a line that must be there. */
  readonly head?: string | undefined
  /** The last line of a log as a store has it, by the file that is written to. */
  anchorOf?(file: string): Promise<Head | undefined>
}

/** Checks audit logs from their files, those of one log together. */
export async function verifyAudit(
  files: readonly string[],
  { head, anchorOf }: Expected = {},
): Promise<Verdict[]> {
  const logs = new Map<string, string[]>()
  for (const file of files) {
    const log = file.replace(/\.\d+$/, '')
    logs.set(log, [...(logs.get(log) ?? []), file])
  }
  const verdicts: Verdict[] = []
  let isFound = false
  for (const [log, each] of logs) {
    const chain = new Chain(head, await anchorOf?.(log))
    verdicts.push(await chain.verify(each))
    isFound ||= chain.isFound
  }
  const [first, ...others] = verdicts
  if (head === undefined || isFound || !first || verdicts.some(({ problem }) => problem)) return verdicts
  const reason = `no line has the hash ${head}: lines at the end are missing`
  return [{ ...first, problem: { file: first.files.at(-1) ?? '', reason } }, ...others]
}

/** Follows the lines of one log. */
class Chain {
  readonly #head: string | undefined
  isFound = false
  #last: Head | undefined
  #lines = 0
  /** What is no line since the last one, and where it began. */
  #torn: { text: string; line: number } | undefined
  /** Lines that were written, as was noted elsewhere: beside the file and in the store. */
  #written: readonly Head[] = []
  readonly #anchor: Head | undefined

  constructor(head: string | undefined, anchor: Head | undefined) {
    this.#head = head
    this.#anchor = anchor
  }

  async verify(given: readonly string[]): Promise<Verdict> {
    const files = await inOrder(given)
    this.#written = [writtenHead(files.at(-1) ?? ''), this.#anchor].filter((each) => each !== undefined)
    const problem = await this.#walk(files)
    const last = this.#last
    const anchored = this.#anchor && { anchored: this.#anchor.seq }
    return { files, lines: this.#lines, ...(last && { last }), ...anchored, ...(problem && { problem }) }
  }

  async #walk(files: readonly string[]): Promise<Break | undefined> {
    for (const file of files) {
      let number = 0
      for await (const text of linesOf(file)) {
        number++
        const broken = this.#take(text, number, file === files[0] && number === 1)
        if (broken) return { file, ...broken }
      }
      if (this.#torn)
        return { file, line: this.#torn.line, reason: 'is cut off, or is no line of an audit log' }
    }
    return this.#atEnd(files.at(-1) ?? '')
  }

  #take(text: string, number: number, isFirst: boolean): Omit<Break, 'file'> | undefined {
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
      return { line: torn.line, reason: 'is no line of an audit log' }
    const reason = this.#fault(line, isFirst)
    if (reason !== undefined) return { line: number, reason }
    this.#last = line
    this.#lines++
    this.isFound ||= line.hash === this.#head
    const isOther = this.#written.some(({ seq, hash }) => seq === line.seq && hash !== line.hash)
    return isOther ? { line: number, reason: 'is not the line that was written here' } : undefined
  }

  #fault(line: AuditLine, isFirst: boolean): string | undefined {
    if (!line.isSound) return 'was altered'
    const { seq, prev, event, fields } = line
    const before = this.#last ?? (isFirst && event === 'continued' ? { seq: seq - 1, hash: prev } : origin)
    if (seq > before.seq + 1)
      return `comes after line(s) ${span(before.seq + 1, seq - 1)} of the log, which are missing`
    if (seq < before.seq + 1)
      return `is out of order: it is line ${seq} of the log, and ${before.seq + 1} is due`
    if (prev !== before.hash) return 'does not follow the line before it'
    if (event === 'missing')
      return `says that line(s) ${String(fields.from)} to ${String(fields.to)} went missing`
    return undefined
  }

  #atEnd(file: string): Break | undefined {
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

/** The last line as it is kept beside the file, where it is. */
function writtenHead(file: string): Head | undefined {
  const path = `${file}.head`
  return existsSync(path) ? parseHead(readFileSync(path, 'utf8')) : undefined
}

/** The lines of a file; the last one need not be ended. */
async function* linesOf(file: string): AsyncGenerator<string> {
  let rest = ''
  for await (const chunk of createReadStream(file, { encoding: 'utf8', highWaterMark: 1024 * 1024 })) {
    const lines = (rest + String(chunk)).split('\n')
    rest = lines.pop() ?? ''
    yield* lines
  }
  if (rest !== '') yield rest
}

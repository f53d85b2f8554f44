/** The audit file: append-only, rotated, locked by one process, and repaired after a torn write. */
import { hash } from 'node:crypto'
import {
  closeSync,
  existsSync,
  fstatSync,
  fsync,
  mkdirSync,
  openSync,
  readdirSync,
  readSync,
  renameSync,
  rmSync,
  write,
  writeSync,
} from 'node:fs'
import { basename, dirname, extname, join } from 'node:path'
import { promisify } from 'node:util'
import { escapeHidden } from '../../core/text/escape.ts'
import { isObject } from '../../core/json/json.ts'
import { parseJson } from '../../core/json/read.ts'
import { type FileLock, takeLock } from './file-lock.ts'
import { plantedProblem } from '../../store/private-folder.ts'

/** How many processes may write an audit log with the same name, each to its own file. */
const MAX_FILES = 64
/** How much of the end of a file is read to find the last line, in bytes. */
const MAX_TAIL_BYTES = 4 * 1024 * 1024
const HEAD_LENGTH = 128

const writeAt = promisify(write)
const sync = promisify(fsync)

/** The file of an audit log: only this process writes to it, and only at its end. */
export class AuditFile {
  readonly path: string
  /** The last line of this file or the rotated ones. */
  readonly head: Head
  /** The digest of a torn line at the end of the file; absent if there was none. */
  readonly torn?: string
  /** The last written line, if the file does not contain it. */
  readonly missing?: Head
  readonly #lock: FileLock
  #file: number
  readonly #headFile: number
  #position: number

  private constructor(path: string, lock: FileLock) {
    this.path = path
    this.#lock = lock
    this.#file = openSync(path, existsSync(path) ? 'r+' : 'wx+', 0o600)
    this.#headFile = openSync(`${path}.head`, existsSync(`${path}.head`) ? 'r+' : 'wx+', 0o600)
    this.#position = fstatSync(this.#file).size
    const { head, torn, isOpen } = lastLine(this.#file, this.#position)
    this.head = head
    if (torn !== undefined) this.torn = torn
    const written = readHead(this.#headFile)
    if (written && written.seq > head.seq) this.missing = written
    if (isOpen) this.#position += writeSync(this.#file, '\n', this.#position)
  }

  /** Opens the file or, if another process has locked it, the next free one. @throws the system error */
  static open({ file }: { readonly file: string }): AuditFile {
    createFolder(dirname(file))
    for (let place = 1; place <= MAX_FILES; place++) {
      const opened = AuditFile.openAt(placed(file, place))
      if (opened) return opened
    }
    throw new Error(`too many processes write the audit log ${file}`)
  }

  /** Opens this file; undefined if another process has locked it. @throws the system error */
  static openAt(path: string): AuditFile | undefined {
    for (const each of [path, `${path}.head`, `${path}.lock`]) {
      const problem = plantedProblem(each)
      if (problem !== undefined) throw new Error(`${each} ${problem}`)
    }
    const lock = takeLock(`${path}.lock`)
    if (!lock) return undefined
    try {
      return new AuditFile(path, lock)
    } catch (error) {
      lock.release()
      throw error
    }
  }

  /** The files of all processes that write an audit log with this name, without the rotated ones. */
  static all(file: string): readonly string[] {
    return AuditFile.places(file).filter((path) => existsSync(path))
  }

  /** Where each process may write an audit log with this name. */
  static places(file: string): readonly string[] {
    return Array.from({ length: MAX_FILES }, (_each, index) => placed(file, index + 1))
  }

  /** The size in bytes. */
  get size(): number {
    return this.#position
  }

  /** Appends lines, the last of which is the head. Retrying after a failure is safe. */
  async add(text: string, head: Head): Promise<void> {
    const bytes = Buffer.from(text)
    let done = 0
    while (done < bytes.length) {
      const { bytesWritten } = await writeAt(
        this.#file,
        bytes,
        done,
        bytes.length - done,
        this.#position + done,
      )
      done += bytesWritten
    }
    const note = headText(head)
    await writeAt(this.#headFile, Buffer.from(note), 0, note.length, 0)
    this.#position += bytes.length
  }

  /** Appends lines synchronously, for the exit of the process. */
  addNow(text: string, head: Head): void {
    writeSync(this.#file, text, this.#position)
    writeSync(this.#headFile, headText(head), 0)
  }

  /** Rotates the file to `.1` and the older ones one further, of which `keep` are kept, and starts a new file. */
  rotate(keep: number | undefined): void {
    const numbers = rotated(this.path)
    for (const number of numbers) {
      if (keep !== undefined && number >= keep) rmSync(`${this.path}.${number}`, { force: true })
      else renameSync(`${this.path}.${number}`, `${this.path}.${number + 1}`)
    }
    renameSync(this.path, `${this.path}.1`)
    const next = openSync(this.path, 'wx+', 0o600)
    closeSync(this.#file)
    this.#file = next
    this.#position = 0
  }

  async close(): Promise<void> {
    await sync(this.#file)
    this.closeNow()
  }

  closeNow(): void {
    closeSync(this.#file)
    closeSync(this.#headFile)
    this.#lock.release()
  }
}

function readHead(file: number): Head | undefined {
  const bytes = Buffer.alloc(HEAD_LENGTH)
  return parseHead(bytes.toString('utf8', 0, readSync(file, bytes, 0, HEAD_LENGTH, 0)))
}

function headText({ seq, hash }: Head): string {
  return `${JSON.stringify({ seq, hash }).padEnd(HEAD_LENGTH - 1)}\n`
}

/** `audit.jsonl`, `audit.2.jsonl`, `audit.3.jsonl` … */
function placed(file: string, place: number): string {
  if (place === 1) return file
  const end = extname(file)
  return `${file.slice(0, file.length - end.length)}.${place}${end}`
}

/** A file and those that it was rotated to, the oldest first. */
export function withRotated(path: string): readonly string[] {
  return [...rotated(path).map((number) => `${path}.${number}`), path]
}

/** The numbers of the full files, the highest first. */
function rotated(path: string): number[] {
  const start = `${basename(path)}.`
  const names = readdirSync(dirname(join(path)))
  const numbers = names.flatMap((name) => (name.startsWith(start) ? [name.slice(start.length)] : []))
  return numbers
    .filter((each) => /^[1-9]\d{0,8}$/.test(each))
    .map(Number)
    .toSorted((one, other) => other - one)
}

interface Last {
  readonly head: Head
  readonly torn?: string
  /** The file does not end with a line break. */
  readonly isOpen: boolean
}

/** Finds the last line of a file, and the text after it. @throws Error if the file is not an audit log */
function lastLine(file: number, size: number): Last {
  if (size === 0) return { head: origin, isOpen: false }
  const length = Math.min(size, MAX_TAIL_BYTES)
  const bytes = Buffer.alloc(length)
  readSync(file, bytes, 0, length, size - length)
  const lines = bytes.toString('utf8').split('\n')
  const isOpen = lines.at(-1) !== ''
  if (!isOpen) lines.pop()
  const last = lines.findLastIndex((each) => readLine(each) !== undefined)
  const line = readLine(lines[last] ?? '')
  const isBegun = lines.length === 1 && isOpen && lines[0]?.startsWith('{"seq":1,') === true
  if (!line && !isBegun) throw new Error('the file is not an audit log: choose another one')
  const { seq, hash } = line ?? origin
  const torn = lines.slice(last + 1).join('\n')
  return { head: { seq, hash }, isOpen, ...(torn !== '' && { torn: tornDigest(torn) }) }
}

/** Creates a folder and those above it, one by one: `recursive` never returns in a file system without folders, such as /proc. */
function createFolder(folder: string): void {
  if (existsSync(folder)) return
  const above = dirname(folder)
  if (above !== folder) createFolder(above)
  mkdirSync(folder, { mode: 0o700 })
}

// The lines of the audit file, chained by hashes.

/** The head of a chain: the number and hash of its last line. */
export interface Head {
  readonly seq: number
  readonly hash: string
}

/** The predecessor of the first line. */
export const origin: Head = { seq: 0, hash: '0'.repeat(64) }

/** A parsed line. */
export interface AuditLine {
  readonly seq: number
  /** The hash of the line before. */
  readonly prev: string
  readonly hash: string
  /** Whether the hash matches the line. */
  readonly isSound: boolean
  readonly event: unknown
  readonly fields: Readonly<Record<string, unknown>>
}

/**
 * The next line of a chain: a JSON object whose last member is the SHA-256 of the text without that member, which
 * includes the hash of the previous line.
 */
export function encodeLine(
  before: Head,
  fields: Readonly<Record<string, unknown>>,
): { readonly line: string; readonly head: Head } {
  const seq = before.seq + 1
  const members = JSON.stringify(fields).slice(1, -1)
  const text = escapeHidden(`{"seq":${seq},${members},"prev":"${before.hash}"}`)
  const digest = hash('sha256', text)
  return { line: `${text.slice(0, -1)},"hash":"${digest}"}\n`, head: { seq, hash: digest } }
}

const end = /,"hash":"([0-9a-f]{64})"\}$/

/** Parses a line; undefined if it is not a line of an audit log. */
export function readLine(text: string): AuditLine | undefined {
  const [tail, digest] = end.exec(text) ?? []
  const fields = tail === undefined ? undefined : parsed(text)
  if (tail === undefined || digest === undefined || !isObject(fields)) return undefined
  const { seq, prev, event } = fields
  if (typeof seq !== 'number' || typeof prev !== 'string') return undefined
  const isSound = hash('sha256', `${text.slice(0, -tail.length)}}`) === digest
  return { seq, prev, hash: digest, isSound, event, fields }
}

/** Parses the head of a chain, as written next to a file and in the store. */
export function parseHead(text: string): Head | undefined {
  const value = parsed(text)
  if (!isObject(value)) return undefined
  const { seq, hash: digest } = value
  return typeof seq === 'number' && typeof digest === 'string' ? { seq, hash: digest } : undefined
}

/** The digest of a torn line, recorded in the line after it. */
export function tornDigest(text: string): string {
  return hash('sha256', text)
}

function parsed(text: string): unknown {
  try {
    return parseJson(text)
  } catch {
    return undefined
  }
}

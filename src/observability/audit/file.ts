/** The audit file: appended, rotated, locked by one process, and mended after a torn write. */
import { randomUUID, hash } from 'node:crypto'
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
  readFileSync,
  statSync,
  utimesSync,
} from 'node:fs'
import { hostname } from 'node:os'
import { basename, dirname, extname, join } from 'node:path'
import { promisify } from 'node:util'
import { isObject } from '../../core/json/json.ts'

/** How many processes may keep an audit log of the same name, each in a file of its own. */
const MAX_FILES = 64
/** How much of the end of a file is read to find its last line, in bytes. */
const MAX_TAIL_BYTES = 4 * 1024 * 1024
const HEAD_LENGTH = 128

const writeAt = promisify(write)
const sync = promisify(fsync)

/** The file of an audit log: only this process writes to it, only at its end. */
export class AuditFile {
  readonly path: string
  /** The last line, of this file or those before it. */
  readonly head: Head
  /** Names what stood at the end of the file and is no line; absent where there was nothing. */
  readonly torn?: string
  /** The line that was written last, where the file does not reach that far. */
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

  /** Opens the file, or where another process has it the next free one. @throws the system's error */
  static open({ file }: { readonly file: string }): AuditFile {
    const folder = dirname(file)
    if (!existsSync(folder)) mkdirSync(folder, { mode: 0o700 })
    for (let place = 1; place <= MAX_FILES; place++) {
      const path = placed(file, place)
      const lock = takeLock(`${path}.lock`)
      if (!lock) continue
      try {
        return new AuditFile(path, lock)
      } catch (error) {
        lock.release()
        throw error
      }
    }
    throw new Error(`too many processes keep the audit log ${file}`)
  }

  /** In bytes. */
  get size(): number {
    return this.#position
  }

  /** Adds lines, the last of which is the head. Writing the same again after a failure does no harm. */
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

  /** Adds lines at once, for the end of the process. */
  addNow(text: string, head: Head): void {
    writeSync(this.#file, text, this.#position)
    writeSync(this.#headFile, headText(head), 0)
  }

  /** Puts the file away as `.1`, those before it one further, of which `keep` stay, and begins the next. */
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
  /** The file does not end with the end of a line. */
  readonly isOpen: boolean
}

/** Finds the last line of a file, and what stands after it. @throws Error where the file holds something else */
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
  if (!line && !isBegun) throw new Error('the file is no audit log: name another one')
  const { seq, hash } = line ?? origin
  const torn = lines.slice(last + 1).join('\n')
  return { head: { seq, hash }, isOpen, ...(torn !== '' && { torn: tornDigest(torn) }) }
}

/** How often a lock is shown to be held, and after which silence it is not, in milliseconds. */
const HEARTBEAT_INTERVAL_MS = 20_000
const LOCK_STALE_MS = 90_000

/** A file only this process may write to. */
interface FileLock {
  release(): void
}

/** Takes a lock; nothing where another process that lives has it. @throws the system's error */
function takeLock(path: string): FileLock | undefined {
  const token = randomUUID()
  if (!create(path, token) && !(takeOver(path, token) && create(path, token))) return undefined
  const isOurs = (): boolean => read(path)?.token === token
  const beat = setInterval(() => {
    const now = new Date()
    if (isOurs()) utimesSync(path, now, now)
  }, HEARTBEAT_INTERVAL_MS).unref()
  held.add(path)
  return {
    release: () => {
      clearInterval(beat)
      held.delete(path)
      if (isOurs()) rmSync(path, { force: true })
    },
  }
}

/** The locks of this process. */
const held = new Set<string>()

function create(path: string, token: string): boolean {
  try {
    const file = openSync(path, 'wx', 0o600)
    writeSync(file, JSON.stringify({ pid: process.pid, host: hostname(), token }))
    closeSync(file)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false
    throw error
  }
}

/** Puts away a lock whose holder has ended. */
function takeOver(path: string, token: string): boolean {
  const found = read(path)
  if (held.has(path) || (found && isAlive(found, path))) return false
  const aside = `${path}.${token}`
  try {
    renameSync(path, aside)
    // Another may have been quicker: then this is its lock.
    const isSame = read(aside)?.token === found?.token
    if (!isSame) renameSync(aside, path)
    rmSync(aside, { force: true })
    return isSame
  } catch {
    return false
  }
}

interface Holder {
  readonly pid: number
  readonly host: string
  readonly token: string
}

function isAlive({ pid, host }: Holder, path: string): boolean {
  // The same id on the same host is an earlier life of this process, as in a container that was started again.
  if (host !== hostname()) return Date.now() - statSync(path).mtimeMs < LOCK_STALE_MS
  return pid !== process.pid && isRunning(pid)
}

function isRunning(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return error instanceof Error && 'code' in error && error.code === 'EPERM'
  }
}

function read(path: string): Holder | undefined {
  try {
    const holder: unknown = JSON.parse(readFileSync(path, 'utf8'))
    return isHolder(holder) ? holder : undefined
  } catch {
    return undefined
  }
}

function isHolder(value: unknown): value is Holder {
  if (typeof value !== 'object' || value === null) return false
  return 'pid' in value && 'host' in value && 'token' in value && typeof value.pid === 'number'
}

// The lines of the audit file, chained by hashes.

/** Where a chain of lines has got to: the number and hash of its last line. */
export interface Head {
  readonly seq: number
  readonly hash: string
}

/** What the first line of all follows. */
export const origin: Head = { seq: 0, hash: '0'.repeat(64) }

/** A line that was read. */
export interface AuditLine {
  readonly seq: number
  /** The hash of the line before. */
  readonly prev: string
  readonly hash: string
  /** Whether the hash is that of the line. */
  readonly isSound: boolean
  readonly event: unknown
  readonly fields: Readonly<Record<string, unknown>>
}

/**
 * The next line of a chain: a JSON object whose last member is the SHA-256 of the text it would be without that
 * member, in which stands the hash of the line before.
 */
export function encodeLine(
  before: Head,
  fields: Readonly<Record<string, unknown>>,
): { readonly line: string; readonly head: Head } {
  const seq = before.seq + 1
  const text = JSON.stringify({ seq, ...fields, prev: before.hash })
  const digest = hash('sha256', text)
  return { line: `${text.slice(0, -1)},"hash":"${digest}"}\n`, head: { seq, hash: digest } }
}

const end = /,"hash":"([0-9a-f]{64})"\}$/

/** Reads a line; nothing where it is none of an audit log. */
export function readLine(text: string): AuditLine | undefined {
  const [tail, digest] = end.exec(text) ?? []
  const fields = tail === undefined ? undefined : parsed(text)
  if (tail === undefined || digest === undefined || !isObject(fields)) return undefined
  const { seq, prev, event } = fields
  if (typeof seq !== 'number' || typeof prev !== 'string') return undefined
  const isSound = hash('sha256', `${text.slice(0, -tail.length)}}`) === digest
  return { seq, prev, hash: digest, isSound, event, fields }
}

/** Reads the number and hash of the last line, as they are kept beside a file and in the store. */
export function parseHead(text: string): Head | undefined {
  const value = parsed(text)
  if (!isObject(value)) return undefined
  const { seq, hash: digest } = value
  return typeof seq === 'number' && typeof digest === 'string' ? { seq, hash: digest } : undefined
}

/** What names a text that is no line, in the line after it. */
export function tornDigest(text: string): string {
  return hash('sha256', text)
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

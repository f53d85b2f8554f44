import { appendFileSync, closeSync, openSync, readSync } from 'node:fs'
import type { Json } from './json.ts'
import { Log } from './log.ts'

/** HTTP headers by lower-case name; empty on stdio. */
export type HeaderMap = Readonly<Record<string, string>>

/** Something that reached the server. */
export interface Seen {
  readonly kind: 'message' | 'get' | 'delete' | 'cancelled' | 'disconnected'
  /** The raw text of a message; the id of a cancelled or disconnected call as JSON. */
  readonly text: string
  /** The message, when the text is a JSON object. */
  readonly message?: Json
  readonly headers: HeaderMap
}

/** What the server saw and what it objects to. */
export class Journal {
  readonly violations: string[] = []
  readonly #log = new Log<Seen>()
  readonly #file: string | undefined

  constructor(file?: string) {
    this.#file = file
  }

  /** Everything seen, oldest first. */
  get seen(): readonly Seen[] {
    return this.#log.items
  }

  record(entry: Seen): void {
    this.#write(this.#file, entry)
    this.#log.push(entry)
  }

  violation(text: string): void {
    this.#write(this.#file && violationsFile(this.#file), text)
    this.violations.push(text)
  }

  /** The messages received with this method. */
  received(method: string): Seen[] {
    return this.seen.filter((entry) => entry.message?.['method'] === method)
  }

  /** Waits until something seen satisfies the predicate. */
  until(predicate: (entry: Seen) => boolean, timeoutMs?: number): Promise<Seen> {
    return this.#log.until(predicate, timeoutMs)
  }

  #write(file: string | undefined, line: unknown): void {
    if (file !== undefined) appendFileSync(file, `${JSON.stringify(line)}\n`)
  }
}

/** The file of what the processes of a server object to, beside the file of what they saw. */
export function violationsFile(seenFile: string): string {
  return `${seenFile}.violations`
}

const CHUNK_BYTES = 65_536

/** A file of JSON lines that other processes write, read as it grows. */
export class GrowingFile<Line> {
  readonly #descriptor: number
  readonly #lines: Line[] = []
  #rest: Buffer = Buffer.alloc(0)

  /** Makes the file where it is not there yet. */
  constructor(file: string) {
    this.#descriptor = openSync(file, 'a+')
  }

  /** All lines so far, oldest first. */
  get lines(): readonly Line[] {
    const chunk = Buffer.alloc(CHUNK_BYTES)
    for (let size = -1; size !== 0;) {
      size = readSync(this.#descriptor, chunk)
      this.#take(chunk.subarray(0, size))
    }
    return this.#lines
  }

  close(): void {
    closeSync(this.#descriptor)
  }

  #take(bytes: Buffer): void {
    const text = Buffer.concat([this.#rest, bytes])
    const end = text.lastIndexOf(10) + 1
    this.#rest = text.subarray(end)
    for (const line of text.toString('utf8', 0, end).split('\n')) {
      if (line !== '') this.#lines.push(JSON.parse(line))
    }
  }
}

/**
 * Long strings of messages, kept as blobs while they arrive. Each is taken by the feature that makes a reference of it,
 * or put back into its message, or deleted.
 *
 * Invariant: a placeholder cannot be guessed, and stands for its string at most once. A blob that a process left behind
 * has no record, so the sweep of references deletes it.
 */
import { randomBytes } from 'node:crypto'
import { asGatewayError, GatewayError } from '../core/error.ts'
import type { Spool, SpooledString } from '../core/spool.ts'
import type { BlobFacts, Blobs } from '../store/blobs/blobs.ts'

/** A blob with a string, in UTF-8. */
export interface Spooled extends BlobFacts {
  readonly blob: string
}

interface Entry {
  readonly blob: string
  /** Rejects if the string cannot be kept. */
  readonly kept: Promise<BlobFacts>
  readonly since: number
  /** The bytes that have arrived. */
  size: number
}

export interface SpoolLimits {
  /** From which length a string is kept. */
  readonly over: number
  /** How long strings may be that are kept at once and belong to no reference yet. */
  readonly total: number
  /** How long a message may be with its strings in it again. */
  readonly restored: number
}

/** How many bytes wait for the store before the source is stopped. */
const QUEUE_BYTES = 1024 * 1024
/** After which time a string that nobody took is forgotten, in milliseconds. */
const FORGOTTEN_MS = 600_000

/** A spool whose strings are blobs of the store. Sizes are in bytes. */
export class StoreSpool implements Spool {
  readonly over: number
  readonly #blobs: Blobs
  readonly #limits: SpoolLimits
  readonly #now: () => number
  readonly #entries = new Map<string, Entry>()
  readonly #mark = `spooled:${randomBytes(8).toString('hex')}:`
  readonly #pattern = new RegExp(`${this.#mark}[0-9a-f]{32}`, 'g')

  constructor(blobs: Blobs, limits: SpoolLimits, now: () => number = Date.now) {
    this.#blobs = blobs
    this.#limits = limits
    this.#now = now
    this.over = limits.over
  }

  begin(): SpooledString {
    this.#forget()
    const placeholder = `${this.#mark}${randomBytes(16).toString('hex')}`
    const blob = randomBytes(16).toString('hex')
    const queue = new Queue(() => string.onDrain?.())
    const kept = this.#blobs.put(blob, queue)
    const entry: Entry = { blob, kept, since: this.#now(), size: 0 }
    const string: SpooledString = {
      placeholder,
      onDrain: undefined,
      write: (bytes) => {
        entry.size += bytes.byteLength
        if (this.#size() > this.#limits.total) queue.end(tooLarge(this.#limits.total))
        return queue.push(bytes)
      },
      end: () => queue.end(),
      abort: () => queue.end(new GatewayError('CANCELLED', 'The message did not arrive whole.')),
    }
    // Whoever takes the string learns why it is not kept. The rest of it arrives, and is dropped.
    kept.catch((error: unknown) => queue.end(asGatewayError(error)))
    this.#entries.set(placeholder, entry)
    return string
  }

  isIn(text: string): boolean {
    return text.includes(this.#mark)
  }

  /** The placeholders in a text, each of them once. */
  placeholders(text: string): readonly string[] {
    return [...new Set(text.match(this.#pattern))].filter((each) => this.#entries.has(each))
  }

  /** The string of a placeholder, as soon as it is kept; it stays here. @throws why it could not be kept */
  async find(placeholder: string): Promise<Spooled> {
    const entry = this.#entries.get(placeholder)
    if (!entry) throw new TypeError('the string was taken')
    return { blob: entry.blob, ...(await entry.kept) }
  }

  /** Leaves the blob of a placeholder to the caller. */
  take(placeholder: string): void {
    this.#entries.delete(placeholder)
  }

  async restored(text: string): Promise<string> {
    let room = this.#limits.restored - text.length
    const strings = new Map<string, string>()
    try {
      for (const placeholder of this.placeholders(text)) {
        const spooled = await this.find(placeholder)
        room -= spooled.size
        if (room < 0) throw tooLarge(this.#limits.restored)
        strings.set(placeholder, await this.#read(spooled))
      }
    } finally {
      this.discard(text)
    }
    return text.replaceAll(this.#pattern, (placeholder, at: number) => {
      let string = strings.get(placeholder) ?? ''
      for (let depth = depthOf(text, at); depth > 0; depth--) string = JSON.stringify(string).slice(1, -1)
      return string
    })
  }

  /** JSON with a remark in place of its strings, which are deleted. */
  leftOut(text: string, remark: string): string {
    this.discard(text)
    return text.replaceAll(this.#pattern, remark)
  }

  discard(text: string): void {
    for (const placeholder of this.placeholders(text)) {
      const entry = this.#entries.get(placeholder)
      this.#entries.delete(placeholder)
      void entry?.kept.then(() => this.#blobs.delete(entry.blob)).catch(() => undefined)
    }
  }

  async #read({ blob, size }: Spooled): Promise<string> {
    const bytes = Buffer.allocUnsafe(size)
    let at = 0
    for await (const chunk of (await this.#blobs.open(blob)) ?? []) {
      bytes.set(chunk, at)
      at += chunk.byteLength
    }
    return bytes.toString('utf8', 0, at)
  }

  #size(): number {
    let size = 0
    for (const entry of this.#entries.values()) size += entry.size
    return size
  }

  #forget(): void {
    const old = this.#now() - FORGOTTEN_MS
    for (const [placeholder, { since }] of this.#entries) if (since < old) this.#entries.delete(placeholder)
  }
}

/** Bytes on their way to the store. */
class Queue implements AsyncIterable<Uint8Array> {
  readonly #onDrain: () => void
  #pieces: Uint8Array[] = []
  #size = 0
  #isEnded = false
  #error: Error | undefined
  #wake: (() => void) | undefined

  constructor(onDrain: () => void) {
    this.#onDrain = onDrain
  }

  /** Whether there is room for more. After the end, bytes are dropped. */
  push(bytes: Uint8Array): boolean {
    if (this.#isEnded) return true
    this.#pieces.push(bytes)
    this.#size += bytes.byteLength
    this.#wake?.()
    return this.#size < QUEUE_BYTES
  }

  /** No more bytes come; after an error, those that came are dropped too. */
  end(error?: Error): void {
    if (this.#isEnded) return
    this.#isEnded = true
    this.#error = error
    if (error) this.#pieces = []
    this.#wake?.()
    this.#onDrain()
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Uint8Array> {
    for (;;) {
      const piece = this.#pieces.shift()
      if (piece) {
        const wasFull = this.#size >= QUEUE_BYTES
        this.#size -= piece.byteLength
        if (wasFull && this.#size < QUEUE_BYTES) this.#onDrain()
        yield piece
      } else if (this.#error) throw this.#error
      else if (this.#isEnded) return
      else await new Promise<void>((resolve) => (this.#wake = resolve))
    }
  }
}

/** In how many JSON strings a place is: JSON can be the text of other JSON. */
function depthOf(text: string, at: number): number {
  let backslashes = 0
  while (text[at - 2 - backslashes] === '\\') backslashes++
  return Math.log2(backslashes + 1) + 1
}

function tooLarge(limit: number): GatewayError {
  return new GatewayError('UPSTREAM_ERROR', `The server sent a message of more than ${limit} bytes.`)
}

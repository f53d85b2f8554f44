/**
 * Long strings of messages, kept as blobs while they arrive. Each is taken by the feature that makes a reference of it,
 * or put back into its message, or deleted.
 *
 * Invariant: a placeholder cannot be guessed, and stands for its string at most once. A blob that a process left behind
 * has no record, so the sweep of references deletes it.
 */
import { world } from '../core/world.ts'
import { asGatewayError, GatewayError } from '../core/error.ts'
import type { Spool, SpooledMessage, SpooledString } from '../core/spool.ts'
import { partOf } from '../durable/process-scope.ts'
import { type BlobFacts, type Blobs, collected } from '../store/blobs/blobs.ts'

/** A blob with a string, in UTF-8. */
export interface Spooled extends BlobFacts {
  readonly blob: string
}

interface Entry {
  readonly blob: string
  /** Rejects if the string cannot be kept. */
  readonly kept: Promise<BlobFacts>
  /** When all of its message had come, in milliseconds since 1970. */
  endedAt?: number
  /** How many bytes have arrived. */
  size: number
  /** It cannot be kept, and takes no space. */
  hasFailed: boolean
  /** Its bytes in memory, until they are kept, unless there are many. */
  held: Uint8Array[] | undefined
}

/** Sizes in bytes. */
interface SpoolLimits {
  /** From which length a string is kept. */
  readonly over: number
  /** How long strings may be that are kept at once and belong to no reference yet. */
  readonly total: number
  /** How long a message may be with its strings in it again. */
  readonly restored: number
}

/** How many bytes wait for the store before the source is stopped. */
const QUEUE_BYTES = 1024 * 1024
/** How long a string may be that is not lost if the store fails while it arrives, in bytes. */
const HELD_BYTES = 16 * 1024 * 1024
/** For how long strings stay in their messages after the store failed, in milliseconds. */
const PAUSE_MS = 60_000
/** After which time a string that was not taken is deleted, in milliseconds. */
const FORGOTTEN_MS = 600_000
/** Stands for a string that can neither be kept nor passed on. */
const LEFT_OUT = '[Left out by the gateway: it is too large to be passed on, and could not be kept.]'

/** A spool whose strings are blobs of the store. */
export class StoreSpool implements Spool {
  readonly over: number
  readonly #blobs: Blobs
  #limits: SpoolLimits
  readonly #now: () => number
  readonly #entries = new Map<string, Entry>()
  readonly #mark = `spooled:${world.randomBytes(8).toString('hex')}:`
  readonly #pattern = new RegExp(`${this.#mark}[0-9a-f]{32}`, 'g')
  #failedAt = Number.NEGATIVE_INFINITY
  /** The size of all bytes that are held in memory. */
  #held = 0

  constructor(blobs: Blobs, limits: SpoolLimits, now: () => number = world.now) {
    this.#blobs = blobs
    this.#limits = limits
    this.#now = now
    this.over = limits.over
  }

  /** The spool of a place for blobs, which outlasts a reload of the configuration: so do calls. */
  static of(blobs: Blobs, limits: SpoolLimits): StoreSpool {
    const of = partOf(blobs, SpoolOfBlobs)
    of.spool ??= new StoreSpool(blobs, limits)
    of.spool.#limits = limits
    return of.spool
  }

  open(): SpooledMessage {
    this.#forget()
    const placeholders: string[] = []
    const ended = (): void => {
      for (const placeholder of placeholders) {
        const entry = this.#entries.get(placeholder)
        if (entry) entry.endedAt = this.#now()
      }
    }
    let current: Queue | undefined
    return {
      begin: () => {
        const isFull = this.#size() >= this.#limits.total
        if (isFull || this.#now() - this.#failedAt < PAUSE_MS) return undefined
        const { string, queue } = this.#begin()
        current = queue
        placeholders.push(string.placeholder)
        return string
      },
      end: ended,
      abort: () => {
        current?.end(new GatewayError('CANCELLED', 'The message did not arrive whole.'))
        for (const placeholder of placeholders) this.discard(placeholder)
      },
    }
  }

  #begin(): { readonly string: SpooledString; readonly queue: Queue } {
    const placeholder = `${this.#mark}${world.randomBytes(16).toString('hex')}`
    const blob = world.randomBytes(16).toString('hex')
    const queue = new Queue(() => string.onDrain?.())
    const kept = this.#blobs.put(blob, queue)
    const entry: Entry = { blob, kept, size: 0, hasFailed: false, held: [] }
    const string: SpooledString = {
      placeholder,
      onDrain: undefined,
      write: (bytes) => {
        entry.size += bytes.byteLength
        this.#hold(entry, bytes)
        if (!entry.hasFailed && this.#size() > this.#limits.total) {
          entry.hasFailed = true
          queue.end(new GatewayError('QUOTA_EXHAUSTED', 'There is no room to keep this part of the result.'))
        }
        return queue.push(bytes)
      },
      end: () => queue.end(),
    }
    kept.then(
      () => this.#release(entry),
      (error: unknown) => {
        // Whoever takes the string learns why it is not kept. The rest of it arrives, and is held if it is short.
        if (!queue.error) this.#failedAt = this.#now()
        entry.hasFailed = true
        queue.end(asGatewayError(error))
      },
    )
    this.#entries.set(placeholder, entry)
    return { string, queue }
  }

  /** Holds bytes until they are kept; those of a string that is long, or beyond the limit, are let go. */
  #hold(entry: Entry, bytes: Uint8Array): void {
    if (!entry.held) return
    entry.held.push(bytes)
    this.#held += bytes.byteLength
    if (entry.size <= HELD_BYTES && this.#held <= this.#limits.restored) return
    this.#release(entry)
  }

  #release(entry: Entry): void {
    if (entry.held) this.#held -= entry.size
    entry.held = undefined
  }

  /** Whether a blob is a string that was not taken yet. */
  has(blob: string): boolean {
    return [...this.#entries.values()].some((entry) => entry.blob === blob)
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
    const entry = this.#entries.get(placeholder)
    this.#entries.delete(placeholder)
    if (entry) this.#release(entry)
  }

  restored(text: string): Promise<string> {
    return this.#putBack(text, (error) => {
      throw error
    })
  }

  /** The same, with a remark in place of strings that cannot be put back. Never throws. */
  restoredInPart(text: string): Promise<string> {
    return this.#putBack(text, () => undefined)
  }

  async #putBack(text: string, onProblem: (error: unknown) => undefined): Promise<string> {
    let left = this.#limits.restored - text.length
    const strings = new Map<string, string>()
    try {
      for (const placeholder of this.placeholders(text)) {
        const entry = this.#entries.get(placeholder)
        const string = entry && (await this.#read(entry, left).catch(onProblem))
        if (string === undefined) continue
        strings.set(placeholder, string)
        left -= entry?.size ?? 0
      }
    } finally {
      this.discard(text)
    }
    return text.replaceAll(this.#pattern, (placeholder, at: number) => {
      let string = strings.get(placeholder) ?? LEFT_OUT
      for (let depth = depthOf(text, at); depth > 0; depth--) string = JSON.stringify(string).slice(1, -1)
      return string
    })
  }

  discard(text: string): void {
    for (const placeholder of this.placeholders(text)) {
      const entry = this.#entries.get(placeholder)
      this.take(placeholder)
      void entry?.kept.then(() => this.#blobs.delete(entry.blob)).catch(() => undefined)
    }
  }

  /** @throws UPSTREAM_ERROR if it is beyond the limit, or why it cannot be read */
  async #read(entry: Entry, left: number): Promise<string> {
    const { restored } = this.#limits
    if (entry.size > left)
      throw new GatewayError('UPSTREAM_ERROR', `The server sent a message of more than ${restored} bytes.`)
    try {
      await entry.kept
      const bytes = await this.#blobs.open(entry.blob)
      if (!bytes) throw new GatewayError('UPSTREAM_ERROR', 'A part of the message is not kept any more.')
      return (await collected(bytes)).toString()
    } catch (error) {
      if (!entry.held) throw error
      return Buffer.concat(entry.held).toString()
    }
  }

  #size(): number {
    let size = 0
    for (const entry of this.#entries.values()) if (!entry.hasFailed) size += entry.size
    return size
  }

  #forget(): void {
    const old = this.#now() - FORGOTTEN_MS
    for (const [placeholder, { endedAt = Number.POSITIVE_INFINITY }] of this.#entries)
      if (endedAt < old) this.discard(placeholder)
  }
}

/** The spool of a place for blobs, once there is one. */
class SpoolOfBlobs {
  spool: StoreSpool | undefined
}

/** Whether a blob is a string of a message that is arriving in this process, or was not handled yet. */
export function isSpooled(blobs: Blobs, blob: string): boolean {
  return partOf(blobs, SpoolOfBlobs).spool?.has(blob) === true
}

/** Bytes on their way to the store. */
class Queue implements AsyncIterable<Uint8Array> {
  readonly #onDrain: () => void
  #pieces: Uint8Array[] = []
  #size = 0
  #isEnded = false
  /** Why it ended early. */
  error: Error | undefined
  #wake: (() => void) | undefined

  constructor(onDrain: () => void) {
    this.#onDrain = onDrain
  }

  /** Whether it takes more. After the end, bytes are dropped. */
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
    this.error = error
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
      } else if (this.error) throw this.error
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

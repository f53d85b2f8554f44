/**
 * The contract of blobs: bytes of any size, written and read as streams. A blob never changes.
 * `test/support/blob-contract.ts` checks it for each implementation.
 *
 * Invariant: a blob can be read only when all of it is as durable as the store is. What a process that ended left
 * unfinished is listed as such, so that it can be deleted.
 */
import { createHash } from 'node:crypto'
import { GatewayError } from '../../core/error.ts'

/** Bytes beside the values of a store. An id has 1 to 64 letters, digits, `_` and `-`. */
export interface Blobs {
  /** How many bytes there may be in all, if the place is not made for many. */
  readonly capacity?: number
  /** Writes a blob under a new id. If the bytes end with an error, nothing remains. @throws that error, or of the store */
  put(id: string, bytes: Bytes): Promise<BlobFacts>
  /**
   * The bytes of a blob or of a range of it; undefined if there is no such blob. A range may exceed the blob. The chunks
   * are not used again.
   */
  open(id: string, range?: ByteRange): Promise<Bytes | undefined>
  /** Deletes a blob, finished or not. Readers that opened it before may fail. */
  delete(id: string): Promise<void>
  /** All blobs, with unfinished ones. */
  list(): Promise<readonly BlobEntry[]>
}

/** Bytes as a stream. */
export type Bytes = AsyncIterable<Uint8Array>

/** What is known of a blob: its size in bytes, and its SHA-256 in hex. */
export interface BlobFacts {
  readonly size: number
  readonly sha256: string
}

/** From the first byte, counted from zero, up to the one before `end`. */
export interface ByteRange {
  readonly start: number
  readonly end: number
}

/** A blob in a list. */
export interface BlobEntry {
  readonly id: string
  /** In bytes; of an unfinished one, what is written. */
  readonly size: number
  /** When it was last written, in milliseconds since 1970. */
  readonly writtenAt: number
}

/** Measures bytes while they pass. */
export class Digest {
  readonly #hash = createHash('sha256')
  #size = 0

  add(chunk: Uint8Array): void {
    this.#hash.update(chunk)
    this.#size += chunk.byteLength
  }

  /** Call it once, at the end. */
  facts(): BlobFacts {
    return { size: this.#size, sha256: this.#hash.digest('hex') }
  }
}

/** Bytes as one buffer. */
export async function collected(bytes: Bytes): Promise<Buffer> {
  const chunks: Uint8Array[] = []
  for await (const chunk of bytes) chunks.push(chunk)
  return Buffer.concat(chunks)
}

/** The part of a chunk that is in a range; `at` is the position of its first byte. */
export function partOf(chunk: Uint8Array, at: number, { start, end }: ByteRange): Uint8Array {
  return chunk.subarray(Math.max(0, start - at), Math.max(0, end - at))
}

/** Everything. */
export const WHOLE: ByteRange = { start: 0, end: Number.POSITIVE_INFINITY }

/** The error for a blob that was deleted after it was opened. */
export function deletedMeanwhile(): GatewayError {
  return new GatewayError('RESOURCE_NOT_FOUND', 'The data was deleted while it was read.')
}

/** The error for a blob that was deleted before it was finished, because nothing had come for long. */
export function deletedUnfinished(): GatewayError {
  return new GatewayError(
    'SERVER_UNAVAILABLE',
    'The data was deleted while it was written. Nothing was kept.',
    {
      category: 'transient',
    },
  )
}

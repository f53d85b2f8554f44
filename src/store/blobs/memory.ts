/** Blobs in the memory of the process, which lose everything with it. */
import { world } from '../../core/world.ts'
import {
  type BlobEntry,
  type BlobFacts,
  type Blobs,
  type ByteRange,
  type Bytes,
  Digest,
  partOf,
  WHOLE,
} from './blobs.ts'

interface Kept {
  readonly chunks: readonly Uint8Array[]
  readonly size: number
  readonly writtenAt: number
}

/** Blobs in memory. */
export class MemoryBlobs implements Blobs {
  readonly capacity = 256 * 1024 * 1024
  readonly #kept = new Map<string, Kept>()

  async put(id: string, bytes: Bytes): Promise<BlobFacts> {
    const digest = new Digest()
    const chunks: Uint8Array[] = []
    for await (const chunk of bytes) {
      digest.add(chunk)
      // The caller may use its buffer again.
      chunks.push(Uint8Array.from(chunk))
    }
    const facts = digest.facts()
    this.#kept.set(id, { chunks, size: facts.size, writtenAt: world.now() })
    return facts
  }

  async open(id: string, range: ByteRange = WHOLE): Promise<Bytes | undefined> {
    const kept = this.#kept.get(id)
    return kept && read(kept, range)
  }

  async delete(id: string): Promise<void> {
    this.#kept.delete(id)
  }

  async list(): Promise<readonly BlobEntry[]> {
    return [...this.#kept].map(([id, { size, writtenAt }]) => ({ id, size, writtenAt }))
  }
}

async function* read({ chunks }: Kept, range: ByteRange): AsyncGenerator<Uint8Array> {
  let at = 0
  for (const chunk of chunks) {
    const part = partOf(chunk, at, range)
    if (part.byteLength > 0) yield part
    at += chunk.byteLength
    if (at >= range.end) return
  }
}

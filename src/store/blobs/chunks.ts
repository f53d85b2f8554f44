/**
 * Blobs in chunks, as values of a store. An entry of the collection `blob` says how large a blob is; its chunks follow
 * each other under `blob-chunk:`, without a gap.
 */
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { FOREVER, type Store } from '../store.ts'
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

/** The size of a chunk in bytes, before it is encoded. */
const CHUNK_BYTES = 192 * 1024
/** After how many chunks the entry of an unfinished blob is written again. */
const CHUNKS_PER_ENTRY = 32

interface Entry {
  readonly size: number
  readonly writtenAt: number
  readonly isWhole: boolean
}

type ValueStore = Pick<Store, 'get' | 'put' | 'delete' | 'scan'>

/** Blobs in the values of a store. */
export class ChunkedBlobs implements Blobs {
  readonly capacity = 1024 * 1024 * 1024
  readonly #store: ValueStore

  constructor(store: ValueStore) {
    this.#store = store
  }

  async put(id: string, bytes: Bytes): Promise<BlobFacts> {
    const digest = new Digest()
    let count = 0
    let size = 0
    try {
      await this.#note(id, { size, isWhole: false })
      for await (const chunk of inChunks(bytes)) {
        digest.add(chunk)
        await this.#store.put(chunkKey(id, count++), Buffer.from(chunk).toString('base64'), FOREVER)
        size += chunk.byteLength
        if (count % CHUNKS_PER_ENTRY === 0) await this.#note(id, { size, isWhole: false })
      }
      await this.#note(id, { size, isWhole: true })
      return digest.facts()
    } catch (error) {
      await this.delete(id).catch(() => undefined)
      throw error
    }
  }

  async open(id: string, range: ByteRange = WHOLE): Promise<Bytes | undefined> {
    const text = await this.#store.get(entryKey(id))
    const entry = text === undefined ? undefined : parseEntry(text)
    if (entry?.isWhole !== true) return undefined
    return this.#read(id, { start: range.start, end: Math.min(range.end, entry.size) })
  }

  /** The entry comes last: what it says is there can be deleted again. */
  async delete(id: string): Promise<void> {
    for (let index = 0; await this.#store.delete(chunkKey(id, index)); index++);
    await this.#store.delete(entryKey(id))
  }

  async list(): Promise<readonly BlobEntry[]> {
    const entries = await this.#store.scan(COLLECTION)
    return [...entries].map(([key, text]) => {
      const { size, writtenAt } = parseEntry(text)
      return { id: key.slice(COLLECTION.length + 1), size, writtenAt }
    })
  }

  async *#read(id: string, range: ByteRange): AsyncGenerator<Uint8Array> {
    const first = Math.floor(range.start / CHUNK_BYTES)
    for (let index = first; index * CHUNK_BYTES < range.end; index++) {
      const text = await this.#store.get(chunkKey(id, index))
      if (text === undefined)
        throw new GatewayError('RESOURCE_NOT_FOUND', 'The data was deleted while it was read.')
      yield partOf(Buffer.from(text, 'base64'), index * CHUNK_BYTES, range)
    }
  }

  #note(id: string, { size, isWhole }: Omit<Entry, 'writtenAt'>): Promise<void> {
    return this.#store.put(entryKey(id), JSON.stringify({ size, isWhole, writtenAt: Date.now() }), FOREVER)
  }
}

const COLLECTION = 'blob'

function entryKey(id: string): string {
  return `${COLLECTION}/${id}`
}

function chunkKey(id: string, index: number): string {
  return `blob-chunk:${id}:${index}`
}

function parseEntry(text: string): Entry {
  const value: unknown = JSON.parse(text)
  const { size, writtenAt, isWhole } = isObject(value) ? value : {}
  return { size: Number(size), writtenAt: Number(writtenAt), isWhole: isWhole === true }
}

/** The same bytes in chunks of one size, except for the last one. */
async function* inChunks(bytes: Bytes): AsyncGenerator<Uint8Array> {
  const chunk = Buffer.alloc(CHUNK_BYTES)
  let filled = 0
  for await (const each of bytes) {
    for (let at = 0; at < each.byteLength;) {
      const part = each.subarray(at, at + CHUNK_BYTES - filled)
      chunk.set(part, filled)
      filled += part.byteLength
      at += part.byteLength
      if (filled < CHUNK_BYTES) continue
      yield chunk
      filled = 0
    }
  }
  if (filled > 0) yield chunk.subarray(0, filled)
}

/**
 * Blobs in chunks, as values of a store. An entry of the collection `blob` says how large a blob is; its chunks follow
 * each other under `blob-chunk:`, without a gap.
 */
import { world } from '../../core/world.ts'
import { asObject } from '../../core/json/json.ts'
import { FOREVER, type Store } from '../store.ts'
import {
  type BlobEntry,
  type BlobFacts,
  type Blobs,
  type ByteRange,
  type Bytes,
  deletedMeanwhile,
  deletedUnfinished,
  Digest,
  partOf,
  WHOLE,
} from './blobs.ts'
import { parseJson } from '../../core/json/read.ts'

/** The size of a chunk in bytes, before it is encoded. */
const CHUNK_BYTES = 192 * 1024
/**
 * After how many chunks the entry of an unfinished blob is written again, or after how long if they come slowly, in
 * milliseconds.
 */
const CHUNKS_PER_ENTRY = 32
const ENTRY_MS = 60_000

interface Entry {
  readonly size: number
  readonly writtenAt: number
  readonly isWhole: boolean
}

type ValueStore = Pick<Store, 'get' | 'put' | 'delete' | 'scan' | 'compareAndSwap'>

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
    let noted = entryOf({ size, isWhole: false })
    try {
      await this.#store.put(entryKey(id), noted, FOREVER)
      for await (const chunk of inChunks(bytes)) {
        digest.add(chunk)
        await this.#store.put(chunkKey(id, count++), Buffer.from(chunk).toString('base64'), FOREVER)
        size += chunk.byteLength
        const isDue = count % CHUNKS_PER_ENTRY === 0 || world.now() - parseEntry(noted).writtenAt > ENTRY_MS
        if (isDue) noted = await this.#note(id, noted, { size, isWhole: false })
      }
      await this.#note(id, noted, { size, isWhole: true })
      return digest.facts()
    } catch (error) {
      await this.#delete(id, count).catch(() => undefined)
      throw error
    }
  }

  async open(id: string, range: ByteRange = WHOLE): Promise<Bytes | undefined> {
    const text = await this.#store.get(entryKey(id))
    const entry = text === undefined ? undefined : parseEntry(text)
    if (entry?.isWhole !== true) return undefined
    return this.#read(id, { start: range.start, end: Math.min(range.end, entry.size) })
  }

  async delete(id: string): Promise<void> {
    const text = await this.#store.get(entryKey(id))
    if (text === undefined) return
    const { size, isWhole } = parseEntry(text)
    await this.#delete(id, Math.ceil(size / CHUNK_BYTES) + (isWhole ? 0 : CHUNKS_PER_ENTRY))
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
      if (text === undefined) throw deletedMeanwhile()
      yield partOf(Buffer.from(text, 'base64'), index * CHUNK_BYTES, range)
    }
  }

  /** The entry comes last: what a process that ends leaves can be found, and deleted again. */
  async #delete(id: string, count: number): Promise<void> {
    for (let index = count; index > 0; index--) await this.#store.delete(chunkKey(id, index - 1))
    await this.#store.delete(entryKey(id))
  }

  /** Writes the entry again. @throws if it is not as it was: the blob was deleted, because nothing came for long */
  async #note(id: string, before: string, entry: Omit<Entry, 'writtenAt'>): Promise<string> {
    const text = entryOf(entry)
    if (await this.#store.compareAndSwap(entryKey(id), before, text, FOREVER)) return text
    throw deletedUnfinished()
  }
}

const COLLECTION = 'blob'

function entryKey(id: string): string {
  return `${COLLECTION}/${id}`
}

function chunkKey(id: string, index: number): string {
  return `blob-chunk:${id}:${index}`
}

function entryOf(entry: Omit<Entry, 'writtenAt'>): string {
  return JSON.stringify({ ...entry, writtenAt: world.now() })
}

function parseEntry(text: string): Entry {
  const value: unknown = parseJson(text)
  const { size, writtenAt, isWhole } = asObject(value)
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

import { beforeEach, describe, expect, it } from 'vitest'
import { asGatewayError } from '../../../../src/core/error.ts'
import { ChunkedBlobs } from '../../../../src/store/blobs/chunks.ts'
import { MemoryStore } from '../../../../src/store/memory.ts'
import type { Store } from '../../../../src/store/store.ts'
import { blobContract } from '../../../support/blob-contract.ts'
import { CrashingStore } from '../../../support/crashing-store.ts'

const CHUNK = 192 * 1024

async function* zeros(chunks: number): AsyncGenerator<Uint8Array> {
  for (let index = 0; index < chunks; index++) yield Buffer.alloc(CHUNK)
}

/** How many chunks are written, and how many writes it takes to write them, and to delete them too. */
const COUNT = 34
const PUT_WRITES = COUNT + 3
const WRITES = PUT_WRITES + COUNT + 1

/** At which writes the process ends: each around the first and the last one of a kind, and some in between. */
const crashes = Array.from({ length: WRITES }, (_none, index) => index + 1).filter(
  (at) => at < 4 || at > WRITES - 4 || Math.abs(at - PUT_WRITES) < 6 || at % 15 === 0,
)

/** What can be read after a crash at a write: nothing before all is there, nor after the first of it is deleted. */
function expected(at: number, isDone: boolean): unknown {
  const done = isDone ? at : at - 1
  if (done === PUT_WRITES) return COUNT * CHUNK
  return done < PUT_WRITES || done === WRITES ? undefined : 'RESOURCE_NOT_FOUND'
}

/** How many bytes can be read of a blob, or the code of the error. */
async function readIn(blobs: ChunkedBlobs, id: string): Promise<unknown> {
  const opened = await blobs.open(id)
  if (!opened) return undefined
  let size = 0
  try {
    for await (const chunk of opened) size += chunk.byteLength
    return size
  } catch (error) {
    return asGatewayError(error).code
  }
}

/** The places of the chunks of a blob that are there. */
async function chunksIn(store: Store, id: string): Promise<readonly number[]> {
  const all = Array.from({ length: COUNT + 50 }, (_none, index) => index)
  const found = await Promise.all(all.map((index) => store.get(`blob-chunk:${id}:${index}`)))
  return all.filter((index) => found[index] !== undefined)
}

describe('blobs in chunks', () => {
  let store: MemoryStore
  beforeEach(() => void (store = new MemoryStore()))

  describe('contract', () => {
    blobContract(() => new ChunkedBlobs(store), true)
  })

  it('leave nothing behind, at whichever write the process ends that writes or deletes them', async () => {
    for (const isDone of [false, true])
      for (const at of crashes) {
        const crashing = new CrashingStore(store, at, isDone)
        const blobs = new ChunkedBlobs(crashing)
        const id = `b${at}-${String(isDone)}`
        const ended = blobs.put(id, zeros(COUNT)).then(() => blobs.delete(id))
        await expect(ended).rejects.toThrow('the process has ended')
        const later = new ChunkedBlobs(store)
        expect([at, isDone, await readIn(later, id)]).toEqual([at, isDone, expected(at, isDone)])
        for (const { id: left } of await later.list()) await later.delete(left)
        expect([at, isDone, await chunksIn(store, id)]).toEqual([at, isDone, []])
        expect(await later.list()).toEqual([])
      }
  })

  it('are not kept if they were deleted while they were written', async () => {
    const blobs = new ChunkedBlobs(store)
    async function* slow(): AsyncGenerator<Uint8Array> {
      yield* zeros(3)
      await blobs.delete('slow')
      yield* zeros(40)
    }
    await expect(blobs.put('slow', slow())).rejects.toMatchObject({ code: 'SERVER_UNAVAILABLE' })
    expect(await blobs.open('slow')).toBeUndefined()
    expect(await chunksIn(store, 'slow')).toEqual([])
  })
})

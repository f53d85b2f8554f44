import { createHash, randomBytes } from 'node:crypto'
import { buffer } from 'node:stream/consumers'
import { expect, it } from 'vitest'
import type { Blobs, Bytes } from '../../src/store/blobs/blobs.ts'

let last = 0

/** An id that no other test has. */
function freshBlob(): string {
  return `b${process.pid}-${Date.now()}-${++last}`
}

/** All bytes of a stream. */
async function allOf(stream: Bytes | undefined): Promise<Buffer | undefined> {
  return stream && buffer(stream)
}

/** Bytes in pieces of a size; the buffer of each piece is used again, as streams of Node.js may do. */
async function* inPieces(bytes: Buffer, size: number): AsyncGenerator<Uint8Array> {
  const piece = Buffer.alloc(size)
  for (let at = 0; at < bytes.length; at += size) {
    const copied = bytes.copy(piece, 0, at, at + size)
    yield piece.subarray(0, copied)
  }
}

/** What all blobs do. `open` gives those of the running test; `isLasting` if they survive the process. */
export function blobContract(open: () => Blobs, isLasting: boolean): void {
  it.each([0, 1, 1000, 196_608, 196_609, 1_500_000])('keep %i bytes as they are', async (size) => {
    const blobs = open()
    const id = freshBlob()
    const bytes = randomBytes(size)
    const sha256 = createHash('sha256').update(bytes).digest('hex')
    expect(await blobs.put(id, inPieces(bytes, 70_001))).toEqual({ size, sha256 })
    expect((await allOf(await blobs.open(id)))?.equals(bytes)).toBe(true)
  })

  it('open any range, and nothing beyond the end', async () => {
    const blobs = open()
    const id = freshBlob()
    const bytes = randomBytes(450_000)
    await blobs.put(id, inPieces(bytes, 65_536))
    for (const [start, end] of [
      [0, 1],
      [196_607, 196_609],
      [100, 400_000],
      [449_999, 450_000],
      [449_990, 900_000],
      [450_000, 450_010],
      [7, 7],
    ] as const) {
      const read = await allOf(await blobs.open(id, { start, end }))
      expect(read?.equals(bytes.subarray(start, end)), `${start} to ${end}`).toBe(true)
    }
  })

  it('cannot be read before they are complete, and leave nothing if their bytes end with an error', async () => {
    const blobs = open()
    const id = freshBlob()
    const seen: unknown[] = []
    async function* failing(): AsyncGenerator<Uint8Array> {
      yield Buffer.alloc(300_000)
      seen.push(await blobs.open(id))
      yield Buffer.alloc(300_000)
      throw new Error('the connection broke')
    }
    await expect(blobs.put(id, failing())).rejects.toThrow('the connection broke')
    expect(seen).toEqual([undefined])
    expect(await blobs.open(id)).toBeUndefined()
    expect((await blobs.list()).filter((each) => each.id === id)).toEqual([])
  })

  it('are listed with their size and time, until they are deleted', async () => {
    const blobs = open()
    const [one, other] = [freshBlob(), freshBlob()]
    const before = Date.now()
    await blobs.put(one, inPieces(Buffer.alloc(5000), 1000))
    await blobs.put(other, inPieces(Buffer.alloc(1), 1))
    const found = (await blobs.list()).find(({ id }) => id === one)
    expect(found?.size).toBe(5000)
    expect(found?.writtenAt).toBeGreaterThan(before - 2000)
    await blobs.delete(one)
    await blobs.delete(one)
    expect(await blobs.open(one)).toBeUndefined()
    const left = (await blobs.list()).map(({ id }) => id)
    expect(left).toContain(other)
    expect(left).not.toContain(one)
  })

  it.runIf(isLasting)('are not there if they are deleted after they were opened', async () => {
    const blobs = open()
    const id = freshBlob()
    await blobs.put(id, inPieces(Buffer.alloc(500_000), 100_000))
    const opened = await blobs.open(id)
    await blobs.delete(id)
    await expect(allOf(opened)).rejects.toMatchObject({ code: 'RESOURCE_NOT_FOUND' })
  })

  it.runIf(isLasting)('list what is not complete, so that it can be deleted', async () => {
    const blobs = open()
    const id = freshBlob()
    const reached = Promise.withResolvers<void>()
    const goOn = Promise.withResolvers<void>()
    async function* slow(): AsyncGenerator<Uint8Array> {
      yield Buffer.alloc(400_000)
      reached.resolve()
      await goOn.promise
      throw new Error('stopped')
    }
    const put = blobs.put(id, slow()).catch(() => undefined)
    await reached.promise
    expect((await blobs.list()).map((each) => each.id)).toContain(id)
    goOn.resolve()
    await put
  })
}

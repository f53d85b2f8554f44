/** The beginning of data that arrives, which says what the data is. */
import type { Bytes } from '../../store/blobs/blobs.ts'

/** The result of a look at the first bytes, and all bytes, to be read once. If the look fails, the bytes are closed. */
export async function withBeginning<Found>(
  bytes: Bytes,
  size: number,
  look: (beginning: Buffer) => Found,
): Promise<{ readonly found: Found; readonly all: Bytes }> {
  const iterator = bytes[Symbol.asyncIterator]()
  const first: Uint8Array[] = []
  try {
    for (let read = 0; read < size;) {
      const { done: isEnd, value } = await iterator.next()
      if (isEnd === true) break
      first.push(value)
      read += value.byteLength
    }
    return { found: look(Buffer.concat(first)), all: joined(first, iterator) }
  } catch (error) {
    await iterator.return?.()
    throw error
  }
}

async function* joined(
  first: readonly Uint8Array[],
  rest: AsyncIterator<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  try {
    yield* first
    for (;;) {
      const { done: isEnd, value } = await rest.next()
      if (isEnd === true) return
      yield value
    }
  } finally {
    await rest.return?.()
  }
}

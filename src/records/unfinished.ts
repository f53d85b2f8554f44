/** Data that is being written in this process. It has no record yet, so it counts in no other way. */
import { Holdings } from '../core/holdings.ts'
import { partOf } from '../durable/process-scope.ts'
import type { Bytes } from '../store/blobs/blobs.ts'

/** How many bytes may be written besides what is kept: by all callers together, and by one. */
export interface Room {
  readonly all: number
  readonly own: number
}

/** The bytes that are being written to one store. */
class Unfinished {
  readonly holdings = new Holdings()
}

/** The same bytes; ends with the error of `refuse` once there is no room for all that is written to a store. */
export async function* withinRoom(
  store: object,
  caller: string,
  { bytes, room, refuse }: { readonly bytes: Bytes; readonly room: Room; refuse(): Error },
): AsyncGenerator<Uint8Array> {
  const { holdings: unfinished } = partOf(store, Unfinished)
  let size = 0
  try {
    for await (const chunk of bytes) {
      size += chunk.byteLength
      unfinished.change({ id: caller }, chunk.byteLength)
      if (unfinished.all > room.all || unfinished.of({ id: caller }) > room.own) throw refuse()
      yield chunk
    }
  } finally {
    unfinished.change({ id: caller }, -size)
  }
}

/** Data that is being written in this process. It has no record yet, so it counts in no other way. */
import { partOf } from '../durable/process-scope.ts'
import type { Bytes } from '../store/blobs/blobs.ts'

/** How many bytes may be written besides what is kept: by all callers together, and by one. */
export interface Room {
  readonly all: number
  readonly own: number
}

/** The bytes that are being written to one store, by caller. */
class Unfinished {
  readonly #sizes = new Map<string, number>()
  #all = 0

  /** Counts bytes, and says whether all that is written has room. */
  add(caller: string, size: number, room: Room): boolean {
    this.#all += size
    const own = (this.#sizes.get(caller) ?? 0) + size
    this.#sizes.set(caller, own)
    return this.#all <= room.all && own <= room.own
  }

  remove(caller: string, size: number): void {
    this.#all -= size
    const own = (this.#sizes.get(caller) ?? 0) - size
    if (own > 0) this.#sizes.set(caller, own)
    else this.#sizes.delete(caller)
  }
}

/** The same bytes; ends with the error of `refuse` once there is no room for all that is written to a store. */
export async function* withinRoom(
  store: object,
  caller: string,
  { bytes, room, refuse }: { readonly bytes: Bytes; readonly room: Room; refuse(): Error },
): AsyncGenerator<Uint8Array> {
  const unfinished = partOf(store, Unfinished)
  let size = 0
  try {
    for await (const chunk of bytes) {
      size += chunk.byteLength
      if (!unfinished.add(caller, chunk.byteLength, room)) throw refuse()
      yield chunk
    }
  } finally {
    unfinished.remove(caller, size)
  }
}

/**
 * What callers hold of a shared limit, such as bytes: all of them together, and each of them at most its share.
 *
 * Invariant: whoever adds something takes it away again, by the same number.
 */
import type { Call } from './call.ts'
import { type Principal, shareOf } from './principal.ts'

type Caller = Pick<Principal, 'id' | 'isEverybody'>

/** The holdings of all callers. */
export class Holdings {
  readonly #sizes = new Map<string, number>()
  #all = 0

  /** What all callers hold together. */
  get all(): number {
    return this.#all
  }

  of({ id }: Pick<Caller, 'id'>): number {
    return this.#sizes.get(id) ?? 0
  }

  /** Adds to the holdings of a caller, or takes away from them. */
  change({ id }: Pick<Caller, 'id'>, by: number): void {
    this.#all += by
    const size = (this.#sizes.get(id) ?? 0) + by
    if (size > 0) this.#sizes.set(id, size)
    else this.#sizes.delete(id)
  }

  /** Whether a caller may hold so much more. */
  fits(caller: Caller, limit: number, by = 0): boolean {
    return this.#all + by <= limit && this.of(caller) + by <= shareOf(caller, limit)
  }
}

/**
 * How much callers may make a gateway hold beyond their requests, in bytes. One caller may have a quarter of it, and so may
 * all those together that are not distinguished.
 */
const MAX_HELD_BYTES = 256 * 1024 * 1024

/** The memory that a call takes besides its arguments, in bytes, and the number of copies of its arguments. */
const CALL_BYTES = 20 * 1024
const COPIES_OF_ARGUMENTS = 3

/** An estimate of the memory that a call takes while it runs without its request, or waits for approval or input, in bytes. */
export function bytesOf({ params }: Call): number {
  return CALL_BYTES + COPIES_OF_ARGUMENTS * params.text.length
}

/** The memory that the sessions, buffered events, running operations and waiting calls of callers take, in bytes. */
export class HeldMemory {
  readonly #holdings = new Holdings()

  /** Whether a caller may make the gateway hold so much more. */
  fits({ id }: Caller, by: number): boolean {
    return this.#holdings.fits({ id }, MAX_HELD_BYTES, by)
  }

  /** Whether a caller itself holds too much for that, whatever the others hold. */
  isOwnFull({ id }: Caller, by: number): boolean {
    return this.#holdings.of({ id }) + by > shareOf({}, MAX_HELD_BYTES)
  }

  change(caller: Caller, by: number): void {
    this.#holdings.change(caller, by)
  }

  /** Nothing to close: it ends with what is held. */
  close(): void {}
}

/**
 * What outlives a reload. Features and other parts of a gateway are created anew with each configuration; what they must
 * not lose with it is a part of a scope: an object that is made once, and found by its class.
 *
 * What belongs where: the calls, streams and files of a gateway belong to its `ProcessScope`, which it closes last. What
 * this process knows of a store belongs to the store object (`partOf`) and ends with it. What the operating system counts
 * as one process (children, locks under its id) stays in a module, which says why; so does a cache whose entries depend
 * on nothing but their keys.
 *
 * Invariant: gateways of one process have no part in common, except those of a store that they share.
 */

/** A part that ends with its gateway. */
interface Closable {
  close(): void | Promise<void>
}

/** The class of a part, which is also its name: no two users can mean different things by it. */
type Kind<Part> = new () => Part

/** The parts of one owner, by class. */
class Parts {
  readonly #made = new Map<Kind<object>, object>()

  once<Part extends object>(kind: Kind<Part>): Part {
    const found = this.#made.get(kind)
    if (found instanceof kind) return found
    const made = new kind()
    this.#made.set(kind, made)
    return made
  }
}

/** What outlives the configurations of one gateway. */
export class ProcessScope {
  readonly #parts = new Parts()
  readonly #closable = new Set<Closable>()
  #isClosed = false

  /** The part of this class, which the first request makes. After the end of the scope, only parts that exist are found. */
  once<Part extends Closable>(kind: Kind<Part>): Part {
    const part = this.#parts.once(kind)
    if (this.#isClosed && !this.#closable.has(part)) throw new TypeError(`${kind.name}: the scope is closed`)
    this.#closable.add(part)
    return part
  }

  /** Closes all parts. Resolves when they are closed, whether they succeeded or not. */
  async close(): Promise<void> {
    this.#isClosed = true
    await Promise.allSettled([...this.#closable].map(async (part) => part.close()))
  }
}

/** Their keys are the owners themselves, so nothing is shared that does not belong to the same object, or lasts longer. */
const owned = new WeakMap<object, Parts>()

/** The part of this class that belongs to a store, or to its blobs. */
export function partOf<Part extends object>(owner: object, kind: Kind<Part>): Part {
  const parts = owned.get(owner) ?? new Parts()
  owned.set(owner, parts)
  return parts.once(kind)
}

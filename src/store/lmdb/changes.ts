/**
 * Changes of values in a folder: LMDB announces nothing, so what is watched is polled, by the versions of the values. A poll
 * before which nothing was written costs microseconds.
 */
import { type ChangeListener, Watches } from '../watches.ts'
import type { Base } from './files.ts'

/** How often what is watched is compared, in milliseconds. */
const POLL_INTERVAL_MS = 250
/** How many times as long as a comparison took the next one waits at least: many values must not take the processor. */
const MIN_REST_FACTOR = 50

/** The watches of one store in a folder. */
export class FolderChanges {
  readonly #watches = new Watches()
  /** The open database; undefined if there is none at present. */
  readonly #database: () => Base | undefined
  /** The versions of the watched values as last compared; undefined where there was none. */
  #versions: ReadonlyMap<string, number | undefined> = new Map()
  /** The last transaction that was compared. */
  #transaction: number | undefined
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(database: () => Base | undefined) {
    this.#database = database
  }

  /** The first call of the listener comes with the next comparison. */
  watch(key: string, listener: ChangeListener): () => void {
    const remove = this.#watches.add(key, listener)
    this.#transaction = undefined
    if (!this.#isClosed) this.#timer ??= setTimeout(() => this.#poll(), POLL_INTERVAL_MS).unref()
    return remove
  }

  close(): void {
    this.#isClosed = true
    clearTimeout(this.#timer)
  }

  #poll(): void {
    this.#timer = undefined
    const start = performance.now()
    const database = this.#database()
    if (database) this.#compare(database)
    const rest = Math.max(POLL_INTERVAL_MS, (performance.now() - start) * MIN_REST_FACTOR)
    if (this.#watches.size > 0 && !this.#isClosed) this.#timer = setTimeout(() => this.#poll(), rest).unref()
  }

  #compare(database: Base): void {
    const before = this.#versions
    try {
      database.resetReadTxn()
      const transaction = lastTransaction(database)
      if (transaction !== undefined && transaction === this.#transaction) return
      this.#versions = new Map(this.#watches.keys.map((key) => [key, database.getEntry(key)?.version]))
      this.#transaction = transaction
    } catch {
      // The store reports what is wrong with it.
      return
    }
    for (const [key, version] of this.#versions)
      if (!before.has(key) || before.get(key) !== version) this.#watches.changed(key)
  }
}

/** The number of the last transaction of any process. */
function lastTransaction(database: Base): number | undefined {
  const { lastTxnId } = { lastTxnId: undefined, ...database.getStats() }
  return typeof lastTxnId === 'number' ? lastTxnId : undefined
}

/**
 * Whose a task of a server is. Servers often see the gateway as one caller, so what a server says of its tasks cannot
 * keep callers apart. Kept under `task:<server>/<hash of the task's id>`; the value is a hash of the owner. What is kept
 * in memory as well answers at once. Invariant: a task without a recorded owner is refused to every caller.
 */
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Call } from '../core/call.ts'
import type { Store } from '../store/store.ts'
import { callerHash } from './principal.ts'

/** How many owners are remembered in memory. */
const MAX_CACHED = 10_000
/** How much longer than the task its owner is kept, and how long at most, in milliseconds. */
const GRACE_MS = 3_600_000
const MAX_TTL_MS = 30 * 86_400_000

/** The owners of tasks. */
export class TaskOwners {
  readonly #store: Store
  readonly #remembered = new LRUCache<string, string>({ max: MAX_CACHED })

  constructor(store: Store) {
    this.#store = store
  }

  /**
   * Writes down that the caller of a call owns a task. `ttl` is how long its server keeps it, in milliseconds; nothing
   * where it has no end. The owner is known here even where the store fails. @throws what the store throws
   */
  async put(call: Call, taskId: string, ttl: number | undefined): Promise<void> {
    const key = keyOf(call, taskId)
    this.#remembered.set(key, ownerOf(call))
    await this.#store.put(key, ownerOf(call), Math.min((ttl ?? MAX_TTL_MS) + GRACE_MS, MAX_TTL_MS))
  }

  /** Whether the caller of a call owns a task of the server the call is for. @throws what the store throws */
  isOwn(call: Call, taskId: string): boolean | Promise<boolean> {
    const key = keyOf(call, taskId)
    const owner = this.#remembered.get(key)
    if (owner !== undefined) return owner === ownerOf(call)
    return this.#store.get(key).then((kept) => {
      if (kept !== undefined) this.#remembered.set(key, kept)
      return kept === ownerOf(call)
    })
  }
}

function keyOf({ target }: Call, taskId: string): string {
  return `task:${target.upstream ?? ''}/${hash('sha256', taskId)}`
}

/** Where callers are not told apart, each session is a caller of its own; without sessions, who has the id has the task. */
function ownerOf({ principal, client }: Call): string {
  return callerHash(principal.isEverybody ? `${principal.id} ${client.session ?? ''}` : principal.id)
}

/**
 * Records which caller owns a task of a server. Servers often see the gateway as one caller, so their answers cannot
 * separate the gateway's callers. Stored under `task:<server>/<hash of the task's id>`; the value is a hash of the
 * owner, cached in memory. Invariant: a task without a recorded owner is refused to every caller.
 */
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Call } from '../core/call.ts'
import type { Store } from '../store/store.ts'
import { callerHash } from './principal.ts'

/** How many owners are cached in memory. */
const MAX_CACHED = 10_000
/** How much longer than the task its owner is stored, and the maximum, in milliseconds. */
const GRACE_MS = 3_600_000
const MAX_TTL_MS = 30 * 86_400_000

/** The owners of tasks. */
export class TaskOwners {
  readonly #store: Store
  readonly #cache = new LRUCache<string, string>({ max: MAX_CACHED })

  constructor(store: Store) {
    this.#store = store
  }

  /**
   * Records that the caller of a call owns a task. `ttl` is how long the server keeps the task, in milliseconds;
   * undefined means unlimited. The owner is cached even if the store fails. @throws errors of the store
   */
  async put(call: Call, taskId: string, ttl: number | undefined): Promise<void> {
    const key = keyOf(call, taskId)
    this.#cache.set(key, ownerOf(call))
    await this.#store.put(key, ownerOf(call), Math.min((ttl ?? MAX_TTL_MS) + GRACE_MS, MAX_TTL_MS))
  }

  /** Whether the caller of a call owns a task of the call's server. @throws errors of the store */
  isOwn(call: Call, taskId: string): boolean | Promise<boolean> {
    const key = keyOf(call, taskId)
    const owner = this.#cache.get(key)
    if (owner !== undefined) return owner === ownerOf(call)
    return this.#store.get(key).then((stored) => {
      if (stored !== undefined) this.#cache.set(key, stored)
      return stored === ownerOf(call)
    })
  }
}

function keyOf({ target }: Call, taskId: string): string {
  return `task:${target.upstream ?? ''}/${hash('sha256', taskId)}`
}

/** If callers cannot be told apart, each session is a caller; without sessions, knowing the id is enough. */
function ownerOf({ principal, client }: Call): string {
  return callerHash(principal.isEverybody ? `${principal.id} ${client.session ?? ''}` : principal.id)
}

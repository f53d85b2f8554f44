/**
 * Which webhook receivers were verified, for a caller and a URL: what one caller verified says nothing for another one.
 * Soft state: without it, a receiver is verified again before the next delivery.
 */
import { hash } from 'node:crypto'
import type { Store } from '../store/store.ts'

/** A URL, and the hash of the caller that subscribed. */
interface Verified {
  readonly owner: string
  readonly url: string
}

/** The verified receivers of all callers. */
export class ReceiverVerifications {
  readonly #store: Store

  constructor(store: Store) {
    this.#store = store
  }

  /** Whether a receiver was verified. @throws SERVER_UNAVAILABLE */
  async has(receiver: Verified): Promise<boolean> {
    return (await this.#store.get(keyOf(receiver))) !== undefined
  }

  /** Records that a receiver was verified, for `ttl` milliseconds. @throws SERVER_UNAVAILABLE */
  add(receiver: Verified, ttl: number): Promise<void> {
    return this.#store.put(keyOf(receiver), '1', ttl)
  }
}

function keyOf({ owner, url }: Verified): string {
  return `verified:${owner}:${hash('sha256', url).slice(0, 32)}`
}

/** Which receivers were verified, as the worker asks before every attempt: mostly without the store. */
import { LRUCache } from 'lru-cache'
import { expiryByWorld } from '../../../core/world.ts'
import { ReceiverVerifications } from '../../../records/receiver-verifications.ts'
import type { Store } from '../../../store/store.ts'
import type { Receiver, VerificationRecords } from '../webhooks/verification.ts'

/** How long a receiver is verified, and how long this process remembers it without the store, in milliseconds. */
const VERIFIED_MS = 86_400_000
const CACHE_MS = 60_000
const MAX_CACHED_RECEIVERS = 1000

/** Verified receivers in the store. `isKept`: a subscription says itself that its receiver was verified. */
export class VerifiedReceivers implements VerificationRecords {
  readonly #records: ReceiverVerifications
  readonly #isKept: (subscription: string) => boolean
  readonly #cache = new LRUCache<string, true>({ max: MAX_CACHED_RECEIVERS, ttl: CACHE_MS, ...expiryByWorld })

  constructor(store: Store, isKept: (subscription: string) => boolean) {
    this.#records = new ReceiverVerifications(store)
    this.#isKept = isKept
  }

  async has(receiver: Receiver): Promise<boolean> {
    const key = keyOf(receiver)
    if (this.#isKept(receiver.subscription) || this.#cache.has(key)) return true
    if (!(await this.#records.has(receiver))) return false
    this.#cache.set(key, true)
    return true
  }

  async add(receiver: Receiver): Promise<void> {
    await this.#records.add(receiver, VERIFIED_MS)
    this.#cache.set(keyOf(receiver), true)
  }
}

function keyOf({ owner, url }: Receiver): string {
  return `${owner} ${url}`
}

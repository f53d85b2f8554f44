/**
 * Which instances deliver subscriptions. Each has a key in the store that it renews; without it, or once its process has
 * ended, others take its subscriptions over. So the lease of any number of subscriptions costs one write.
 */
import { world } from '../../../core/world.ts'
import type { SubscriptionRecord } from '../../../records/event-subscriptions.ts'
import type { Membership } from '../../../durable/members.ts'
import type { Store } from '../../../store/store.ts'

/** How long an owner counts as alive after it last said so, and how often it does, in milliseconds. */
const OWNER_TTL_MS = 30_000
const RENEWAL_INTERVAL_MS = 10_000

/** This owner, and the others. */
export class Owners {
  /** The process, and which of its instances: a reload of the configuration creates another one. */
  readonly id: string
  readonly #store: Store
  readonly #membership: Membership
  #renewedAt = Number.NEGATIVE_INFINITY

  constructor(store: Store, membership: Membership) {
    this.#store = store
    this.#membership = membership
    this.id = `${membership.id}/${world.randomBytes(6).toString('hex')}`
  }

  /** Says that this owner is alive, unless it did so lately. @throws SERVER_UNAVAILABLE */
  async renew(now: number): Promise<void> {
    if (now - this.#renewedAt < RENEWAL_INTERVAL_MS) return
    await this.#membership.register()
    await this.#store.put(keyOf(this.id), '1', OWNER_TTL_MS)
    this.#renewedAt = now
  }

  /** The other owners of subscriptions that are alive. @throws SERVER_UNAVAILABLE */
  async othersAlive(records: readonly SubscriptionRecord[]): Promise<ReadonlySet<string>> {
    const alive = new Set<string>()
    for (const owner of new Set(records.flatMap((record) => record.owner ?? [])))
      if (owner !== this.id && (await this.#isAlive(owner))) alive.add(owner)
    return alive
  }

  async #isAlive(owner: string): Promise<boolean> {
    if ((await this.#store.get(keyOf(owner))) === undefined) return false
    return this.#membership.isAlive(owner.slice(0, owner.lastIndexOf('/')))
  }

  /** Leaves the subscriptions to others. */
  async end(): Promise<void> {
    if (this.#renewedAt > Number.NEGATIVE_INFINITY)
      await this.#store.delete(keyOf(this.id)).catch(() => false)
  }
}

function keyOf(owner: string): string {
  return `event-owner:${owner}`
}

/**
 * Subscriptions to events, and how far each was delivered. Field names are persisted and do not change.
 *
 * Invariants: a subscription belongs to one caller. Every event at or before its watermark was settled, that is
 * acknowledged or given up, so delivery that continues there after a crash misses nothing, and repeats what was not settled.
 */
import { hash } from 'node:crypto'
import { world } from '../core/world.ts'
import { exactly } from '../core/json/json.ts'
import type { Principal } from '../core/principal.ts'
import { asJson, Collection, type RecordKind } from '../durable/collection.ts'
import type { QueueProgress } from '../durable/queue.ts'
import type { Store } from '../store/store.ts'
import { ownedId, type StoredPrincipal, toStoredPrincipal } from './principal.ts'

/** What a caller subscribes to. Two subscriptions of a caller with equal members are the same one. */
export interface SubscriptionKey {
  /** The server; absent at the address of all servers. */
  readonly upstream?: string | undefined
  /** The type of the events; `*` for those of several types, which are among the arguments. */
  readonly name: string
  readonly arguments: Readonly<Record<string, unknown>>
  /** Where the events are delivered to, such as a URL. */
  readonly address: string
}

/** A subscription. Times are milliseconds since 1970. */
export interface SubscriptionRecord extends SubscriptionKey, QueueProgress {
  /** The same for equal subscriptions of a caller, also after a restart. Not a secret. */
  readonly id: string
  readonly principal: StoredPrincipal
  readonly createdAt: number
  readonly expiresAt: number
  /** Set until the subscriber learned that events were lost. */
  readonly hasGap?: true
  /** Which process delivers it; it has no owner once that process has ended. */
  readonly owner?: string
  /** What the delivery keeps of the subscription, in its own words and without plain secrets. */
  readonly delivery: Readonly<Record<string, unknown>>
  /** Set if it is delivered by webhooks. */
  readonly webhook?: WebhookState
}

/** What delivery by webhooks keeps of a subscription. Times are milliseconds since 1970. */
export interface WebhookState {
  /** The secret of the subscriber, sealed; after a change also the one before, which signs until `until`. */
  readonly secret: string
  readonly earlier?: { readonly secret: string; readonly until: number }
  /** Set while nothing is delivered, because almost all attempts failed. */
  readonly suspendedAt?: number
  /** Set if the receiver was verified for as long as the subscription exists. */
  readonly isVerified?: true
  /** When an event was accepted last. */
  readonly lastDeliveryAt?: number
  /** Why the last attempt failed, as a category; absent after an accepted one. */
  readonly lastError?: string
  /** Since when no event was accepted. */
  readonly failedSince?: number
}

/** What may change when an existing subscription is requested again. */
export interface SubscriptionGrant {
  /** `NEVER` if it does not expire. */
  readonly expiresAt: number
  readonly delivery: Readonly<Record<string, unknown>>
  /** The state of delivery by webhooks, given that of the existing subscription. */
  webhook?(before: WebhookState | undefined): WebhookState
  /** Where delivery begins if the subscription is new. */
  readonly watermark: string
}

/** The expiry of a subscription without one: the end of the year 9999. */
export const NEVER = 253_402_300_799_999

/** How many subscriptions there are in all; one caller may have a quarter of them. */
export const MAX_SUBSCRIPTIONS = 4000

/** The subscriptions of all callers. */
export class EventSubscriptions {
  readonly #kept: Collection<SubscriptionRecord>
  readonly #now: () => number

  constructor(store: Store, now: () => number = world.now, limit = MAX_SUBSCRIPTIONS) {
    this.#kept = new Collection(store, { ...subscriptionKind, bounds: [{ count: limit }] }, now)
    this.#now = now
  }

  /** The id of a subscription: a hash of its members, so that it is the same in every process. */
  idOf(principal: Pick<Principal, 'id'>, key: SubscriptionKey): string {
    const { upstream, name, arguments: given, address } = key
    const text = exactly([principal.id, upstream ?? null, name, given, address])
    return `sub_${hash('sha256', text, 'base64url').slice(0, 32)}`
  }

  /**
   * Adds a subscription, or grants an existing one more or less time; undefined if its caller has too many. With an id
   * of its own, an existing one gets the members of the key. @throws SERVER_UNAVAILABLE
   */
  async subscribe(
    principal: Principal,
    key: SubscriptionKey,
    grant: SubscriptionGrant,
    id = this.idOf(principal, key),
  ): Promise<SubscriptionRecord | undefined> {
    if (!(await this.mayAdd(principal, id))) return undefined
    const { upstream, name, arguments: given, address } = key
    return this.#kept.update(ownedId(principal, id), (before) => ({
      ...(before ?? { id, createdAt: this.#now(), watermark: grant.watermark, settled: [] }),
      ...(upstream !== undefined && { upstream }),
      name,
      arguments: given,
      address,
      // Rights can have changed since.
      principal: toStoredPrincipal(principal),
      expiresAt: grant.expiresAt,
      delivery: grant.delivery,
      ...(grant.webhook && { webhook: grant.webhook(before?.webhook) }),
    }))
  }

  /** Whether a caller has a subscription of this id, or may add one. @throws SERVER_UNAVAILABLE */
  async mayAdd(principal: Principal, id: string): Promise<boolean> {
    const stored = ownedId(principal, id)
    return (await this.#kept.has(stored)) || (await this.#kept.capacity(stored, principal)).count > 0
  }

  /** A subscription of a caller; undefined if it has none of this id. @throws SERVER_UNAVAILABLE */
  find(principal: Pick<Principal, 'id'>, id: string): Promise<SubscriptionRecord | undefined> {
    return this.#kept.get(ownedId(principal, id))
  }

  /** The subscriptions of all callers, for those that deliver. @throws SERVER_UNAVAILABLE */
  all(): Promise<readonly SubscriptionRecord[]> {
    return this.#kept.all()
  }

  /** Ends a subscription; resolves with whether there was one. @throws SERVER_UNAVAILABLE */
  unsubscribe(principal: Pick<Principal, 'id'>, id: string): Promise<boolean> {
    return this.#kept.remove(ownedId(principal, id))
  }

  /**
   * Makes a process the one that delivers a subscription, if its record still has the owner that was read; resolves with
   * the record if it is. @throws SERVER_UNAVAILABLE
   */
  async claim(
    { principal, id, owner: found }: SubscriptionRecord,
    owner: string,
  ): Promise<SubscriptionRecord | undefined> {
    const record = await this.#kept.update(ownedId(principal, id), (before) =>
      before && before.owner !== owner && before.owner === found ? { ...before, owner } : 'keep',
    )
    return record?.owner === owner ? record : undefined
  }

  /**
   * Records how far the owner of a subscription delivered it; undefined if it ended, or belongs to another process.
   * @throws SERVER_UNAVAILABLE
   */
  async advance(
    { principal, id }: SubscriptionRecord,
    owner: string,
    { watermark, settled, webhook }: QueueProgress & { webhook(before: WebhookState): WebhookState },
  ): Promise<SubscriptionRecord | undefined> {
    const record = await this.#kept.update(ownedId(principal, id), (before) => {
      if (!before?.webhook || before.owner !== owner) return 'keep'
      return { ...before, watermark, settled, webhook: webhook(before.webhook) }
    })
    return record?.owner === owner ? record : undefined
  }

  /** Changes the watermark of a subscription, unless it has ended. @throws SERVER_UNAVAILABLE */
  async changeWatermark(
    { principal, id }: Pick<SubscriptionRecord, 'principal' | 'id'>,
    change: (watermark: string) => string,
  ): Promise<void> {
    await this.#kept.update(ownedId(principal, id), (before) => {
      if (!before) return 'keep'
      const watermark = change(before.watermark)
      return watermark === before.watermark ? 'keep' : { ...before, watermark }
    })
  }
}

const subscriptionKind: RecordKind<SubscriptionRecord> = {
  name: 'subscription',
  prefix: 'subscription/',
  ...asJson<SubscriptionRecord>({
    string: ['id', 'name', 'address', 'watermark'],
    number: ['expiresAt'],
    object: ['principal', 'arguments', 'delivery'],
    list: ['settled'],
  }),
  ttlOf: ({ expiresAt }, now) => expiresAt - now,
  // Those that deliver read all of them again and again.
  isReadOften: true,
}

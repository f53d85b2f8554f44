/**
 * Orders to forget people, for the gateways that share a store: each erases the person from the audit logs that it writes, which no
 * other process may do, also if it starts later. An order has a hash of the id alone.
 */
import { world } from '../core/world.ts'
import { asJson, Collection, type RecordKind } from '../durable/collection.ts'
import type { Store } from '../store/store.ts'

/** An order. Times are in milliseconds since 1970. */
export interface ForgetOrder {
  /** The hash of the person, as audit logs have it. */
  readonly person: string
  /** Who gave it. */
  readonly by: string
  readonly at: number
}

/** How long gateways find an order, in milliseconds. */
const FORGET_ORDER_TTL_MS = 30 * 86_400_000

/** The orders in a store. */
export class ForgetOrders {
  readonly #kept: Collection<ForgetOrder>

  constructor(store: Store) {
    this.#kept = new Collection(store, orderKind)
  }

  /** @throws SERVER_UNAVAILABLE */
  async give(person: string, by: string): Promise<void> {
    await this.#kept.put(person, { person, by, at: world.now() })
  }

  /** @throws SERVER_UNAVAILABLE */
  all(): Promise<readonly ForgetOrder[]> {
    return this.#kept.all()
  }
}

const orderKind: RecordKind<ForgetOrder> = {
  name: 'order to forget',
  prefix: 'forget/',
  ...asJson<ForgetOrder>({ string: ['person', 'by'], number: ['at'] }),
  ttlOf: () => FORGET_ORDER_TTL_MS,
}

/**
 * Dead letters: events that a webhook receiver refused or never accepted. They are kept for a time and within bounds, so
 * that people can look at them and have them delivered again.
 *
 * A redelivery is a record of its own. Any process that shares the store may request one, such as a command; the process
 * that delivers the subscription finds it and makes the attempts.
 */
import { hash } from 'node:crypto'
import { shareOf } from '../core/principal.ts'
import { asJson, Collection, ownerIn, type RecordKind } from '../durable/collection.ts'
import type { Store } from '../store/store.ts'

/** An event that was given up. Times are in milliseconds since 1970. Field names are persisted and do not change. */
export interface DeadLetter {
  /** The same for the same event of the same subscription. Not a secret. */
  readonly id: string
  /** The id of the subscription. */
  readonly subscription: string
  /** The hash of the caller that subscribed. */
  readonly owner: string
  /** The server at whose address it subscribed; absent at the address of all servers. */
  readonly upstream?: string
  /** The type of the event, as the subscription names it. */
  readonly name: string
  /** The event as its log has it. */
  readonly event: Readonly<Record<string, unknown>>
  /** A category: nothing that the receiver wrote. */
  readonly failure: string
  /** When it was given up. */
  readonly at: number
}

/** How many dead letters there are in all; one caller may have a quarter of them. Later ones replace the oldest. */
const MAX_LETTERS = 1000
/** How long a dead letter, and a request to deliver it again, is kept, in milliseconds. */
const TTL_MS = 7 * 86_400_000

const letterKind: RecordKind<DeadLetter> = {
  name: 'dead letter',
  prefix: 'dead-letter/',
  ...asJson<DeadLetter>({
    string: ['id', 'subscription', 'owner', 'name', 'failure'],
    number: ['at'],
    object: ['event'],
  }),
  ttlOf: () => TTL_MS,
}

/** A request to deliver the letter of the same id again; it says nothing more. */
const redeliveryKind: RecordKind<object> = {
  name: 'redelivery',
  prefix: 'redelivery/',
  encode: () => '1',
  decode: () => ({}),
  ttlOf: () => TTL_MS,
}

/** The dead letters of all callers. */
export class DeadLetters {
  readonly #letters: Collection<DeadLetter>
  readonly #redeliveries: Collection<object>
  readonly #limit: number

  constructor(store: Store, limit = MAX_LETTERS) {
    this.#letters = new Collection(store, letterKind)
    this.#redeliveries = new Collection(store, redeliveryKind)
    this.#limit = limit
  }

  /** The id of a dead letter. */
  static idOf(subscription: string, eventId: string): string {
    return `dl_${hash('sha256', JSON.stringify([subscription, eventId]), 'base64url').slice(0, 24)}`
  }

  /** Adds dead letters; resolves once they are durable. @throws SERVER_UNAVAILABLE */
  async add(letters: readonly DeadLetter[]): Promise<void> {
    if (letters.length === 0) return
    for (const letter of letters) await this.#letters.put(idIn(letter), letter)
    await this.#keepBounds()
  }

  /** All dead letters, the oldest first. @throws SERVER_UNAVAILABLE */
  async list(): Promise<readonly DeadLetter[]> {
    return (await this.#letters.all()).toSorted((one, other) => one.at - other.at)
  }

  /** How many there are. @throws SERVER_UNAVAILABLE */
  async count(): Promise<number> {
    return (await this.#letters.ids()).length
  }

  /** Removes a dead letter, and a request to deliver it. @throws SERVER_UNAVAILABLE */
  async remove(letter: Pick<DeadLetter, 'id' | 'owner'>): Promise<void> {
    await this.#letters.remove(idIn(letter))
    await this.#redeliveries.remove(idIn(letter))
  }

  /**
   * Requests that a dead letter is delivered again; resolves with whether it exists. It stays a dead letter until it is
   * accepted. @throws SERVER_UNAVAILABLE
   */
  async requestRedelivery(letter: Pick<DeadLetter, 'id' | 'owner'>): Promise<boolean> {
    if (!(await this.#letters.has(idIn(letter)))) return false
    await this.#redeliveries.put(idIn(letter), {})
    return true
  }

  /** The dead letters that are to be delivered again. @throws SERVER_UNAVAILABLE */
  async requested(): Promise<readonly DeadLetter[]> {
    const letters: DeadLetter[] = []
    for (const id of await this.#redeliveries.ids()) {
      const letter = await this.#letters.get(id)
      if (letter) letters.push(letter)
      else await this.#redeliveries.remove(id)
    }
    return letters.toSorted((one, other) => one.at - other.at)
  }

  /** Ends a request to deliver a dead letter, which stays one. @throws SERVER_UNAVAILABLE */
  async endRedelivery(letter: Pick<DeadLetter, 'id' | 'owner'>): Promise<void> {
    await this.#redeliveries.remove(idIn(letter))
  }

  /** Removes the oldest dead letters of a caller that has more than its share, and of all if there are too many. */
  async #keepBounds(): Promise<void> {
    const owners = (await this.#letters.ids()).map(ownerIn)
    const counts = new Map<string, number>()
    for (const owner of owners) counts.set(owner, (counts.get(owner) ?? 0) + 1)
    const share = shareOf({}, this.#limit)
    if (owners.length <= this.#limit && [...counts.values()].every((count) => count <= share)) return
    let total = owners.length
    for (const letter of await this.list()) {
      const count = counts.get(letter.owner) ?? 0
      if (count <= share && total <= this.#limit) continue
      await this.remove(letter)
      counts.set(letter.owner, count - 1)
      total--
    }
  }
}

/** The id in the collections. */
function idIn({ owner, id }: Pick<DeadLetter, 'id' | 'owner'>): string {
  return `${owner}:${id}`
}

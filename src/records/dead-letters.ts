/**
 * Dead letters: events that a webhook receiver refused or never accepted. They are kept for a time and within bounds, so
 * that people can look at them and have them delivered again.
 *
 * A redelivery is a record of its own. Any process that shares the store may request one, such as a command; the process
 * that delivers the subscription finds it and makes the attempts.
 */
import { hash } from 'node:crypto'
import { isObject, readJson } from '../core/json/json.ts'
import type { Store } from '../store/store.ts'
import { callerHashIn } from './principal.ts'

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
const SHARE_DIVISOR = 4
/** How long a dead letter, and a request to deliver it again, is kept, in milliseconds. */
const TTL_MS = 7 * 86_400_000

const LETTERS = 'dead-letter'
const REDELIVERIES = 'redelivery'

/** The dead letters of all callers. */
export class DeadLetters {
  readonly #store: Store
  readonly #limit: number

  constructor(store: Store, limit = MAX_LETTERS) {
    this.#store = store
    this.#limit = limit
  }

  /** The id of a dead letter. */
  static idOf(subscription: string, eventId: string): string {
    return `dl_${hash('sha256', JSON.stringify([subscription, eventId]), 'base64url').slice(0, 24)}`
  }

  /** Adds dead letters; resolves once they are durable. @throws SERVER_UNAVAILABLE */
  async add(letters: readonly DeadLetter[]): Promise<void> {
    if (letters.length === 0) return
    for (const letter of letters)
      await this.#store.put(keyOf(LETTERS, letter), JSON.stringify(letter), TTL_MS)
    await this.#keepBounds()
  }

  /** All dead letters, the oldest first. @throws SERVER_UNAVAILABLE */
  async list(): Promise<readonly DeadLetter[]> {
    const found = [...(await this.#store.scan(LETTERS)).values()].flatMap((text) => decode(text) ?? [])
    return found.toSorted((one, other) => one.at - other.at)
  }

  /** How many there are. @throws SERVER_UNAVAILABLE */
  async count(): Promise<number> {
    return (await this.#store.scan(LETTERS)).size
  }

  /** The dead letter of an id. @throws SERVER_UNAVAILABLE */
  async find(id: string): Promise<DeadLetter | undefined> {
    return (await this.list()).find((letter) => letter.id === id)
  }

  /** Removes a dead letter, and a request to deliver it. @throws SERVER_UNAVAILABLE */
  async remove(letter: Pick<DeadLetter, 'id' | 'owner'>): Promise<void> {
    await this.#store.delete(keyOf(LETTERS, letter))
    await this.#store.delete(keyOf(REDELIVERIES, letter))
  }

  /**
   * Requests that a dead letter is delivered again; resolves with whether it exists. It stays a dead letter until it is
   * accepted. @throws SERVER_UNAVAILABLE
   */
  async requestRedelivery(id: string): Promise<boolean> {
    const letter = await this.find(id)
    return letter ? this.requestAgain(letter) : false
  }

  /** The same for a dead letter that was found. @throws SERVER_UNAVAILABLE */
  async requestAgain(letter: Pick<DeadLetter, 'id' | 'owner'>): Promise<boolean> {
    if ((await this.#store.get(keyOf(LETTERS, letter))) === undefined) return false
    await this.#store.put(keyOf(REDELIVERIES, letter), '1', TTL_MS)
    return true
  }

  /** The dead letters that are to be delivered again. @throws SERVER_UNAVAILABLE */
  async requested(): Promise<readonly DeadLetter[]> {
    const keys = [...(await this.#store.scan(REDELIVERIES)).keys()]
    const letters: DeadLetter[] = []
    for (const key of keys) {
      const letter = decode(await this.#store.get(`${LETTERS}${key.slice(REDELIVERIES.length)}`))
      if (letter) letters.push(letter)
      else await this.#store.delete(key)
    }
    return letters.toSorted((one, other) => one.at - other.at)
  }

  /** Ends a request to deliver a dead letter, which stays one. @throws SERVER_UNAVAILABLE */
  async endRedelivery(letter: Pick<DeadLetter, 'id' | 'owner'>): Promise<void> {
    await this.#store.delete(keyOf(REDELIVERIES, letter))
  }

  /** Removes the oldest dead letters of a caller that has more than its share, and of all if there are too many. */
  async #keepBounds(): Promise<void> {
    const keys = [...(await this.#store.scan(LETTERS)).keys()]
    const counts = new Map<string, number>()
    for (const key of keys)
      counts.set(callerHashIn(LETTERS, key), (counts.get(callerHashIn(LETTERS, key)) ?? 0) + 1)
    const share = this.#limit / SHARE_DIVISOR
    if (keys.length <= this.#limit && [...counts.values()].every((count) => count <= share)) return
    let total = keys.length
    for (const letter of await this.list()) {
      const count = counts.get(letter.owner) ?? 0
      if (count <= share && total <= this.#limit) continue
      await this.remove(letter)
      counts.set(letter.owner, count - 1)
      total--
    }
  }
}

function keyOf(collection: string, { owner, id }: Pick<DeadLetter, 'id' | 'owner'>): string {
  return `${collection}/${owner}:${id}`
}

/** A dead letter of text; undefined if there is none, or if another program wrote it. */
function decode(text: string | undefined): DeadLetter | undefined {
  const value = text === undefined ? undefined : readJson(text)
  return isLetter(value) ? value : undefined
}

function isLetter(value: unknown): value is DeadLetter & Record<string, unknown> {
  if (!isObject(value)) return false
  const { id, subscription, owner, name, failure, event, at } = value
  const isText = [id, subscription, owner, name, failure].every((each) => typeof each === 'string')
  return isText && isObject(event) && typeof at === 'number'
}

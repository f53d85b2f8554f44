/**
 * The keys in Redis. In a cluster all of them have one hash tag, so they are in one slot: the identity of the store is read with
 * each command, and scripts have keys of several records.
 */
import { collectionOf } from '../store.ts'

/** The hash tag of all keys in a cluster. */
export const CLUSTER_TAG = '{gatehouse}'

/** How keys begin. */
export class RedisKeys {
  /** The prefix of values. */
  readonly prefix: string
  /** The prefix of the indexes of collections. */
  readonly #index: string

  constructor(isCluster: boolean) {
    this.prefix = isCluster ? `${CLUSTER_TAG}:` : 'gatehouse:'
    this.#index = isCluster ? `${CLUSTER_TAG}-index:` : 'gatehouse-index:'
  }

  /** Of the identity of the store. It has no expiry, so that Redis keeps it as long as anything. */
  get generation(): string {
    return `${this.prefix}generation`
  }

  /** The name in Redis of a key of the store. The braces keep a collection together wherever keys are distributed. */
  nameOf(key: string): string {
    const collection = collectionOf(key)
    if (collection === undefined) return this.prefix + key
    return `${this.prefix}{${collection}}${key.slice(collection.length)}`
  }

  /** The names that a script for a key needs: its own, and that of the index of its collection. */
  namesOf(key: string): string[] {
    const collection = collectionOf(key)
    return collection === undefined ? [this.nameOf(key)] : [this.nameOf(key), this.indexOf(collection)]
  }

  /** The name of the index of a collection: a sorted set of members by expiry. */
  indexOf(collection: string): string {
    return `${this.#index}{${collection}}`
  }

  /** The key of the store for a name in Redis. */
  keyOf(name: string): string {
    const key = name.slice(this.prefix.length)
    const end = key.startsWith('{') ? key.indexOf('}/') : -1
    return end === -1 ? key : key.slice(1, end) + key.slice(end + 1)
  }
}

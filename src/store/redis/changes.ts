/**
 * Changes of values that other gateways make in Redis: the script of a write publishes the key, in the round trip that it needs
 * anyway, and whoever watches it has subscribed, on a connection of its own that is opened on first use.
 *
 * Redis delivers at most once what it publishes, so listeners are called after each interruption of that connection. Where a user
 * of Redis may not use the channels, they are called again and again.
 */
import type { RedisClientType } from '@redis/client'
import { type ChangeListener, Watches } from '../watches.ts'
import { endClient } from './master.ts'

/** How long a channel stays subscribed after its last listener, in milliseconds: the next one often follows. */
const UNSUBSCRIBE_DELAY_MS = 10_000
/** How often listeners read for themselves where Redis refuses to subscribe, in milliseconds. */
const POLL_INTERVAL_MS = 1000

/** The watches of one store in Redis. */
export class RedisChanges {
  readonly #prefix: string
  readonly #watches = new Watches()
  readonly #another: () => Promise<RedisClientType>
  #subscriber: Promise<RedisClientType> | undefined
  /** The keys whose channels are subscribed, or about to be; resolves with whether Redis accepted. */
  readonly #subscribed = new Map<string, Promise<boolean>>()
  readonly #leaving = new Map<string, NodeJS.Timeout>()
  #polling: NodeJS.Timeout | undefined
  #isClosed = false

  /** Channels are the same for all databases of a Redis, so their names have the number. `another` makes a connection. */
  constructor(database: number, another: () => Promise<RedisClientType>) {
    this.#another = another
    this.#prefix = `gatehouse-changed:${database}:`
  }

  /** The channel on which changes of a key are published. */
  channelOf(key: string): string {
    return this.#prefix + key
  }

  watch(key: string, listener: ChangeListener): () => void {
    const remove = this.#watches.add(key, listener)
    clearTimeout(this.#leaving.get(key))
    this.#leaving.delete(key)
    let isRemoved = false
    void this.#subscribe(key).then(() => isRemoved || listener())
    return () => {
      if (isRemoved) return
      isRemoved = true
      remove()
      if (!this.#watches.has(key) && !this.#isClosed) this.#leave(key)
    }
  }

  /** The server is another one: everything is subscribed there. */
  async moved(): Promise<void> {
    const before = this.#subscriber
    if (!before) return
    this.#subscriber = undefined
    const keys = [...this.#subscribed.keys()]
    this.#subscribed.clear()
    destroy(await before.catch(() => undefined))
    for (const key of keys) void this.#subscribe(key).then(() => this.#watches.changed(key))
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#polling)
    for (const timer of this.#leaving.values()) clearTimeout(timer)
    destroy(await this.#subscriber?.catch(() => undefined))
  }

  #subscribe(key: string): Promise<boolean> {
    const known = this.#subscribed.get(key)
    if (known) return known
    const subscribed = this.#trySubscribe(key)
    this.#subscribed.set(key, subscribed)
    return subscribed
  }

  async #trySubscribe(key: string): Promise<boolean> {
    try {
      const client = await (this.#subscriber ??= this.#connect())
      await client.subscribe(this.channelOf(key), () => this.#watches.changed(key))
      return true
    } catch {
      this.#subscribed.delete(key)
      if (!this.#isClosed) this.#polling ??= setInterval(() => this.#poll(), POLL_INTERVAL_MS).unref()
      return false
    }
  }

  async #connect(): Promise<RedisClientType> {
    const client = await this.#another()
    // The other connection reports what is wrong with Redis.
    client.on('error', () => undefined)
    // By then everything is subscribed again.
    client.on('ready', () => this.#watches.changed())
    client.connect().catch(() => undefined)
    if (this.#isClosed) endClient(client)
    return client
  }

  /** Has the listeners read for themselves whose channels could not be subscribed, and tries that again. */
  #poll(): void {
    const missing = this.#watches.keys.filter((key) => !this.#subscribed.has(key))
    if (missing.length === 0) {
      clearInterval(this.#polling)
      this.#polling = undefined
    }
    for (const key of missing) void this.#subscribe(key).then(() => this.#watches.changed(key))
  }

  #leave(key: string): void {
    const leave = async (): Promise<void> => {
      this.#leaving.delete(key)
      const subscribed = this.#subscribed.get(key)
      this.#subscribed.delete(key)
      if (!(await subscribed)) return
      const client = await this.#subscriber
      // Somebody may have come back.
      if (!this.#subscribed.has(key)) await client?.unsubscribe(this.channelOf(key))
    }
    // A connection that is interrupted subscribes to less than it would have.
    this.#leaving.set(
      key,
      setTimeout(() => void leave().catch(() => undefined), UNSUBSCRIBE_DELAY_MS).unref(),
    )
  }
}

function destroy(client: RedisClientType | undefined): void {
  if (client) endClient(client)
}

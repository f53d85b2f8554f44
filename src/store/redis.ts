import type { RedisClientType } from '@redis/client'
import { GatewayError } from '../core/error.ts'
import type { Log } from '../core/log.ts'
import type { Secret } from '../core/secret.ts'
import { MemoryStore } from './memory.ts'
import { readTaken, takeArguments, takeHash, takeScript } from './redis-take.ts'
import type { Bucket, Store, Taken } from './store.ts'

/** Every key in Redis begins with it. */
const PREFIX = 'gatehouse:'
/** How long one command may take, and how long after a failure none is tried, in milliseconds. */
const PATIENCE = 500
const PAUSE = 1000
/** How many commands may wait for Redis. */
const QUEUE = 10_000

/**
 * A store that several gateways share. While Redis is away each gateway counts by itself what is taken from
 * buckets, so that limits hold for each of them instead of for all together; everything else fails.
 */
export class RedisStore implements Store {
  readonly #log: Log
  readonly #local = new MemoryStore()
  readonly #client: Promise<RedisClientType>
  #ready: RedisClientType | undefined
  #problem: string | undefined = 'not connected yet'
  #pausedUntil = 0
  #isClosed = false
  readonly #tried = Promise.withResolvers<void>()

  constructor(url: Secret, log: Log) {
    this.#log = log
    this.#client = this.#connect(url)
    this.#client.catch((error: unknown) => this.#fail(error))
  }

  get problem(): string | undefined {
    return this.#problem
  }

  opened(): Promise<void> {
    return this.#tried.promise
  }

  async get(key: string): Promise<string | undefined> {
    return (await this.#must((client) => client.get(PREFIX + key))) ?? undefined
  }

  async put(key: string, value: string, ttl: number): Promise<void> {
    const expiration = { type: 'PX', value: Math.max(1, Math.ceil(ttl)) } as const
    await this.#must((client) => client.set(PREFIX + key, value, { expiration }))
  }

  async claim(_key: string, _value: string, _ttl: number): Promise<string | undefined> {
    throw new Error('not there yet')
  }

  async swap(_key: string, _before: string, _value: string, _ttl: number): Promise<boolean> {
    throw new Error('not there yet')
  }

  async drop(_key: string, _before: string): Promise<boolean> {
    throw new Error('not there yet')
  }

  async scan(_collection: string): Promise<ReadonlyMap<string, string>> {
    throw new Error('not there yet')
  }

  async delete(key: string): Promise<boolean> {
    return (await this.#must((client) => client.del(PREFIX + key))) > 0
  }

  take(buckets: readonly Bucket[]): Taken | Promise<Taken> {
    const client = this.#usable()
    if (!client) return this.#local.take(buckets)
    return this.#bounded(takeFrom(client, buckets)).catch((error: unknown) => {
      this.#fail(error)
      return this.#local.take(buckets)
    })
  }

  async close(): Promise<void> {
    this.#isClosed = true
    const client = await this.#client.catch(() => undefined)
    this.#ready = undefined
    // A client that never connected has nothing to end.
    if (client?.isReady) await this.#bounded(client.close()).catch(() => client.destroy())
    else if (client?.isOpen) client.destroy()
  }

  async #connect(url: Secret): Promise<RedisClientType> {
    // Whoever keeps nothing in Redis need not wait for its driver to load.
    const { createClient } = await import('@redis/client')
    const client: RedisClientType = createClient({
      url: url.reveal(),
      disableOfflineQueue: true,
      commandsQueueMaxLength: QUEUE,
      maintNotifications: 'disabled',
      // What hangs is noticed by a ping that stays unanswered.
      pingInterval: 1000,
      socket: { connectTimeout: 2000, socketTimeout: 5000, reconnectStrategy: nextTry },
    })
    client.on('error', (error: unknown) => this.#fail(error))
    client.on('ready', () => {
      this.#ready = client
      this.#recover()
    })
    // With a strategy to reconnect it settles only once it is connected, or closed.
    client.connect().catch((error: unknown) => this.#fail(error))
    if (this.#isClosed) client.destroy()
    return client
  }

  #usable(): RedisClientType | undefined {
    const client = this.#ready
    return client?.isReady === true && performance.now() >= this.#pausedUntil ? client : undefined
  }

  async #must<Reply>(command: (client: RedisClientType) => Promise<Reply>): Promise<Reply> {
    const client = this.#usable()
    if (!client) throw away()
    try {
      return await this.#bounded(command(client))
    } catch (error) {
      this.#fail(error)
      throw away(error)
    }
  }

  async #bounded<Reply>(reply: Promise<Reply>): Promise<Reply> {
    const late = Promise.withResolvers<never>()
    const giveUp = (): void => late.reject(new Error('no answer in time'))
    // A process that was held up itself first reads what has come meanwhile.
    const timer = setTimeout(() => setImmediate(giveUp), PATIENCE).unref()
    try {
      const found = await Promise.race([reply, late.promise])
      if (this.#problem !== undefined) this.#recover()
      return found
    } finally {
      clearTimeout(timer)
    }
  }

  #fail(error: unknown): void {
    this.#tried.resolve()
    this.#pausedUntil = performance.now() + PAUSE
    if (this.#isClosed) return
    const reason = error instanceof Error && error.message !== '' ? error.message : String(error)
    if (this.#problem === undefined || this.#problem === 'not connected yet') {
      this.#log.warn('store.away', { reason, rates: 'counted by this process alone until it is back' })
    }
    this.#problem = reason
  }

  #recover(): void {
    this.#tried.resolve()
    if (this.#isClosed) return
    this.#pausedUntil = 0
    if (this.#problem !== undefined) this.#log.info('store.ready')
    this.#problem = undefined
  }
}

async function takeFrom(client: RedisClientType, buckets: readonly Bucket[]): Promise<Taken> {
  const options = { keys: buckets.map(({ key }) => PREFIX + key), arguments: takeArguments(buckets) }
  const reply = await client.evalSha(takeHash, options).catch((error: unknown) => {
    if (error instanceof Error && error.message.startsWith('NOSCRIPT'))
      return client.eval(takeScript, options)
    throw error
  })
  return readTaken(reply, buckets.length)
}

/** How long to wait before connecting again, in milliseconds. */
function nextTry(retries: number): number {
  return Math.min(50 * 2 ** Math.min(retries, 7), 5000) + Math.random() * 50
}

function away(cause?: unknown): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The store of the gateway can not be reached.', { cause })
}

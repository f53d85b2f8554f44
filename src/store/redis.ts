import type { RedisClientType } from '@redis/client'
import { GatewayError } from '../core/error.ts'
import type { Log } from '../core/log.ts'
import type { Secret } from '../core/secret.ts'
import { MemoryStore } from './memory.ts'
import {
  claimScript,
  indexOf,
  keyOf,
  keysOf,
  PREFIX,
  putScript,
  removeScript,
  run,
  scanScript,
  type Script,
  swapScript,
} from './redis-scripts.ts'
import { readTaken, takeArguments, takeScript } from './redis-take.ts'
import type { Bucket, Entry, Portable, Taken } from './store.ts'

/** How long one command may take, and how long after a failure none is tried, in milliseconds. */
const PATIENCE = 500
const PAUSE = 1000
/** How many commands may wait for Redis. */
const QUEUE = 10_000

/**
 * A store that several gateways share. While Redis is away each gateway counts by itself what is taken from
 * buckets, so that limits hold for each of them instead of for all together; everything else fails.
 */
export class RedisStore implements Portable {
  readonly #log: Log
  /** Without name and password. */
  readonly #address: string
  readonly #local = new MemoryStore()
  readonly #client: Promise<RedisClientType>
  #ready: RedisClientType | undefined
  #problem: string | undefined = 'not connected yet'
  /** Redis answers, but takes nothing: it is full, or a replica that is only read. */
  #isRefusing = false
  #probing: NodeJS.Timeout | undefined
  #isReply: (error: unknown) => boolean = () => false
  #pausedUntil = 0
  #isClosed = false
  readonly #tried = Promise.withResolvers<void>()

  constructor(url: Secret, log: Log) {
    this.#log = log
    const { protocol, host, pathname } = new URL(url.reveal())
    this.#address = `${protocol}//${host}${pathname === '/' ? '' : pathname}`
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
    const [name = key] = keysOf(key)
    return (await this.#must((client) => client.get(name))) ?? undefined
  }

  async put(key: string, value: string, ttl: number): Promise<void> {
    await this.#run(putScript, keysOf(key), [key, value, whole(ttl)])
  }

  async claim(key: string, value: string, ttl: number): Promise<string | undefined> {
    const found = await this.#run(claimScript, keysOf(key), [key, value, whole(ttl)])
    return typeof found === 'string' ? found : undefined
  }

  async swap(key: string, before: string, value: string, ttl: number): Promise<boolean> {
    return (await this.#run(swapScript, keysOf(key), [key, value, whole(ttl), before])) === 1
  }

  async drop(key: string, before: string): Promise<boolean> {
    return (await this.#run(removeScript, keysOf(key), [key, before])) === 1
  }

  async delete(key: string): Promise<boolean> {
    return (await this.#run(removeScript, keysOf(key), [key])) === 1
  }

  async scan(collection: string): Promise<ReadonlyMap<string, string>> {
    const [prefix = ''] = keysOf(`${collection}/`)
    // Lua counts bytes, from one; members stand in the index with their whole keys.
    const from = String(Buffer.byteLength(collection) + 2)
    const reply = await this.#run(scanScript, [indexOf(collection)], [prefix, from])
    const found = new Map<string, string>()
    if (!Array.isArray(reply)) return found
    for (let index = 0; index + 1 < reply.length; index += 2) {
      found.set(String(reply[index]), String(reply[index + 1]))
    }
    return found
  }

  async *entries(): AsyncIterable<Entry> {
    const client = this.#usable()
    if (!client) throw away()
    for await (const names of client.scanIterator({ MATCH: `${PREFIX}*`, TYPE: 'string', COUNT: 500 })) {
      for (const name of names) {
        const [value, left] = await Promise.all([client.get(name), client.pTTL(name)])
        if (value !== null && left > 0) yield { key: keyOf(name), value, until: Date.now() + left }
      }
    }
  }

  async describe(): Promise<Readonly<Record<string, string>>> {
    const text = await this.#must((client) => client.info('memory'))
    const memory = /^used_memory_human:(.*)$/m.exec(text)?.[1]?.trim()
    return { kind: 'Redis or Valkey', address: this.#address, ...(memory !== undefined && { memory }) }
  }

  take(buckets: readonly Bucket[]): Taken | Promise<Taken> {
    return this.#counted(buckets, 'take')
  }

  look(buckets: readonly Bucket[]): Taken | Promise<Taken> {
    return this.#counted(buckets, 'look')
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#probing)
    const client = await this.#client.catch(() => undefined)
    this.#ready = undefined
    // A client that never connected has nothing to end.
    if (client?.isReady) await this.#bounded(client.close()).catch(() => client.destroy())
    else if (client?.isOpen) client.destroy()
  }

  #counted(buckets: readonly Bucket[], what: 'take' | 'look'): Taken | Promise<Taken> {
    const client = this.#usable()
    if (!client) return this.#local[what](buckets)
    return this.#bounded(takeFrom(client, buckets, what)).catch((error: unknown) => {
      this.#fail(error)
      return this.#local[what](buckets)
    })
  }

  async #connect(url: Secret): Promise<RedisClientType> {
    // Whoever keeps nothing in Redis need not wait for its driver to load.
    const { createClient, ErrorReply } = await import('@redis/client')
    this.#isReply = (error) => error instanceof ErrorReply
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

  #run(wanted: Script, keys: string[], values: string[]): Promise<unknown> {
    return this.#must((client) => run(client, wanted, { keys, arguments: values }))
  }

  async #must<Reply>(command: (client: RedisClientType) => Promise<Reply>): Promise<Reply> {
    const client = this.#usable()
    if (!client) throw away()
    try {
      return await this.#bounded(command(client))
    } catch (error) {
      this.#fail(error)
      throw this.#isReply(error) ? refused(error) : away(error)
    }
  }

  async #bounded<Reply>(reply: Promise<Reply>): Promise<Reply> {
    const late = Promise.withResolvers<never>()
    const giveUp = (): void => late.reject(new Error('no answer in time'))
    // A process that was held up itself first reads what has come meanwhile.
    const timer = setTimeout(() => setImmediate(giveUp), PATIENCE).unref()
    try {
      const found = await Promise.race([reply, late.promise])
      if (this.#problem !== undefined && !this.#isRefusing) this.#recover()
      return found
    } finally {
      clearTimeout(timer)
    }
  }

  #fail(error: unknown): void {
    this.#tried.resolve()
    const isRefused = this.#isReply(error)
    // Who answers need not be waited for, and what is there can still be read.
    if (!isRefused) this.#pausedUntil = performance.now() + PAUSE
    if (this.#isClosed) return
    const reason = error instanceof Error && error.message !== '' ? error.message : String(error)
    const isKnown = this.#problem !== undefined && this.#problem !== 'not connected yet'
    if (!isKnown || (isRefused && !this.#isRefusing)) {
      this.#log.warn('store.away', { reason, rates: 'counted by this process alone until it is back' })
    }
    this.#problem = reason
    this.#isRefusing = isRefused
    if (isRefused) this.#probeLater()
  }

  /** Looks after a while whether something is taken again: that something can be read does not say so. */
  #probeLater(): void {
    this.#probing ??= setTimeout(() => {
      this.#probing = undefined
      const probe = this.#usable()?.set(`${PREFIX}probe`, '', { expiration: { type: 'PX', value: 1 } })
      if (probe)
        this.#bounded(probe).then(
          () => this.#recover(),
          (error: unknown) => this.#fail(error),
        )
    }, PAUSE).unref()
  }

  #recover(): void {
    this.#tried.resolve()
    if (this.#isClosed) return
    this.#pausedUntil = 0
    if (this.#problem !== undefined) this.#log.info('store.ready')
    this.#problem = undefined
    this.#isRefusing = false
  }
}

async function takeFrom(
  client: RedisClientType,
  buckets: readonly Bucket[],
  what: 'take' | 'look',
): Promise<Taken> {
  const options = { keys: buckets.map(({ key }) => PREFIX + key), arguments: takeArguments(buckets, what) }
  const reply = await run(client, takeScript, options)
  return readTaken(reply, buckets.length)
}

function whole(ttl: number): string {
  return String(Math.max(1, Math.ceil(ttl)))
}

/** How long to wait before connecting again, in milliseconds. */
function nextTry(retries: number): number {
  return Math.min(50 * 2 ** Math.min(retries, 7), 5000) + Math.random() * 50
}

function away(cause?: unknown): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The store of the gateway can not be reached.', { cause })
}

function refused(cause: unknown): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The store of the gateway can not be used.', { cause })
}

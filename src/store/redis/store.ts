/**
 * A store in Redis or Valkey, shared by machines. Commands have a deadline; while it is away, limits are
 * counted locally and promises are refused.
 */
import type { RedisClientType } from '@redis/client'
import { randomUUID } from 'node:crypto'
import { GatewayError } from '../../core/error.ts'
import type { Log } from '../../core/log.ts'
import type { Secret } from '../../core/text/secret.ts'
import { MemoryStore } from '../memory.ts'
import { type Promised, Sentinel, ACCEPT_HINT, isPromise } from '../sentinel.ts'
import type { RateLimitWindow, Entry, Portable, TokenGrant } from '../store.ts'
import {
  PREFIX,
  setIfAbsentScript,
  indexOf,
  keyOf,
  keysOf,
  putScript,
  removeScript,
  run,
  scanScript,
  type Script,
  compareAndSwapScript,
  readTaken,
  takeArguments,
  takeTokensScript,
} from './scripts.ts'

// Which store a Redis holds. A Redis that was emptied, restarted without its data or replaced by another looks like one
// that never held anything: calls that were answered would run again. So the first promise puts a name into Redis, each
// later command reads it again, and the user's state remembers it (see `Sentinel`). A store that has another name than
// before, or none, is lost until the right one is back or `gatehouse store accept` allows to go on without it.

/** It has no expiry, so that Redis keeps it as long as anything. */
const GENERATION_KEY = `${PREFIX}generation`

/** The name of the store in a Redis, as this process knows it. */
class RedisGeneration {
  readonly #sentinel: Sentinel
  #known: string | undefined
  /** What was promised before this process began. */
  #promised: Promised | undefined
  #loss: string | undefined
  #lostAt = 0

  constructor(sentinel: Sentinel) {
    this.#sentinel = sentinel
    this.#promised = sentinel.read(Date.now())
  }

  /** Why what was promised is not there; nothing while it is. */
  get loss(): string | undefined {
    return this.#loss
  }

  /** Reads the name that is there, and finds out whether it is the right one. */
  async look(client: RedisClientType): Promise<void> {
    this.#compare(await client.get(GENERATION_KEY), Date.now())
  }

  get hasName(): boolean {
    return this.#known !== undefined
  }

  /** Gives the store a name, unless it has one, or what was promised is gone. */
  async name(client: RedisClientType): Promise<void> {
    await this.look(client)
    if (this.#known !== undefined || this.#loss !== undefined) return
    await client.set(GENERATION_KEY, `${randomUUID()} 0`, { condition: 'NX' })
    await this.look(client)
  }

  /** Takes note of a promise, before it is made, for so many milliseconds. */
  note(ttl: number): void {
    const now = Date.now()
    if (this.#known !== undefined) this.#sentinel.note(this.#known, now + ttl, now)
  }

  /** Has every gateway go on with what is there; whether the store was given a new name. */
  async accept(client: RedisClientType): Promise<boolean> {
    const now = Date.now()
    const there = read(await client.get(GENERATION_KEY))
    const isLost = there === undefined || this.#loss !== undefined
    await client.set(GENERATION_KEY, `${isLost ? randomUUID() : there.id} ${now}`)
    if (isLost) this.#forget()
    return isLost
  }

  #compare(text: string | null, now: number): void {
    const there = read(text)
    const promised = this.#known === undefined ? this.#promised : undefined
    const expected = this.#known ?? promised?.id
    if (expected === undefined || there?.id === expected) return this.#adopt(there?.id)
    const since = this.#loss === undefined ? (promised?.at ?? now) : this.#lostAt
    if (there && there.acceptedAt > since) {
      this.#forget()
      return this.#adopt(there.id)
    }
    if (this.#loss === undefined) this.#lostAt = since
    this.#loss = there ? 'it holds another store than before' : 'what was kept there is gone'
  }

  #forget(): void {
    this.#promised = undefined
    this.#sentinel.forget()
  }

  #adopt(id: string | undefined): void {
    this.#known = id
    this.#loss = undefined
  }
}

interface Name {
  readonly id: string
  /** When an operator allowed to go on with it, in milliseconds since 1970; 0 for never. */
  readonly acceptedAt: number
}

function read(text: string | null): Name | undefined {
  const [id = '', at = ''] = text?.split(' ') ?? []
  return id === '' ? undefined : { id, acceptedAt: Number(at) || 0 }
}

/** How long one command may take, and how long after a failure none is tried, in milliseconds. */
const COMMAND_TIMEOUT_MS = 500
const FAILURE_PAUSE_MS = 1000
/** How often Redis is asked which store it holds, whether it takes writes and whether it may evict keys. */
const WATCH_MS = 1000
/** How many commands may wait for Redis. */
const MAX_QUEUED_COMMANDS = 10_000

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
  #watching: NodeJS.Timeout | undefined
  /** Why what is promised might not be kept. */
  #hazard: string | undefined
  readonly #generation: RedisGeneration
  #isReply: (error: unknown) => boolean = () => false
  #pausedUntil = 0
  #isClosed = false
  readonly #tried = Promise.withResolvers<void>()

  /** `sentinels` is a folder of the user's own, where it is remembered what stores promised. */
  constructor(url: Secret, log: Log, sentinels?: string) {
    this.#log = log
    const { protocol, host, pathname } = new URL(url.reveal())
    this.#address = `${protocol}//${host}${pathname === '/' ? '' : pathname}`
    this.#generation = new RedisGeneration(new Sentinel(sentinels, this.#address))
    this.#client = this.#connect(url)
    this.#client.catch((error: unknown) => this.#fail(error))
  }

  get unavailableReason(): string | undefined {
    const { loss } = this.#generation
    if (this.#problem === undefined && loss !== undefined) return `${loss}. Restore it, or ${ACCEPT_HINT}`
    return this.#problem ?? this.#hazard
  }

  get canRead(): boolean {
    const isThere = this.#problem === undefined || this.#isRefusing
    return isThere && this.#generation.loss === undefined
  }

  /** Has all gateways go on with what is there; whether anything was lost. */
  async accept(): Promise<boolean> {
    const client = this.#usable()
    if (!client) throw away()
    return this.#bounded(this.#generation.accept(client))
  }

  opened(): Promise<void> {
    return this.#tried.promise
  }

  async get(key: string): Promise<string | undefined> {
    const [name = key] = keysOf(key)
    return (await this.#must((client) => client.get(name))) ?? undefined
  }

  async put(key: string, value: string, ttl: number): Promise<void> {
    await this.#promise(key, ttl)
    await this.#run(putScript, keysOf(key), [key, value, whole(ttl)])
  }

  async setIfAbsent(key: string, value: string, ttl: number): Promise<string | undefined> {
    if (this.#hazard !== undefined && isPromise(key)) throw refused(new Error(this.#hazard))
    await this.#promise(key, ttl)
    const found = await this.#run(setIfAbsentScript, keysOf(key), [key, value, whole(ttl)])
    return typeof found === 'string' ? found : undefined
  }

  async compareAndSwap(key: string, before: string, value: string, ttl: number): Promise<boolean> {
    await this.#promise(key, ttl)
    return (await this.#run(compareAndSwapScript, keysOf(key), [key, value, whole(ttl), before])) === 1
  }

  async compareAndDelete(key: string, before: string): Promise<boolean> {
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

  takeTokens(buckets: readonly RateLimitWindow[]): TokenGrant | Promise<TokenGrant> {
    return this.#counted(buckets, 'takeTokens')
  }

  peekTokens(buckets: readonly RateLimitWindow[]): TokenGrant | Promise<TokenGrant> {
    return this.#counted(buckets, 'peekTokens')
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#watching)
    const client = await this.#client.catch(() => undefined)
    this.#ready = undefined
    // A client that never connected has nothing to end.
    if (client?.isReady) await this.#bounded(client.close()).catch(() => client.destroy())
    else if (client?.isOpen) client.destroy()
  }

  #counted(
    buckets: readonly RateLimitWindow[],
    what: 'takeTokens' | 'peekTokens',
  ): TokenGrant | Promise<TokenGrant> {
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
      commandsQueueMaxLength: MAX_QUEUED_COMMANDS,
      maintNotifications: 'disabled',
      // What hangs is noticed by a ping that stays unanswered.
      pingInterval: 1000,
      socket: { connectTimeout: 2000, socketTimeout: 5000, reconnectStrategy: nextTry },
    })
    client.on('error', (error: unknown) => this.#fail(error))
    client.on('ready', () => {
      this.#ready = client
      this.#pausedUntil = 0
      void this.#watch()
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
    if (this.#generation.loss === undefined) {
      const reply = await this.#checked(client, command)
      if (this.#generation.loss === undefined) return reply
    }
    throw refused(new Error(this.unavailableReason))
  }

  /** Runs a command, then reads in the same round trip whether the store is the right one still. */
  async #checked<Reply>(
    client: RedisClientType,
    command: (client: RedisClientType) => Promise<Reply>,
  ): Promise<Reply> {
    try {
      const [reply] = await this.#bounded(Promise.all([command(client), this.#look(client)]))
      return reply
    } catch (error) {
      this.#fail(error)
      throw this.#isReply(error) ? refused(error) : away(error)
    }
  }

  async #look(client: RedisClientType): Promise<void> {
    const before = this.#generation.loss
    await this.#generation.look(client)
    this.#report(before, this.#generation.loss)
  }

  async #promise(key: string, ttl: number): Promise<void> {
    if (!isPromise(key)) return
    if (!this.#generation.hasName) await this.#must((client) => this.#generation.name(client))
    this.#generation.note(ttl)
  }

  #report(before: string | undefined, after: string | undefined): void {
    if (before === after || this.#isClosed) return
    if (after === undefined) this.#log.info('store.ready')
    else this.#log.error('store.away', { reason: after })
  }

  async #bounded<Reply>(reply: Promise<Reply>): Promise<Reply> {
    const late = Promise.withResolvers<never>()
    const giveUp = (): void => late.reject(new Error('no answer in time'))
    // A process that was held up itself first reads what has come meanwhile.
    const timer = setTimeout(() => setImmediate(giveUp), COMMAND_TIMEOUT_MS).unref()
    try {
      return await Promise.race([reply, late.promise])
    } finally {
      clearTimeout(timer)
    }
  }

  #fail(error: unknown): void {
    this.#tried.resolve()
    const isRefused = this.#isReply(error)
    // Who answers need not be waited for, and what is there can still be read.
    if (!isRefused) this.#pausedUntil = performance.now() + FAILURE_PAUSE_MS
    if (this.#isClosed) return
    const reason = error instanceof Error && error.message !== '' ? error.message : String(error)
    const isKnown = this.#problem !== undefined && this.#problem !== 'not connected yet'
    if (!isKnown || (isRefused && !this.#isRefusing)) {
      this.#log.warn('store.away', { reason, rates: 'counted by this process alone until it is back' })
    }
    this.#problem = reason
    this.#isRefusing = isRefused
  }

  /** Looks now and then which store it is, whether it is kept, and whether something is taken: reading does not say so. */
  async #watch(): Promise<void> {
    clearTimeout(this.#watching)
    const client = this.#usable()
    if (client) {
      try {
        await this.#bounded(Promise.all([this.#look(client), this.#inspect(client)]))
        const probe = client.set(`${PREFIX}probe`, '', { expiration: { type: 'PX', value: 1 } })
        await this.#bounded(probe)
        this.#recover()
      } catch (error) {
        this.#fail(error)
      }
    }
    clearTimeout(this.#watching)
    if (!this.#isClosed) this.#watching = setTimeout(() => void this.#watch(), WATCH_MS).unref()
  }

  /** Keys that Redis may evict are not kept as long as was promised. Who may not ask it for its memory learns nothing. */
  async #inspect(client: RedisClientType): Promise<void> {
    const text = await client.info('memory').catch((error: unknown) => {
      if (this.#isReply(error)) return ''
      throw error
    })
    const policy = /^maxmemory_policy:(\S+)/m.exec(text)?.[1] ?? 'noeviction'
    const isBounded = !/^maxmemory:0\s*$/m.test(text)
    const before = this.#hazard
    this.#hazard =
      policy !== 'noeviction' && isBounded
        ? `Redis may evict what was promised (maxmemory-policy ${policy}): set maxmemory-policy to noeviction`
        : undefined
    this.#report(before, this.#hazard)
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
  buckets: readonly RateLimitWindow[],
  what: 'takeTokens' | 'peekTokens',
): Promise<TokenGrant> {
  const options = { keys: buckets.map(({ key }) => PREFIX + key), arguments: takeArguments(buckets, what) }
  const reply = await run(client, takeTokensScript, options)
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
  return new GatewayError('SERVER_UNAVAILABLE', 'The store of the gateway cannot be reached.', { cause })
}

function refused(cause: unknown): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The store of the gateway cannot be used.', { cause })
}

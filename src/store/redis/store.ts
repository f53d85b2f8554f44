/**
 * A store in Redis or Valkey, shared by machines: in one server, or in what sentinels or a cluster say is the master. Commands have
 * a deadline; while Redis is unreachable, rate limits are counted locally and all other operations fail.
 */
import type { RedisClientType } from '@redis/client'
import { randomUUID } from 'node:crypto'
import { GatewayError } from '../../core/error.ts'
import type { Log } from '../../core/log.ts'
import { readRedisUrl, type RedisHost, type RedisLocation } from '../../core/redis-url.ts'
import type { Secret } from '../../core/text/secret.ts'
import { ChunkedBlobs } from '../blobs/chunks.ts'
import { MemoryStore } from '../memory.ts'
import {
  type SentinelRecord,
  Sentinel,
  ACCEPT_HINT,
  isCriticalKey,
  isAbsenceStated,
  mustSurviveFailover,
} from '../sentinel.ts'
import type { NewValue, PortableStore, RateLimitWindow, StoreEntry, TokenGrant } from '../store.ts'
import { type ChangeListener, isWatchable } from '../watches.ts'
import { RedisChanges } from './changes.ts'
import { RedisConnection } from './connection.ts'
import { Replicas, UnconfirmedError, weaknessesOf } from './durability.ts'
import { RedisKeys } from './keys.ts'
import {
  compareAndSwapScript,
  putScript,
  readTaken,
  removeScript,
  run,
  type Script,
  scanScript,
  setIfAbsentScript,
  takeArguments,
  takeTokensScript,
} from './scripts.ts'

// The identity of the store in a Redis. A Redis that was emptied, restarted without its data or replaced looks like a new
// one, and completed calls would run again. So the first durable write stores an id in Redis, each later command reads it
// again, and the user's state directory records it (see `Sentinel`). If the id differs or is missing, the store counts as
// lost until the right one is back or `gatehouse store accept` allows to continue without it. An id that too few replicas
// have protects nothing yet, since no durable write counts before they have it, and a failover may replace it.

/** The id of the store in a Redis, as known to this process. */
class RedisGeneration {
  readonly #sentinel: Sentinel
  readonly #key: string
  /** The id that was read last, and the one that replicas have. */
  #present: string | undefined
  #known: string | undefined
  /** The critical data recorded before this process started. */
  #recorded: SentinelRecord | undefined
  #loss: string | undefined
  #lostAt = 0

  constructor(sentinel: Sentinel, key: string) {
    this.#sentinel = sentinel
    this.#key = key
    this.#recorded = sentinel.read(Date.now())
  }

  /** Why critical data is missing; undefined while it is there. */
  get loss(): string | undefined {
    return this.#loss
  }

  /** Reads the current id and compares it with the expected one; returns it. */
  async check(client: RedisClientType): Promise<string | undefined> {
    const current = parseId(await client.get(this.#key))
    this.#present = current?.id
    this.#compare(current, Date.now())
    return current?.id
  }

  /** An id that was read is in replicas now: from now on the store is lost without it. */
  confirmed(id: string | undefined): void {
    if (this.#loss === undefined && id === this.#present) this.#known = id
  }

  get hasId(): boolean {
    return this.#known !== undefined
  }

  /** Stores an id and has replicas confirm it, unless there is one or critical data is missing. */
  async ensureId(client: RedisClientType, confirm: () => Promise<unknown>): Promise<void> {
    await this.check(client)
    if (this.#known !== undefined || this.#loss !== undefined) return
    await client.set(this.#key, `${randomUUID()} 0`, { condition: 'NX' })
    const id = await this.check(client)
    await confirm()
    this.confirmed(id)
  }

  /** Records that critical data with the given TTL, in milliseconds, is about to be written. */
  note(ttl: number): void {
    const now = Date.now()
    if (this.#known !== undefined) this.#sentinel.note(this.#known, now + ttl, now)
  }

  /** Makes every gateway accept the current content; returns whether the store got a new id. */
  async accept(client: RedisClientType): Promise<boolean> {
    const now = Date.now()
    const current = parseId(await client.get(this.#key))
    const isLost = current === undefined || this.#loss !== undefined
    await client.set(this.#key, `${isLost ? randomUUID() : current.id} ${now}`)
    if (isLost) this.#forget()
    return isLost
  }

  #compare(current: StoreId | undefined, now: number): void {
    const recorded = this.#known === undefined ? this.#recorded : undefined
    const expected = this.#known ?? recorded?.id
    if (expected === undefined || current?.id === expected) return this.#adopt(expected)
    const since = this.#loss === undefined ? (recorded?.at ?? now) : this.#lostAt
    if (current && current.acceptedAt > since) {
      this.#forget()
      return this.#adopt(undefined)
    }
    if (this.#loss === undefined) this.#lostAt = since
    this.#loss = current ? 'it contains a different store than before' : 'its data is gone'
  }

  #forget(): void {
    this.#recorded = undefined
    this.#sentinel.forget()
  }

  #adopt(id: string | undefined): void {
    this.#known = id
    this.#loss = undefined
  }
}

interface StoreId {
  readonly id: string
  /** When an operator accepted the loss of earlier data, in milliseconds since 1970; 0 for never. */
  readonly acceptedAt: number
}

function parseId(text: string | null): StoreId | undefined {
  const [id = '', at = ''] = text?.split(' ') ?? []
  return id === '' ? undefined : { id, acceptedAt: Number(at) || 0 }
}

/** The timeout of a command on a connection that is open, and the pause after a failure, in milliseconds. */
const COMMAND_TIMEOUT_MS = 2000
const FAILURE_PAUSE_MS = 1000
/** How often the id, writability and eviction policy of Redis are checked, in milliseconds. */
const WATCH_MS = 1000
/** How replies begin of a server that is not, or no longer, the one to write to. */
const NOT_THE_MASTER = /^(?:READONLY|MOVED|LOADING|MASTERDOWN|UNBLOCKED)\b/

/** How a store in Redis is opened. */
export interface RedisStoreOptions {
  /** A folder of the user in which the content of stores is recorded. */
  readonly sentinels?: string | undefined
  /** Whether settings of Redis that can lose data are logged. */
  readonly isWarning?: boolean
}

/**
 * A store that several gateways share. While Redis is unreachable, each gateway counts rate limits locally, so that they
 * apply per gateway instead of globally; everything else fails.
 */
export class RedisStore implements PortableStore {
  readonly blobs = new ChunkedBlobs(this)
  readonly #log: Log
  readonly #location: RedisLocation
  readonly #keys: RedisKeys
  readonly #local = new MemoryStore()
  readonly #connection: RedisConnection
  readonly #changes: RedisChanges
  readonly #replicas: Replicas
  #ready: RedisClientType | undefined
  /** The server that was used last. */
  #place: RedisHost | undefined
  #problem: string | undefined = 'not connected yet'
  /** Redis responds but refuses writes: it is full, or a read-only replica. */
  #isRefusing = false
  #watching: NodeJS.Timeout | undefined
  /** Why critical data might be evicted. */
  #eviction: string | undefined
  readonly #generation: RedisGeneration
  #isReply: (error: unknown) => boolean = () => false
  #pausedUntil = 0
  #isClosed = false
  #isWarning: boolean
  readonly #tried = Promise.withResolvers<void>()

  /** @throws Error if it is no URL of Redis */
  constructor(url: Secret, log: Log, { sentinels, isWarning = false }: RedisStoreOptions = {}) {
    this.#log = log
    this.#location = readRedisUrl(url.reveal())
    this.#isWarning = isWarning
    this.#keys = new RedisKeys(this.#location.kind === 'cluster')
    const sentinel = new Sentinel(sentinels, this.#location.address)
    this.#generation = new RedisGeneration(sentinel, this.#keys.generation)
    this.#replicas = new Replicas(this.#location)
    this.#connection = new RedisConnection(this.#location, {
      ready: (client, place) => this.#use(client, place),
      failed: (error) => this.#fail(error),
    })
    this.#connection.driver.then(
      ({ ErrorReply }) => (this.#isReply = (error) => error instanceof ErrorReply),
      (error: unknown) => this.#fail(error),
    )
    this.#changes = new RedisChanges(this.#location.database, () => this.#connection.another())
  }

  get unavailableReason(): string | undefined {
    const { loss } = this.#generation
    if (this.#problem === undefined && loss !== undefined) return `${loss}. Restore it, or ${ACCEPT_HINT}`
    return this.#problem ?? this.#hazard
  }

  get canRead(): boolean {
    const isReachable = this.#problem === undefined || this.#isRefusing
    return isReachable && this.#generation.loss === undefined
  }

  /** Makes all gateways accept the current content; returns whether anything was lost. */
  async accept(): Promise<boolean> {
    const client = this.#usableClient()
    if (!client) throw unreachable()
    return this.#withTimeout(this.#generation.accept(client))
  }

  opened(): Promise<void> {
    return this.#tried.promise
  }

  async get(key: string): Promise<string | undefined> {
    const found = await this.#execute((client) => client.get(this.#keys.nameOf(key)))
    if (found === null && isAbsenceStated(key)) await this.#mustBeMaster()
    return found ?? undefined
  }

  async put(key: string, value: string, ttl: number): Promise<void> {
    await this.#noteCritical(key, ttl)
    await this.#write(putScript, key, [value, roundTtl(ttl)])
  }

  async putAll(values: readonly NewValue[], removed: readonly string[]): Promise<void> {
    await Promise.all(values.map(({ key, value, ttl }) => this.put(key, value, ttl)))
    await Promise.all(removed.map((key) => this.delete(key)))
  }

  async setIfAbsent(key: string, value: string, ttl: number): Promise<string | undefined> {
    if (this.#hazard !== undefined && isCriticalKey(key)) throw refused(new Error(this.#hazard))
    await this.#noteCritical(key, ttl)
    const found = await this.#write(setIfAbsentScript, key, [value, roundTtl(ttl)])
    return typeof found === 'string' ? found : undefined
  }

  async compareAndSwap(key: string, before: string, value: string, ttl: number): Promise<boolean> {
    await this.#noteCritical(key, ttl)
    return (await this.#write(compareAndSwapScript, key, [value, roundTtl(ttl), before])) === 1
  }

  async compareAndDelete(key: string, before: string): Promise<boolean> {
    return (await this.#write(removeScript, key, [before])) === 1
  }

  async delete(key: string): Promise<boolean> {
    return (await this.#write(removeScript, key, [])) === 1
  }

  watch(key: string, listener: ChangeListener): () => void {
    return this.#changes.watch(key, listener)
  }

  async scan(collection: string): Promise<ReadonlyMap<string, string>> {
    const prefix = this.#keys.nameOf(`${collection}/`)
    // Lua counts bytes from one; the index contains full keys.
    const from = String(Buffer.byteLength(collection) + 2)
    const reply = await this.#run(scanScript, [this.#keys.indexOf(collection)], [prefix, from])
    const found = new Map<string, string>()
    if (!Array.isArray(reply)) return found
    for (let index = 0; index + 1 < reply.length; index += 2) {
      found.set(String(reply[index]), String(reply[index + 1]))
    }
    return found
  }

  async *entries(): AsyncIterable<StoreEntry> {
    const client = this.#usableClient()
    if (!client) throw unreachable()
    for await (const names of client.scanIterator({
      MATCH: `${this.#keys.prefix}*`,
      TYPE: 'string',
      COUNT: 500,
    })) {
      for (const redisKey of names) {
        const [value, ttl] = await Promise.all([client.get(redisKey), client.pTTL(redisKey)])
        if (value !== null && ttl > 0)
          yield { key: this.#keys.keyOf(redisKey), value, until: Date.now() + ttl }
      }
    }
  }

  async windows(start: string): Promise<readonly string[]> {
    const client = this.#usableClient()
    if (!client) throw unreachable()
    const found: string[] = []
    const { prefix } = this.#keys
    for await (const names of client.scanIterator({ MATCH: `${prefix}rate:*`, TYPE: 'hash', COUNT: 500 }))
      found.push(...names.map((name) => name.slice(prefix.length)).filter((key) => key.startsWith(start)))
    return found
  }

  async deleteWindows(keys: readonly string[]): Promise<void> {
    for (const key of keys) await this.#execute((client) => client.del(this.#keys.prefix + key))
  }

  async describe(): Promise<Readonly<Record<string, string>>> {
    const text = await this.#execute((client) => client.info('memory'))
    const memory = /^used_memory_human:(.*)$/m.exec(text)?.[1]?.trim()
    return {
      kind: 'Redis or Valkey',
      address: this.#location.address,
      ...(memory !== undefined && { memory }),
    }
  }

  takeTokens(buckets: readonly RateLimitWindow[]): TokenGrant | Promise<TokenGrant> {
    return this.#tokens(buckets, 'takeTokens')
  }

  peekTokens(buckets: readonly RateLimitWindow[]): TokenGrant | Promise<TokenGrant> {
    return this.#tokens(buckets, 'peekTokens')
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#watching)
    await this.#changes.close()
    this.#ready = undefined
    await this.#connection.close((closed) => this.#withTimeout(closed))
  }

  /** Settings of Redis that can lose data which it has accepted. */
  async weaknesses(): Promise<readonly string[]> {
    const client = this.#usableClient()
    if (!client) throw unreachable()
    return this.#withTimeout(weaknessesOf(client, this.#location, this.#replicas))
  }

  /** Why critical data might get lost. */
  get #hazard(): string | undefined {
    return this.#eviction ?? this.#replicas.problem
  }

  #tokens(
    buckets: readonly RateLimitWindow[],
    what: 'takeTokens' | 'peekTokens',
  ): TokenGrant | Promise<TokenGrant> {
    const client = this.#usableClient()
    if (!client) return this.#local[what](buckets)
    return this.#withTimeout(this.#takeFrom(client, buckets, what)).catch((error: unknown) => {
      this.#fail(error)
      return this.#local[what](buckets)
    })
  }

  #use(client: RedisClientType, place: RedisHost): void {
    const before = this.#place
    const isMoved = before !== undefined && (before.host !== place.host || before.port !== place.port)
    this.#place = place
    if (isMoved)
      this.#log.warn('store.moved', {
        from: `${before.host}:${before.port}`,
        to: `${place.host}:${place.port}`,
      })
    if (this.#ready !== undefined && this.#ready !== client) void this.#changes.moved()
    this.#ready = client
    this.#pausedUntil = 0
    void this.#watch()
  }

  #usableClient(): RedisClientType | undefined {
    const client = this.#ready
    return client?.isReady === true && performance.now() >= this.#pausedUntil ? client : undefined
  }

  /** Runs a script that changes a value, and announces that where it can be watched. */
  #write(script: Script, key: string, values: string[]): Promise<unknown> {
    const channel = isWatchable(key) ? this.#changes.channelOf(key) : ''
    const options = { keys: this.#keys.namesOf(key), arguments: [key, channel, ...values] }
    if (!mustSurviveFailover(key)) return this.#execute((client) => run(client, script, options))
    return this.#execute((client) => run(client, script, options, () => this.#confirmed(client)))
  }

  #run(script: Script, keys: string[], values: string[]): Promise<unknown> {
    return this.#execute((client) => run(client, script, { keys, arguments: values }))
  }

  /**
   * Has replicas confirm that they follow this server: one that was replaced and does not know it yet, such as one that hung and
   * continues, has none. @throws SERVER_UNAVAILABLE
   */
  async #mustBeMaster(): Promise<void> {
    if (this.#replicas.needed === 0) return
    if (this.#hazard !== undefined) throw refused(new Error(this.#hazard))
    await this.#execute((client) => this.#confirmNow(client))
  }

  /** Waits until replicas have everything that was written so far, by whomever. */
  #confirmNow(client: RedisClientType): Promise<unknown> {
    return Promise.all([this.#probe(client), this.#confirmed(client)])
  }

  /** A write that leaves nothing. */
  #probe(client: RedisClientType): Promise<unknown> {
    return client.set(`${this.#keys.prefix}probe`, '', { expiration: { type: 'PX', value: 1 } })
  }

  /** Waits until replicas have what was written last. */
  async #confirmed(client: RedisClientType): Promise<void> {
    const before = this.#hazard
    try {
      await this.#replicas.confirm(client)
    } finally {
      this.#report(before, this.#hazard)
    }
  }

  async #takeFrom(
    client: RedisClientType,
    buckets: readonly RateLimitWindow[],
    what: 'takeTokens' | 'peekTokens',
  ): Promise<TokenGrant> {
    const keys = buckets.map(({ key }) => this.#keys.prefix + key)
    const reply = await run(client, takeTokensScript, { keys, arguments: takeArguments(buckets, what) })
    return readTaken(reply, buckets.length)
  }

  async #execute<Reply>(command: (client: RedisClientType) => Promise<Reply>): Promise<Reply> {
    const client = this.#usableClient()
    if (!client) throw unreachable()
    if (this.#generation.loss === undefined) {
      const reply = await this.#executeChecked(client, command)
      if (this.#generation.loss === undefined) return reply
    }
    throw refused(new Error(this.unavailableReason))
  }

  /** Runs a command, and in the same round trip checks that the store is still the right one. */
  async #executeChecked<Reply>(
    client: RedisClientType,
    command: (client: RedisClientType) => Promise<Reply>,
  ): Promise<Reply> {
    try {
      const [reply] = await this.#withTimeout(Promise.all([command(client), this.#checkId(client)]))
      return reply
    } catch (error) {
      // Redis itself is well where only a replica is missing.
      if (error instanceof UnconfirmedError) throw refused(error)
      this.#fail(error)
      throw this.#isReply(error) ? refused(error) : unreachable(error)
    }
  }

  async #checkId(client: RedisClientType): Promise<string | undefined> {
    const before = this.#generation.loss
    const id = await this.#generation.check(client)
    this.#report(before, this.#generation.loss)
    return id
  }

  async #noteCritical(key: string, ttl: number): Promise<void> {
    if (!isCriticalKey(key)) return
    if (!this.#generation.hasId)
      await this.#execute((client) => this.#generation.ensureId(client, () => this.#confirmNow(client)))
    this.#generation.note(ttl)
  }

  #report(before: string | undefined, after: string | undefined): void {
    if (before === after || this.#isClosed) return
    if (after === undefined) this.#log.info('store.ready')
    else this.#log.error('store.away', { reason: after })
  }

  async #withTimeout<Reply>(reply: Promise<Reply>): Promise<Reply> {
    const late = Promise.withResolvers<never>()
    const giveUp = (): void => late.reject(new Error('no response in time'))
    // If this process itself was stalled, process pending replies first.
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
    // Redis responds to a refused command, so there is no need to pause, and reads still work.
    if (!isRefused) this.#pausedUntil = performance.now() + FAILURE_PAUSE_MS
    if (this.#isClosed) return
    const reason = error instanceof Error && error.message !== '' ? error.message : String(error)
    const isKnown = this.#problem !== undefined && this.#problem !== 'not connected yet'
    if (!isKnown || (isRefused && !this.#isRefusing)) {
      this.#log.warn('store.away', { reason, rates: 'counted by this process alone until it is back' })
    }
    this.#problem = reason
    this.#isRefusing = isRefused
    if (isRefused && NOT_THE_MASTER.test(reason)) this.#connection.leave()
    else void this.#connection.verify()
  }

  /** Periodically checks the store's id, the eviction policy and whether writes work; reads do not show that. */
  async #watch(): Promise<void> {
    clearTimeout(this.#watching)
    const client = this.#usableClient()
    if (client) {
      try {
        // A server that refuses to write says that better than why its replicas cannot be waited for.
        const [id, , isConfirmed] = await this.#withTimeout(
          Promise.all([this.#checkId(client), this.#probe(client), this.#inspect(client)]),
        )
        if (isConfirmed) this.#generation.confirmed(id)
        this.#recover()
      } catch (error) {
        this.#fail(error)
      }
    }
    clearTimeout(this.#watching)
    if (!this.#isClosed) this.#watching = setTimeout(() => void this.#watch(), WATCH_MS).unref()
  }

  /**
   * Checks whether Redis may evict keys, and its replicas: whether they have what was written before. Users without permission for
   * INFO get no answer.
   */
  async #inspect(client: RedisClientType): Promise<boolean> {
    const [memory, replication] = await Promise.all([
      this.#infoOf(client, 'memory'),
      this.#infoOf(client, 'replication'),
    ])
    const policy = /^maxmemory_policy:(\S+)/m.exec(memory)?.[1] ?? 'noeviction'
    const isBounded = !/^maxmemory:0\s*$/m.test(memory)
    const before = this.#hazard
    this.#eviction =
      policy !== 'noeviction' && isBounded
        ? `Redis may evict critical data (maxmemory-policy ${policy}): set maxmemory-policy to noeviction`
        : undefined
    const isConfirmed = await this.#replicas.look(client, replication)
    this.#report(before, this.#hazard)
    // A master that its replicas have left may not be the master any more.
    if (!isConfirmed) void this.#connection.verify()
    return isConfirmed
  }

  async #infoOf(client: RedisClientType, section: string): Promise<string> {
    return client.info(section).catch((error: unknown) => {
      if (this.#isReply(error)) return ''
      throw error
    })
  }

  /** Logs the settings of Redis that can lose data, once. */
  async #warn(): Promise<void> {
    if (!this.#isWarning) return
    this.#isWarning = false
    const found = await this.weaknesses().catch(() => [])
    for (const problem of found) if (!this.#isClosed) this.#log.warn('store.weak', { problem })
  }

  #recover(): void {
    this.#tried.resolve()
    if (this.#isClosed) return
    this.#pausedUntil = 0
    if (this.#problem !== undefined) this.#log.info('store.ready')
    void this.#warn()
    this.#problem = undefined
    this.#isRefusing = false
  }
}

function roundTtl(ttl: number): string {
  return String(Math.max(1, Math.ceil(ttl)))
}

function unreachable(cause?: unknown): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The store of the gateway cannot be reached.', { cause })
}

function refused(cause: unknown): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The store of the gateway cannot be used.', { cause })
}

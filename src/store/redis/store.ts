/**
 * A store in Redis or Valkey, shared by machines. Commands have a deadline; while Redis is unreachable, rate limits are
 * counted locally and all other operations fail.
 */
import type { RedisClientType } from '@redis/client'
import { randomUUID, createHash } from 'node:crypto'
import { GatewayError } from '../../core/error.ts'
import type { Log } from '../../core/log.ts'
import { type Backoff, delayBefore } from '../../core/time/backoff.ts'
import type { Secret } from '../../core/text/secret.ts'
import { ChunkedBlobs } from '../blobs/chunks.ts'
import { MemoryStore } from '../memory.ts'
import { type SentinelRecord, Sentinel, ACCEPT_HINT, isCriticalKey } from '../sentinel.ts'
import {
  type RateLimitWindow,
  type StoreEntry,
  type NewValue,
  type PortableStore,
  type TokenGrant,
  collectionOf,
  SLICES,
} from '../store.ts'
import { type ChangeListener, isWatchable } from '../watches.ts'
import { RedisChanges } from './changes.ts'

// The identity of the store in a Redis. A Redis that was emptied, restarted without its data or replaced looks like a new
// one, and completed calls would run again. So the first durable write stores an id in Redis, each later command reads it
// again, and the user's state directory records it (see `Sentinel`). If the id differs or is missing, the store counts as
// lost until the right one is back or `gatehouse store accept` allows to continue without it.

/** The prefix of every key in Redis. */
const PREFIX = 'gatehouse:'
/** Has no expiry, so that Redis keeps it as long as anything. */
const GENERATION_KEY = `${PREFIX}generation`

/** The id of the store in a Redis, as known to this process. */
class RedisGeneration {
  readonly #sentinel: Sentinel
  #known: string | undefined
  /** The critical data recorded before this process started. */
  #recorded: SentinelRecord | undefined
  #loss: string | undefined
  #lostAt = 0

  constructor(sentinel: Sentinel) {
    this.#sentinel = sentinel
    this.#recorded = sentinel.read(Date.now())
  }

  /** Why critical data is missing; undefined while it is there. */
  get loss(): string | undefined {
    return this.#loss
  }

  /** Reads the current id and compares it with the expected one. */
  async check(client: RedisClientType): Promise<void> {
    this.#compare(await client.get(GENERATION_KEY), Date.now())
  }

  get hasId(): boolean {
    return this.#known !== undefined
  }

  /** Stores an id, unless there is one or critical data is missing. */
  async ensureId(client: RedisClientType): Promise<void> {
    await this.check(client)
    if (this.#known !== undefined || this.#loss !== undefined) return
    await client.set(GENERATION_KEY, `${randomUUID()} 0`, { condition: 'NX' })
    await this.check(client)
  }

  /** Records that critical data with the given TTL, in milliseconds, is about to be written. */
  note(ttl: number): void {
    const now = Date.now()
    if (this.#known !== undefined) this.#sentinel.note(this.#known, now + ttl, now)
  }

  /** Makes every gateway accept the current content; returns whether the store got a new id. */
  async accept(client: RedisClientType): Promise<boolean> {
    const now = Date.now()
    const current = parseId(await client.get(GENERATION_KEY))
    const isLost = current === undefined || this.#loss !== undefined
    await client.set(GENERATION_KEY, `${isLost ? randomUUID() : current.id} ${now}`)
    if (isLost) this.#forget()
    return isLost
  }

  #compare(text: string | null, now: number): void {
    const current = parseId(text)
    const recorded = this.#known === undefined ? this.#recorded : undefined
    const expected = this.#known ?? recorded?.id
    if (expected === undefined || current?.id === expected) return this.#adopt(current?.id)
    const since = this.#loss === undefined ? (recorded?.at ?? now) : this.#lostAt
    if (current && current.acceptedAt > since) {
      this.#forget()
      return this.#adopt(current.id)
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
/** How many commands may be queued for Redis. */
const MAX_QUEUED_COMMANDS = 10_000

/**
 * A store that several gateways share. While Redis is unreachable, each gateway counts rate limits locally, so that they
 * apply per gateway instead of globally; everything else fails.
 */
export class RedisStore implements PortableStore {
  readonly blobs = new ChunkedBlobs(this)
  readonly #log: Log
  /** Without user name and password. */
  readonly #address: string
  readonly #local = new MemoryStore()
  readonly #client: Promise<RedisClientType>
  readonly #changes: RedisChanges
  #ready: RedisClientType | undefined
  #problem: string | undefined = 'not connected yet'
  /** Redis responds but refuses writes: it is full, or a read-only replica. */
  #isRefusing = false
  #watching: NodeJS.Timeout | undefined
  /** Why critical data might get lost. */
  #hazard: string | undefined
  readonly #generation: RedisGeneration
  #isReply: (error: unknown) => boolean = () => false
  #pausedUntil = 0
  #isClosed = false
  readonly #tried = Promise.withResolvers<void>()

  /** `sentinels` is a folder of the user in which the content of stores is recorded. */
  constructor(url: Secret, log: Log, sentinels?: string) {
    this.#log = log
    const { protocol, host, pathname } = new URL(url.reveal())
    this.#address = `${protocol}//${host}${pathname === '/' ? '' : pathname}`
    this.#generation = new RedisGeneration(new Sentinel(sentinels, this.#address))
    this.#client = this.#connect(url)
    this.#client.catch((error: unknown) => this.#fail(error))
    this.#changes = new RedisChanges(this.#client, pathname.slice(1) || '0')
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
    const [redisKey = key] = keysOf(key)
    return (await this.#execute((client) => client.get(redisKey))) ?? undefined
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
    const [prefix = ''] = keysOf(`${collection}/`)
    // Lua counts bytes from one; the index contains full keys.
    const from = String(Buffer.byteLength(collection) + 2)
    const reply = await this.#run(scanScript, [indexOf(collection)], [prefix, from])
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
    for await (const names of client.scanIterator({ MATCH: `${PREFIX}*`, TYPE: 'string', COUNT: 500 })) {
      for (const redisKey of names) {
        const [value, ttl] = await Promise.all([client.get(redisKey), client.pTTL(redisKey)])
        if (value !== null && ttl > 0) yield { key: keyOf(redisKey), value, until: Date.now() + ttl }
      }
    }
  }

  async windows(start: string): Promise<readonly string[]> {
    const client = this.#usableClient()
    if (!client) throw unreachable()
    const found: string[] = []
    for await (const names of client.scanIterator({ MATCH: `${PREFIX}rate:*`, TYPE: 'hash', COUNT: 500 }))
      found.push(...names.map((name) => name.slice(PREFIX.length)).filter((key) => key.startsWith(start)))
    return found
  }

  async deleteWindows(keys: readonly string[]): Promise<void> {
    for (const key of keys) await this.#execute((client) => client.del(PREFIX + key))
  }

  async describe(): Promise<Readonly<Record<string, string>>> {
    const text = await this.#execute((client) => client.info('memory'))
    const memory = /^used_memory_human:(.*)$/m.exec(text)?.[1]?.trim()
    return { kind: 'Redis or Valkey', address: this.#address, ...(memory !== undefined && { memory }) }
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
    const client = await this.#client.catch(() => undefined)
    this.#ready = undefined
    // A client that never connected has nothing to close.
    if (client?.isReady) await this.#withTimeout(client.close()).catch(() => client.destroy())
    else if (client?.isOpen) client.destroy()
  }

  #tokens(
    buckets: readonly RateLimitWindow[],
    what: 'takeTokens' | 'peekTokens',
  ): TokenGrant | Promise<TokenGrant> {
    const client = this.#usableClient()
    if (!client) return this.#local[what](buckets)
    return this.#withTimeout(takeFrom(client, buckets, what)).catch((error: unknown) => {
      this.#fail(error)
      return this.#local[what](buckets)
    })
  }

  async #connect(url: Secret): Promise<RedisClientType> {
    // Loaded lazily: gateways without Redis do not need the driver.
    const { createClient, ErrorReply } = await import('@redis/client')
    this.#isReply = (error) => error instanceof ErrorReply
    const client: RedisClientType = createClient({
      url: url.reveal(),
      disableOfflineQueue: true,
      commandsQueueMaxLength: MAX_QUEUED_COMMANDS,
      maintNotifications: 'disabled',
      // A hanging connection is detected by an unanswered ping.
      pingInterval: 1000,
      socket: {
        connectTimeout: 2000,
        socketTimeout: 5000,
        reconnectStrategy: (retries) => delayBefore(retries, RECONNECTIONS),
      },
    })
    client.on('error', (error: unknown) => this.#fail(error))
    client.on('ready', () => {
      this.#ready = client
      this.#pausedUntil = 0
      void this.#watch()
    })
    // With a reconnect strategy this settles only once connected or closed.
    client.connect().catch((error: unknown) => this.#fail(error))
    if (this.#isClosed) client.destroy()
    return client
  }

  #usableClient(): RedisClientType | undefined {
    const client = this.#ready
    return client?.isReady === true && performance.now() >= this.#pausedUntil ? client : undefined
  }

  /** Runs a script that changes a value, and announces that where it can be watched. */
  #write(script: Script, key: string, values: string[]): Promise<unknown> {
    const channel = isWatchable(key) ? this.#changes.channelOf(key) : ''
    return this.#run(script, keysOf(key), [key, channel, ...values])
  }

  #run(script: Script, keys: string[], values: string[]): Promise<unknown> {
    return this.#execute((client) => run(client, script, { keys, arguments: values }))
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
      this.#fail(error)
      throw this.#isReply(error) ? refused(error) : unreachable(error)
    }
  }

  async #checkId(client: RedisClientType): Promise<void> {
    const before = this.#generation.loss
    await this.#generation.check(client)
    this.#report(before, this.#generation.loss)
  }

  async #noteCritical(key: string, ttl: number): Promise<void> {
    if (!isCriticalKey(key)) return
    if (!this.#generation.hasId) await this.#execute((client) => this.#generation.ensureId(client))
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
  }

  /** Periodically checks the store's id, the eviction policy and whether writes work; reads do not show that. */
  async #watch(): Promise<void> {
    clearTimeout(this.#watching)
    const client = this.#usableClient()
    if (client) {
      try {
        await this.#withTimeout(Promise.all([this.#checkId(client), this.#inspect(client)]))
        const probe = client.set(`${PREFIX}probe`, '', { expiration: { type: 'PX', value: 1 } })
        await this.#withTimeout(probe)
        this.#recover()
      } catch (error) {
        this.#fail(error)
      }
    }
    clearTimeout(this.#watching)
    if (!this.#isClosed) this.#watching = setTimeout(() => void this.#watch(), WATCH_MS).unref()
  }

  /** Checks whether Redis may evict keys. Users without permission for INFO get no answer. */
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
        ? `Redis may evict critical data (maxmemory-policy ${policy}): set maxmemory-policy to noeviction`
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

function roundTtl(ttl: number): string {
  return String(Math.max(1, Math.ceil(ttl)))
}

/** The delays before reconnecting. */
const RECONNECTIONS: Backoff = { firstMs: 50, maxMs: 5000, jitter: 0.5 }

function unreachable(cause?: unknown): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The store of the gateway cannot be reached.', { cause })
}

function refused(cause: unknown): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The store of the gateway cannot be used.', { cause })
}

/** The prefix of the index of a collection. */
const INDEX = 'gatehouse-index:'

/** A Lua script, and the SHA-1 by which Redis knows it once loaded. */
interface Script {
  readonly text: string
  readonly hash: string
}

/** Creates a script from its text. */
function script(text: string): Script {
  return { text, hash: createHash('sha1').update(text).digest('hex') }
}

/** Runs a script in one round trip, or in two if Redis has not loaded it. */
async function run(
  client: RedisClientType,
  { text, hash }: Script,
  options: { keys: string[]; arguments: string[] },
): Promise<unknown> {
  return client.evalSha(hash, options).catch((error: unknown) => {
    if (error instanceof Error && error.message.startsWith('NOSCRIPT')) return client.eval(text, options)
    throw error
  })
}

/**
 * The Redis keys of a key of the store: its own, and the index of its collection. The braces keep a collection in one
 * slot of a cluster.
 */
function keysOf(key: string): string[] {
  const collection = collectionOf(key)
  if (collection === undefined) return [PREFIX + key]
  return [`${PREFIX}{${collection}}${key.slice(collection.length)}`, indexOf(collection)]
}

/** The key of the index of a collection: a sorted set of members by expiry. */
function indexOf(collection: string): string {
  return `${INDEX}{${collection}}`
}

/** The key of the store for a key in Redis. */
function keyOf(name: string): string {
  const key = name.slice(PREFIX.length)
  const end = key.startsWith('{') ? key.indexOf('}/') : -1
  return end === -1 ? key : key.slice(1, end) + key.slice(end + 1)
}

// Expired members are removed from the index whenever it is written or read.
const sharedFunctions = `
local function now()
  local clock = redis.call('TIME')
  return clock[1] * 1000 + math.floor(clock[2] / 1000)
end
-- A user without permission to publish can still write.
local function announce()
  if ARGV[2] ~= '' then redis.pcall('PUBLISH', ARGV[2], '') end
end
local function set(value, ttl, member)
  redis.call('SET', KEYS[1], value, 'PX', ttl)
  announce()
  if not KEYS[2] then return end
  local at = now()
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', at))
  redis.call('ZADD', KEYS[2], string.format('%.0f', at + ttl), member)
  if redis.call('PTTL', KEYS[2]) < tonumber(ttl) then redis.call('PEXPIRE', KEYS[2], ttl) end
end
local function remove(member)
  if KEYS[2] then redis.call('ZREM', KEYS[2], member) end
  local removed = redis.call('DEL', KEYS[1])
  if removed == 1 then announce() end
  return removed
end
`

/** Arguments: key, channel or nothing, value, TTL. */
const putScript = script(`${sharedFunctions}
set(ARGV[3], ARGV[4], ARGV[1])
return 1
`)

/** Arguments as for `putScript`. Replies with the existing value, if any. */
const setIfAbsentScript = script(`${sharedFunctions}
local found = redis.call('GET', KEYS[1])
if found then return found end
set(ARGV[3], ARGV[4], ARGV[1])
return false
`)

/** Arguments as for `putScript`, and the expected value. */
const compareAndSwapScript = script(`${sharedFunctions}
if redis.call('GET', KEYS[1]) ~= ARGV[5] then return 0 end
set(ARGV[3], ARGV[4], ARGV[1])
return 1
`)

/** Arguments: key, channel or nothing, and optionally the expected value. */
const removeScript = script(`${sharedFunctions}
if ARGV[3] and redis.call('GET', KEYS[1]) ~= ARGV[3] then return 0 end
return remove(ARGV[1])
`)

/**
 * Key: the index. Arguments: the prefix of its members' keys. Replies with alternating keys and values. Works on a
 * read-only replica too, where expired members stay in the index.
 */
const scanScript = script(`
local reply = {}
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local value = redis.call('GET', ARGV[1] .. string.sub(member, tonumber(ARGV[2])))
  if value then
    reply[#reply + 1] = member
    reply[#reply + 1] = value
  else
    redis.pcall('ZREM', KEYS[1], member)
  end
end
return reply
`)

/**
 * Takes one token from every window, or returns one, or does nothing; or only reads them. A window is a hash from slices
 * to counts. The time is that of Redis, so that gateways with different clocks agree. Replies whether it was granted, then
 * for each window the remaining tokens and the time until one is available again, in milliseconds.
 */
const takeTokensScript = script(`
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local slices = ${SLICES}
local granted = 1
local taking = ARGV[3 * #KEYS + 1] == 'takeTokens'
local found = {}
for i, key in ipairs(KEYS) do
  local limit, window, back = tonumber(ARGV[3 * i - 2]), tonumber(ARGV[3 * i - 1]), ARGV[3 * i] == 'return'
  local length = math.ceil(window / slices)
  local current = math.floor(now / length)
  local total, oldest, newest, gone = 0, nil, nil, {}
  local stored = redis.call('HGETALL', key)
  for j = 1, #stored, 2 do
    local slice = tonumber(stored[j])
    if slice < current - slices then
      gone[#gone + 1] = stored[j]
    else
      total = total + tonumber(stored[j + 1])
      if oldest == nil or slice < oldest then oldest = slice end
      if newest == nil or slice > newest then newest = slice end
    end
  end
  if #gone > 0 then redis.call('HDEL', key, unpack(gone)) end
  if total >= limit and not back then granted = 0 end
  found[i] = { limit, window, length, current, total, oldest or current, back and newest or -1, back }
end
local reply = { granted }
for i, key in ipairs(KEYS) do
  local limit, window, length, current, total, oldest, newest, back = unpack(found[i])
  if taking and granted == 1 and back then
    if total > 0 then
      local slice = string.format('%.0f', newest)
      if redis.call('HINCRBY', key, slice, -1) <= 0 then redis.call('HDEL', key, slice) end
      total = total - 1
    end
  elseif taking and granted == 1 then
    redis.call('HINCRBY', key, string.format('%.0f', current), 1)
    redis.call('PEXPIRE', key, math.ceil(window + 2 * length))
    total = total + 1
  end
  reply[#reply + 1] = math.max(0, limit - total)
  reply[#reply + 1] = total == 0 and 0 or math.max(1, math.ceil((oldest + slices + 1) * length - now))
end
return reply
`)

/** The script's arguments: limit, length and direction of each window, and whether tokens are taken. */
function takeArguments(buckets: readonly RateLimitWindow[], what: 'takeTokens' | 'peekTokens'): string[] {
  const words = buckets.flatMap(({ limit, window, isReturn }) => {
    return [String(limit), String(window), isReturn ? 'return' : 'take']
  })
  return [...words, what]
}

/** Parses the script's reply. @throws TypeError if it is malformed */
function readTaken(reply: unknown, count: number): TokenGrant {
  if (!Array.isArray(reply) || reply.length !== 1 + 2 * count)
    throw new TypeError('unexpected reply of the script')
  const numbers = reply.map(Number)
  const remaining = numbers.slice(1).filter((_each, index) => index % 2 === 0)
  const reset = numbers.slice(1).filter((_each, index) => index % 2 === 1)
  const wait = reset.map((each, index) => (remaining[index] === 0 ? each : 0))
  return { isGranted: numbers[0] === 1, remaining, reset, wait }
}

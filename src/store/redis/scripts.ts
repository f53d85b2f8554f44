/** The Lua scripts: each is one atomic operation of the store contract. */
import type { RedisClientType } from '@redis/client'
import { createHash } from 'node:crypto'
import { collectionOf, type RateLimitWindow, SLICES, type TokenGrant } from '../store.ts'

/** Every key in Redis begins with it. */
export const PREFIX = 'gatehouse:'
/** What the index of a collection begins with. */
const INDEX = 'gatehouse-index:'

/** A script as Redis runs it, and what Redis knows it by once it has seen it. */
export interface Script {
  readonly text: string
  readonly hash: string
}

/** Makes a script of its text. */
function script(text: string): Script {
  return { text, hash: createHash('sha1').update(text).digest('hex') }
}

/** Runs a script in one round trip, or in two where Redis has not seen it. */
export async function run(
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
 * The keys a key of the store stands for in Redis: its own, and that of the index of its collection. The braces
 * keep a collection in one slot of a cluster.
 */
export function keysOf(key: string): string[] {
  const collection = collectionOf(key)
  if (collection === undefined) return [PREFIX + key]
  return [`${PREFIX}{${collection}}${key.slice(collection.length)}`, indexOf(collection)]
}

/** Where the index of a collection is: its members by when they are over. */
export function indexOf(collection: string): string {
  return `${INDEX}{${collection}}`
}

/** The key of the store that a key in Redis stands for. */
export function keyOf(name: string): string {
  const key = name.slice(PREFIX.length)
  const end = key.startsWith('{') ? key.indexOf('}/') : -1
  return end === -1 ? key : key.slice(1, end) + key.slice(end + 1)
}

// Members whose time is over leave the index whenever something is added to it, or it is read.
const shared = `
local function now()
  local clock = redis.call('TIME')
  return clock[1] * 1000 + math.floor(clock[2] / 1000)
end
local function set(value, ttl, member)
  redis.call('SET', KEYS[1], value, 'PX', ttl)
  if not KEYS[2] then return end
  local at = now()
  redis.call('ZREMRANGEBYSCORE', KEYS[2], '-inf', string.format('%.0f', at))
  redis.call('ZADD', KEYS[2], string.format('%.0f', at + ttl), member)
  if redis.call('PTTL', KEYS[2]) < tonumber(ttl) then redis.call('PEXPIRE', KEYS[2], ttl) end
end
local function remove(member)
  if KEYS[2] then redis.call('ZREM', KEYS[2], member) end
  return redis.call('DEL', KEYS[1])
end
`

/** Arguments: the key, the value, its time. */
export const putScript = script(`${shared}
set(ARGV[2], ARGV[3], ARGV[1])
return 1
`)

/** Arguments as those of `putScript`. Replies what was there, if anything was. */
export const setIfAbsentScript = script(`${shared}
local found = redis.call('GET', KEYS[1])
if found then return found end
set(ARGV[2], ARGV[3], ARGV[1])
return false
`)

/** Arguments as those of `putScript`, and the value before. */
export const compareAndSwapScript = script(`${shared}
if redis.call('GET', KEYS[1]) ~= ARGV[4] then return 0 end
set(ARGV[2], ARGV[3], ARGV[1])
return 1
`)

/** Arguments: the key, and the value before where it matters. */
export const removeScript = script(`${shared}
if ARGV[2] and redis.call('GET', KEYS[1]) ~= ARGV[2] then return 0 end
return remove(ARGV[1])
`)

/**
 * Key: the index. Arguments: what the keys of its members begin with. Replies keys and values in turn. A replica, which
 * takes no writes, replies too: what is over is left in the index there.
 */
export const scanScript = script(`
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
 * Takes one from every bucket, or gives one back, or does nothing; or only looks at them. A bucket is a hash from slices to counts. The
 * time is that of Redis, so that gateways whose clocks differ agree. Replies whether it was granted, then for each
 * bucket what is left and how long until something comes back, in milliseconds.
 */
export const takeTokensScript = script(`
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

/** The script's arguments: limit, window and direction of each bucket, and whether something is taken. */
export function takeArguments(
  buckets: readonly RateLimitWindow[],
  what: 'takeTokens' | 'peekTokens',
): string[] {
  const words = buckets.flatMap(({ limit, window, isReturn }) => {
    return [String(limit), String(window), isReturn ? 'return' : 'take']
  })
  return [...words, what]
}

/** Reads the script's reply. @throws TypeError where it is something else */
export function readTaken(reply: unknown, count: number): TokenGrant {
  if (!Array.isArray(reply) || reply.length !== 1 + 2 * count)
    throw new TypeError('not a reply of the script')
  const numbers = reply.map(Number)
  const remaining = numbers.slice(1).filter((_each, index) => index % 2 === 0)
  const reset = numbers.slice(1).filter((_each, index) => index % 2 === 1)
  const wait = reset.map((each, index) => (remaining[index] === 0 ? each : 0))
  return { isGranted: numbers[0] === 1, remaining, reset, wait }
}

/** The Lua scripts of the store in Redis: each changes or reads several keys at once. */
import type { RedisClientType } from '@redis/client'
import { createHash } from 'node:crypto'
import { type RateLimitWindow, SLICES, type TokenGrant } from '../store.ts'

/** A Lua script, and the SHA-1 by which Redis knows it once loaded. */
export interface Script {
  readonly text: string
  readonly hash: string
}

/** Creates a script from its text. */
function script(text: string): Script {
  return { text, hash: createHash('sha1').update(text).digest('hex') }
}

/**
 * Runs a script in one round trip, or in two if Redis has not loaded it. What `behind` sends, is sent in the same round trip, and
 * has to succeed too.
 */
export async function run(
  client: RedisClientType,
  { text, hash }: Script,
  options: { keys: string[]; arguments: string[] },
  behind?: () => Promise<unknown>,
): Promise<unknown> {
  try {
    const [reply] = await Promise.all([client.evalSha(hash, options), behind?.()])
    return reply
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error
    const [reply] = await Promise.all([client.eval(text, options), behind?.()])
    return reply
  }
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
export const putScript = script(`${sharedFunctions}
set(ARGV[3], ARGV[4], ARGV[1])
return 1
`)

/** Arguments as for `putScript`. Replies with the existing value, if any. */
export const setIfAbsentScript = script(`${sharedFunctions}
local found = redis.call('GET', KEYS[1])
if found then return found end
set(ARGV[3], ARGV[4], ARGV[1])
return false
`)

/** Arguments as for `putScript`, and the expected value. */
export const compareAndSwapScript = script(`${sharedFunctions}
if redis.call('GET', KEYS[1]) ~= ARGV[5] then return 0 end
set(ARGV[3], ARGV[4], ARGV[1])
return 1
`)

/** Arguments: key, channel or nothing, and optionally the expected value. */
export const removeScript = script(`${sharedFunctions}
if ARGV[3] and redis.call('GET', KEYS[1]) ~= ARGV[3] then return 0 end
return remove(ARGV[1])
`)

/**
 * Key: the index. Arguments: the prefix of its members' keys. Replies with alternating keys and values. Works on a
 * read-only replica too, where expired members stay in the index.
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
 * Takes one token from every window, or returns one, or does nothing; or only reads them. A window is a hash from slices
 * to counts. The time is that of Redis, so that gateways with different clocks agree. Replies whether it was granted, the time,
 * then for each window the remaining tokens and the time until one is available again, in milliseconds.
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
local reply = { granted, now }
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
export function takeArguments(
  buckets: readonly RateLimitWindow[],
  what: 'takeTokens' | 'peekTokens',
): string[] {
  const words = buckets.flatMap(({ limit, window, isReturn }) => {
    return [String(limit), String(window), isReturn ? 'return' : 'take']
  })
  return [...words, what]
}

/** Parses the script's reply. @throws TypeError if it is malformed */
export function readTaken(reply: unknown, count: number): TokenGrant {
  if (!Array.isArray(reply) || reply.length !== 2 + 2 * count)
    throw new TypeError('unexpected reply of the script')
  const [granted, at = 0, ...numbers] = reply.map(Number)
  const remaining = numbers.filter((_each, index) => index % 2 === 0)
  const reset = numbers.filter((_each, index) => index % 2 === 1)
  const wait = reset.map((each, index) => (remaining[index] === 0 ? each : 0))
  return { isGranted: granted === 1, at, remaining, reset, wait }
}

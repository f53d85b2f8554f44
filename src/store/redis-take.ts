import { script } from './redis-scripts.ts'
import { type RateLimitWindow, SLICES, type TokenGrant } from './store.ts'

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

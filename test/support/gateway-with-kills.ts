// The built gateway, which is killed at a write to its store. KILL_AT is a `KillPoint` as JSON; the arguments are those
// of the gateway. Usage: gateway-with-kills.ts serve …
import { setTimeout as pause } from 'node:timers/promises'
import type { KillPoint, WritePoint } from './kill-plan.ts'
import { isObject, type Json, parse } from './server/json.ts'

type Method = (key: string, ...rest: readonly unknown[]) => Promise<unknown>
type Methods = Record<'put' | 'setIfAbsent' | 'compareAndSwap', Method>

const { point, moment, count } = JSON.parse(process.env['KILL_AT'] ?? '{}') as Partial<KillPoint>
let seen = 0

const built = (path: string): string => new URL(`../../dist/${path}`, import.meta.url).href
const { LmdbStore } = (await import(built('store/lmdb/store.js'))) as { LmdbStore: { prototype: Methods } }
const { RedisStore } = (await import(built('store/redis/store.js'))) as { RedisStore: { prototype: Methods } }
for (const { prototype } of [LmdbStore, RedisStore]) {
  const { put, setIfAbsent, compareAndSwap } = prototype
  prototype.put = watching(put, (key) => pointOf(key, undefined, {}))
  prototype.setIfAbsent = watching(setIfAbsent, (key) => pointOf(key, undefined, {}))
  prototype.compareAndSwap = watching(compareAndSwap, (key, before, after) => {
    return pointOf(key, asJson(before), asJson(after))
  })
}
await import(built('main.js'))

/** A method of a store that may be the last thing the process does. */
function watching(
  method: Method,
  pointAt: (key: string, ...rest: readonly unknown[]) => WritePoint | undefined,
) {
  return async function (this: unknown, key: string, ...rest: readonly unknown[]): Promise<unknown> {
    const isIt = point !== undefined && pointAt(key, ...rest) === point && ++seen === count
    if (!isIt) return method.call(this, key, ...rest)
    if (moment === 'before') die()
    const writing = method.call(this, key, ...rest)
    // The write is on its way.
    if (moment === 'during') setImmediate(die)
    const written = await writing
    if (moment === 'after') die()
    void pause(25).then(die)
    return written
  }
}

function die(): never {
  process.kill(process.pid, 'SIGKILL')
  for (;;);
}

/** What a write is in the life of an operation; undefined for another write. */
function pointOf(key: string, before: Json | undefined, after: Json): WritePoint | undefined {
  if (key.startsWith('call:')) return 'keyed'
  if (key.startsWith('event-interest:')) return 'wanted'
  if (key.startsWith('subscription/')) return before ? 'settled' : undefined
  if (key.startsWith('log:')) return before ? 'head' : 'appended'
  if (!key.startsWith('operation:')) return undefined
  if (!before) return 'created'
  const { state } = after
  if (state === 'cancelled') return 'cancelled'
  if (state !== 'working' && state !== 'input_required') return 'ended'
  if (before['owner'] !== after['owner']) return 'taken_up'
  if (before['taskTtl'] === undefined && after['taskTtl'] !== undefined) return 'task'
  if (state === 'input_required') return before['state'] === 'working' ? 'asked' : 'answered'
  return before['state'] === 'working' ? 'state_kept' : 'resumed'
}

function asJson(text: unknown): Json {
  const value = parse(String(text))
  return isObject(value) ? value : {}
}

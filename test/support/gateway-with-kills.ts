// The built gateway, which is killed at a write to its store. KILL_AT is a `KillPoint` as JSON; the arguments are those
// of the gateway. Usage: gateway-with-kills.ts serve …
import { setTimeout as pause } from 'node:timers/promises'
import type { KillPoint, WritePoint } from './kill-plan.ts'
import { isObject, type Json, parse } from './server/json.ts'

type Method = (key: string, ...rest: readonly unknown[]) => Promise<unknown>
type Methods = Record<'get' | 'put' | 'setIfAbsent' | 'compareAndSwap' | 'delete', Method>
type BlobMethods = Record<'put' | 'open' | 'delete', Method>

const { point, moment, count } = JSON.parse(process.env['KILL_AT'] ?? '{}') as Partial<KillPoint>
let seen = 0

const built = (path: string): string => new URL(`../../dist/${path}`, import.meta.url).href
const { LmdbStore } = (await import(built('store/lmdb/store.js'))) as { LmdbStore: { prototype: Methods } }
const { RedisStore } = (await import(built('store/redis/store.js'))) as { RedisStore: { prototype: Methods } }
for (const { prototype } of [LmdbStore, RedisStore]) {
  const { get, put, setIfAbsent, compareAndSwap, delete: remove } = prototype
  prototype.get = watching(get, (key) => (key.startsWith('blob-chunk:') ? 'blob_opened' : undefined))
  prototype.delete = watching(remove, (key) => (isBlob(key) ? 'blob_deleted' : undefined))
  prototype.put = watching(put, (key) => pointOf(key, undefined, {}))
  prototype.setIfAbsent = watching(setIfAbsent, (key) => pointOf(key, undefined, {}))
  prototype.compareAndSwap = watching(compareAndSwap, (key, before, after) => {
    return pointOf(key, asJson(before), asJson(after))
  })
}
const { FolderBlobs } = (await import(built('store/blobs/folder.js'))) as {
  FolderBlobs: { prototype: BlobMethods }
}
const { put: putFile, open: openFile, delete: deleteFile } = FolderBlobs.prototype
FolderBlobs.prototype.put = watching(putFile, () => 'blob')
FolderBlobs.prototype.open = watching(openFile, () => 'blob_opened')
FolderBlobs.prototype.delete = watching(deleteFile, () => 'blob_deleted')
if (point === 'blob_deleted') sweepOften()
await import(built('main.js'))

/** Has what is done each minute done each half second. */
function sweepOften(): void {
  const { setInterval: usual } = globalThis
  const often = (callback: () => void, delay: number) => usual(callback, delay === 60_000 ? 500 : delay)
  globalThis.setInterval = often as typeof setInterval
}

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
    if (moment === 'soon') void pause((seen * 7) % 20).then(die)
    const written = await writing
    if (moment === 'after') die()
    void pause(25).then(die)
    return written
  }
}

function isBlob(key: string): boolean {
  return key.startsWith('blob/') || key.startsWith('blob-chunk:')
}

function die(): never {
  process.kill(process.pid, 'SIGKILL')
  for (;;);
}

/** What a write is in the life of an operation; undefined for another write. */
function pointOf(key: string, before: Json | undefined, after: Json): WritePoint | undefined {
  if (isBlob(key)) return key.startsWith('blob/') ? 'blob' : 'chunk'
  if (key.startsWith('reference/')) return 'recorded'
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

/** The section `store`: its schema, its settings with the default folder, and its checks. */
import { createHash } from 'node:crypto'
import { accessSync, constants, existsSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { hasRedisLogin, isRedisUrl, readRedisUrl, REDIS_SCHEMES } from '../../core/redis-url.ts'
import type { JsonSchema } from '../../core/schema/schema.ts'
import type { StoreSettings } from '../../core/settings.ts'
import { Secret } from '../../core/text/secret.ts'
import { atValue, type Findings, placeAt } from '../problem.ts'
import type { Environment } from '../secrets.ts'
import { userFolder } from '../user-folders.ts'

/** The JSON Schema of `store`. */
export const storeSchema: JsonSchema = {
  type: 'string',
  pattern: `^(memory|${REDIS_SCHEMES}//\\S+|\\..*|/.*|[A-Za-z]:[\\\\/].*)$`,
  'x-secret': true,
  errorMessage:
    'must be memory, the path of a folder such as ./state, or the URL of a Redis or Valkey server such as redis://127.0.0.1:6379',
  description:
    'Where durable state is stored: in a folder, which several gateways on one machine may share (default: `.gatehouse` next to the file, or a folder of the user if that is not writable), in memory, or in Redis or Valkey (6 or later), shared by several machines: one server, `redis+sentinel://` or `redis+cluster://` (see operating.md). With a folder or memory, each gateway counts rates separately. While Redis is unavailable, each gateway counts rates separately, with the full limits, and `/ready` reports it; everything else that needs the store fails.',
  examples: [
    './state',
    'memory',
    'redis://127.0.0.1:6379',
    'rediss+sentinel://sentinel1:26379,sentinel2:26379/mymaster',
    '${REDIS_URL}',
  ],
}

/** What identifies a default store: a configuration file, or the servers of a command line. */
interface StoreOwner {
  readonly file?: string
  readonly directory: string
  readonly upstreams: unknown
}

/** Converts the value of `store` to settings. */
export function storeSettings(
  store: Secret | undefined,
  { env, ...owner }: StoreOwner & { readonly env: Environment },
): StoreSettings {
  const text = store?.reveal()
  const sentinels = sentinelFolder(env)
  if (store === undefined || text === undefined)
    return { kind: 'folder', path: defaultStoreFolder(owner, env), sentinels }
  if (text === 'memory') return { kind: 'memory' }
  if (isRedisUrl(text)) {
    const url = hasRedisLogin(text) ? store : new Secret(text, { isOrdinary: true })
    return { kind: 'redis', url, sentinels }
  }
  return { kind: 'folder', path: resolve(owner.directory, text), sentinels }
}

/** The default folder of the store: next to the file, or in the state folder of the user. */
export function defaultStoreFolder({ file, directory, upstreams }: StoreOwner, env: Environment): string {
  if (file !== undefined) {
    const beside = join(directory, '.gatehouse')
    if (isWritable(existsSync(beside) ? beside : directory)) return beside
  }
  const name = createHash('sha256')
    .update(file ?? JSON.stringify(upstreams))
    .digest('hex')
  return join(userFolder('state', env), 'gatehouse', name.slice(0, 16))
}

/** The folder with the markers by which a loss of data in the stores of this user is detected. */
function sentinelFolder(env: Environment): string {
  return join(userFolder('state', env), 'gatehouse', 'stores')
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK)
    return true
  } catch {
    return false
  }
}

/** Checks whether `store` can be a store: its folder, or its URL. */
export function checkStore(store: unknown, directory: string): Findings {
  return { problems: atValue(['store'], storeProblem(store, directory)), warnings: [] }
}

function storeProblem(store: unknown, directory: string): string | undefined {
  if (typeof store !== 'string' || store === 'memory') return undefined
  if (isRedisUrl(store)) return redisProblem(store)
  const place = placeAt(resolve(directory, store))
  if (place === 'nothing' || place === 'directory') return undefined
  if (place === 'other') return 'this is a file: give a folder, which is created if it does not exist'
  return `this folder cannot be read: ${place.hidden}`
}

function redisProblem(text: string): string | undefined {
  try {
    readRedisUrl(text)
    return undefined
  } catch (error) {
    return error instanceof Error ? error.message : String(error)
  }
}

/** The section `store`, and the default folder. */
import { createHash } from 'node:crypto'
import { accessSync, constants, existsSync } from 'node:fs'
import { join } from 'node:path'
import type { JsonSchema } from '../../core/schema/schema.ts'
import type { Environment } from '../secrets.ts'
import { userFolder } from '../user-folders.ts'

/** The JSON Schema of `store`. */
export const storeSchema: JsonSchema = {
  type: 'string',
  pattern: '^(memory|rediss?://\\S+|\\..*|/.*|[A-Za-z]:[\\\\/].*)$',
  'x-secret': true,
  errorMessage:
    'must be memory, the path of a folder such as ./state, or the URL of a Redis or Valkey server such as redis://127.0.0.1:6379',
  description:
    'Where durable state is stored: in a folder, which several gateways on one machine may share (default: `.gatehouse` next to the file, or a folder of the user if that is not writable), in memory, or in Redis or Valkey (6 or later), shared by several machines. With a folder or memory, each gateway counts rates separately. While Redis is unavailable, each gateway counts rates separately, with the full limits, and `/ready` reports it; everything else that needs the store fails.',
  examples: ['./state', 'memory', 'redis://127.0.0.1:6379', '${REDIS_URL}'],
}

/** What identifies a default store: a configuration file, or the servers of a command line. */
interface StoreOwner {
  readonly file?: string
  readonly directory: string
  readonly upstreams: unknown
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
export function sentinelFolder(env: Environment): string {
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

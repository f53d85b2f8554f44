/** The section `store`, and the default folder. */
import { createHash } from 'node:crypto'
import { accessSync, constants, existsSync } from 'node:fs'
import { homedir, platform } from 'node:os'
import { join } from 'node:path'
import type { JsonSchema } from '../../core/schema/schema.ts'
import type { Environment } from '../secrets.ts'

/** The JSON Schema of `store`. */
export const storeSchema: JsonSchema = {
  type: 'string',
  pattern: '^(memory|rediss?://\\S+|\\..*|/.*|[A-Za-z]:[\\\\/].*)$',
  'x-secret': true,
  errorMessage:
    'must be memory, the path of a folder such as ./state, or the URL of a Redis or Valkey server such as redis://127.0.0.1:6379',
  description:
    'Where what outlives a call is kept: in a folder, which several gateways of one machine may share (by default `.gatehouse` beside the file, or a folder of the user where that cannot be written to), in this process alone, or in Redis or Valkey (6 or later) that several machines share. In a folder and in memory each gateway counts rates by itself. While Redis is away, each gateway counts rates by itself, as if the limits were for it alone, and `/ready` says so; what else needs the store fails.',
  examples: ['./state', 'memory', 'redis://127.0.0.1:6379', '${REDIS_URL}'],
}

/** What a store of its own is for: a configuration file in a folder, or the servers of a command line. */
interface StoreOwner {
  readonly file?: string
  readonly directory: string
  readonly upstreams: unknown
}

/** Where the store is where nothing is said of it: beside the file, or with what else programs keep for the user. */
export function defaultStoreFolder({ file, directory, upstreams }: StoreOwner, env: Environment): string {
  if (file !== undefined) {
    const beside = join(directory, '.gatehouse')
    if (isWritable(existsSync(beside) ? beside : directory)) return beside
  }
  const name = createHash('sha256')
    .update(file ?? JSON.stringify(upstreams))
    .digest('hex')
  return join(stateFolder(env), 'gatehouse', name.slice(0, 16))
}

/** Where it is remembered what the stores of this user promised, wherever they are. */
export function sentinelFolder(env: Environment): string {
  return join(stateFolder(env), 'gatehouse', 'stores')
}

function stateFolder({ XDG_STATE_HOME: state, LOCALAPPDATA: local }: Environment): string {
  // XDG Base Directory Specification: a path that is not absolute is ignored.
  if (state?.startsWith('/') === true) return state
  if (platform() === 'darwin') return join(homedir(), 'Library', 'Application Support')
  if (platform() === 'win32') return local ?? join(homedir(), 'AppData', 'Local')
  return join(homedir(), '.local', 'state')
}

function isWritable(folder: string): boolean {
  try {
    accessSync(folder, constants.W_OK | constants.X_OK)
    return true
  } catch {
    return false
  }
}

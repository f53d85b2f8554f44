/**
 * Opens the store of gateways for commands of other processes, which inspect, copy and repair it. Only the store that is
 * configured is loaded.
 */
import type { Log } from '../core/log.ts'
import type { StoreSettings } from '../core/settings.ts'
import { forgetGeneration, looksUsable } from './lmdb/files.ts'
import type { RedisStore } from './redis/store.ts'
import { Sentinel } from './sentinel.ts'
import type { PortableStore } from './store.ts'

/** Settings of a store that outlives the process. */
type LastingSettings = Exclude<StoreSettings, { readonly kind: 'memory' }>

type RedisSettings = StoreSettings & { readonly kind: 'redis' }

/** Whether a cheap check shows that a store may be impossible to open. */
export function mayBeUnusable(settings: StoreSettings): boolean {
  if (settings.kind !== 'folder') return false
  const { path, sentinels } = settings
  return !looksUsable(path, new Sentinel(sentinels, path).read(Date.now()) !== undefined)
}

/** Opens a store that can be inspected and copied. */
export async function openPortable(settings: LastingSettings, log: Log): Promise<PortableStore> {
  if (settings.kind === 'redis') return openRedis(settings, log)
  const { LmdbStore } = await import('./lmdb/store.ts')
  return new LmdbStore(settings.path, log, { sentinels: settings.sentinels })
}

async function openRedis({ url, sentinels }: RedisSettings, log: Log): Promise<RedisStore> {
  const { RedisStore } = await import('./redis/store.ts')
  return new RedisStore(url, log, { sentinels })
}

/** Makes gateways accept the current content of a Redis in place of lost data; returns whether any was lost. */
export async function acceptRedisLoss(settings: RedisSettings, log: Log): Promise<boolean> {
  const store = await openRedis(settings, log)
  try {
    await store.opened()
    return await store.accept()
  } finally {
    await store.close()
  }
}

/**
 * Makes a store accept its current content in place of lost data. Gateways that use the folder have to be
 * restarted.
 */
export function acceptLoss({ path, sentinels }: StoreSettings & { readonly kind: 'folder' }): void {
  forgetGeneration(path)
  new Sentinel(sentinels, path).forget()
}

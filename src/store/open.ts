import type { Log } from '../core/log.ts'
import type { StoreSettings } from '../core/settings.ts'
import { MemoryStore } from './memory.ts'
import { RedisStore } from './redis.ts'
import type { Store } from './store.ts'

/** Whether two configured stores are one. */
export function isSameStore(one: StoreSettings, other: StoreSettings): boolean {
  if (one.kind === 'memory' || other.kind === 'memory') return one.kind === other.kind
  return one.url.reveal() === other.url.reveal()
}

/** Opens the configured store. It connects by itself, and again where it loses its connection. */
export function openStore(settings: StoreSettings, log: Log): Store {
  return settings.kind === 'memory' ? new MemoryStore() : new RedisStore(settings.url, log)
}

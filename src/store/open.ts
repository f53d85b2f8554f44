/** Opens the configured store, and keeps a replaced one open until the calls that use it have ended. */
import type { Log } from '../core/log.ts'
import type { StoreSettings } from '../core/settings.ts'
import { within } from '../core/time/waiting.ts'
import { forgetGeneration } from './lmdb/files.ts'
import { looksUsable } from './lmdb/open.ts'
import { LmdbStore } from './lmdb/store.ts'
import { MemoryStore } from './memory.ts'
import { RedisStore } from './redis/store.ts'
import type { Portable, Store } from './store.ts'
import { Sentinel } from './sentinel.ts'

/** Settings of a store that outlives the process. */
type LastingSettings = Exclude<StoreSettings, { readonly kind: 'memory' }>

/** Whether two configured stores are one. */
export function isSameStore(one: StoreSettings, other: StoreSettings): boolean {
  if (one.kind === 'redis' && other.kind === 'redis') return one.url.reveal() === other.url.reveal()
  if (one.kind === 'folder' && other.kind === 'folder') return one.path === other.path
  return one.kind === other.kind
}

/** Whether a glance, which costs next to nothing, tells that a store may be impossible to open. */
export function isDoubtful(settings: StoreSettings): boolean {
  if (settings.kind !== 'folder') return false
  const { path, sentinels } = settings
  return !looksUsable(path, new Sentinel(sentinels, path).read(Date.now()) !== undefined)
}

/** Opens the configured store. It connects by itself, and again where it loses its connection. */
export function openStore(settings: StoreSettings, log: Log): Store {
  return settings.kind === 'memory' ? new MemoryStore() : openPortable(settings, log)
}

/** Opens a store that others can look into. */
export function openPortable(settings: LastingSettings, log: Log): Portable {
  if (settings.kind === 'redis') return new RedisStore(settings.url, log, settings.sentinels)
  return new LmdbStore(settings.path, log, { sentinels: settings.sentinels })
}

/** Has gateways go on with what is in a Redis, in place of what was promised and lost; whether anything was. */
export async function acceptRedisLoss(
  { url, sentinels }: StoreSettings & { readonly kind: 'redis' },
  log: Log,
): Promise<boolean> {
  const store = new RedisStore(url, log, sentinels)
  try {
    await store.opened()
    return await store.accept()
  } finally {
    await store.close()
  }
}

/**
 * Has a store go on with what is there, in place of what it promised and lost. Gateways that use a folder have to be
 * started again.
 */
export function acceptLoss({ path, sentinels }: StoreSettings & { readonly kind: 'folder' }): void {
  forgetGeneration(path)
  new Sentinel(sentinels, path).forget()
}

/** How long calls under way keep a store that is not the configured one any more, in milliseconds. */
const RETIREMENT_TIMEOUT_MS = 600_000

/** Stores that others replaced: calls that began with them end there. Each is closed after a while. */
export class RetiredStores {
  readonly #closing = Promise.withResolvers<void>()
  readonly #open = new Set<Promise<void>>()
  readonly #onClosed: (store: Store) => void

  constructor(onClosed: (store: Store) => void) {
    this.#onClosed = onClosed
  }

  /** Resolves once it is closed. */
  async retire(store: Store): Promise<void> {
    const closed = this.#closeLater(store)
    this.#open.add(closed)
    try {
      await closed
    } finally {
      this.#open.delete(closed)
    }
  }

  /** Closes those that are open still. */
  async close(): Promise<void> {
    this.#closing.resolve()
    await Promise.allSettled(this.#open)
  }

  async #closeLater(store: Store): Promise<void> {
    await within(this.#closing.promise, RETIREMENT_TIMEOUT_MS, undefined)
    try {
      await store.close()
    } finally {
      this.#onClosed(store)
    }
  }
}

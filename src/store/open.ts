/** Opens the configured store, and keeps a replaced one open until the calls that use it have ended. */
import type { Log } from '../core/log.ts'
import type { StoreSettings } from '../core/settings.ts'
import { within } from '../core/time/waiting.ts'
import { forgetGeneration } from './lmdb/files.ts'
import { looksUsable } from './lmdb/open.ts'
import { LmdbStore } from './lmdb/store.ts'
import { MemoryStore } from './memory.ts'
import { RedisStore } from './redis/store.ts'
import type { PortableStore, Store } from './store.ts'
import { Sentinel } from './sentinel.ts'

/** Settings of a store that outlives the process. */
type LastingSettings = Exclude<StoreSettings, { readonly kind: 'memory' }>

/** Whether two configurations refer to the same store. */
export function isSameStore(one: StoreSettings, other: StoreSettings): boolean {
  if (one.kind === 'redis' && other.kind === 'redis') return one.url.reveal() === other.url.reveal()
  if (one.kind === 'folder' && other.kind === 'folder') return one.path === other.path
  return one.kind === other.kind
}

/** Whether a cheap check shows that a store may be impossible to open. */
export function mayBeUnusable(settings: StoreSettings): boolean {
  if (settings.kind !== 'folder') return false
  const { path, sentinels } = settings
  return !looksUsable(path, new Sentinel(sentinels, path).read(Date.now()) !== undefined)
}

/** Opens the configured store. It connects and reconnects in the background. */
export function openStore(settings: StoreSettings, log: Log): Store {
  return settings.kind === 'memory' ? new MemoryStore() : openPortable(settings, log)
}

/** Opens a store that can be inspected and copied. */
export function openPortable(settings: LastingSettings, log: Log): PortableStore {
  if (settings.kind === 'redis') return new RedisStore(settings.url, log, settings.sentinels)
  return new LmdbStore(settings.path, log, { sentinels: settings.sentinels })
}

/** Makes gateways accept the current content of a Redis in place of lost data; returns whether any was lost. */
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
 * Makes a store accept its current content in place of lost data. Gateways that use the folder have to be
 * restarted.
 */
export function acceptLoss({ path, sentinels }: StoreSettings & { readonly kind: 'folder' }): void {
  forgetGeneration(path)
  new Sentinel(sentinels, path).forget()
}

/** How long in-flight calls keep a replaced store open, in milliseconds. */
const RETIREMENT_TIMEOUT_MS = 600_000

/** Replaced stores, kept open for the calls that started with them. Each is closed after a timeout. */
export class RetiredStores {
  readonly #closing = Promise.withResolvers<void>()
  readonly #open = new Set<Promise<void>>()
  readonly #onClosed: (store: Store) => void

  constructor(onClosed: (store: Store) => void) {
    this.#onClosed = onClosed
  }

  /** Resolves once the store is closed. */
  async retire(store: Store): Promise<void> {
    const closed = this.#closeLater(store)
    this.#open.add(closed)
    try {
      await closed
    } finally {
      this.#open.delete(closed)
    }
  }

  /** Closes those that are still open. */
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

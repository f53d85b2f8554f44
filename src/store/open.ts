/** Opens the configured store, and keeps a replaced one open until the calls that use it have ended. */
import type { Log } from '../core/log.ts'
import type { StoreSettings } from '../core/settings.ts'
import { within } from '../core/time/waiting.ts'
import { LmdbStore } from './lmdb/store.ts'
import { MemoryStore } from './memory.ts'
import { RedisStore } from './redis/store.ts'
import type { Store } from './store.ts'

/** Whether two configurations refer to the same store. */
export function isSameStore(one: StoreSettings, other: StoreSettings): boolean {
  if (one.kind === 'redis' && other.kind === 'redis') return one.url.reveal() === other.url.reveal()
  if (one.kind === 'folder' && other.kind === 'folder') return one.path === other.path
  return one.kind === other.kind
}

/** Opens the configured store. It connects and reconnects in the background. */
export function openStore(settings: StoreSettings, log: Log): Store {
  if (settings.kind === 'memory') return new MemoryStore()
  if (settings.kind === 'redis')
    return new RedisStore(settings.url, log, { sentinels: settings.sentinels, isWarning: true })
  return new LmdbStore(settings.path, log, { sentinels: settings.sentinels })
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

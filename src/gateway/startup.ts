/** Connects to every server at startup, once the store is ready, and reports inconsistencies. */
import type { Finding } from '../core/finding.ts'
import type { Log } from '../core/log.ts'
import type { Settings } from '../core/settings.ts'
import type { Store } from '../store/store.ts'
import { type Runtime, startUp } from './runtime.ts'

/**
 * Connects to the store and to each server. A folder must be usable before the gateway serves; Redis may be
 * temporarily unavailable.
 */
export async function startWithStore(runtime: Runtime, store: Store, log: Log): Promise<readonly Finding[]> {
  const starting = startUp(runtime, log)
  // Awaited below, unless the store has a problem.
  starting.catch(() => undefined)
  const problem = await problemOf(store, runtime.settings)
  return problem === undefined ? starting : [{ path: ['store'], message: problem }]
}

/** Waits until a store is open. @throws Error if it is a folder that cannot be used; the store is closed then */
export async function openedStore(store: Store, settings: Settings): Promise<Store> {
  const problem = await problemOf(store, settings)
  if (problem === undefined) return store
  await store.close()
  throw new Error(`store: ${problem}`)
}

/** Why the folder of a store cannot be used. Redis may be temporarily unavailable. */
async function problemOf(store: Store, settings: Settings): Promise<string | undefined> {
  await store.opened?.()
  return settings.store.kind === 'folder' ? store.unavailableReason : undefined
}

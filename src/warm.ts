import { type Runtime, startUp } from './build.ts'
import type { Finding } from './core/finding.ts'
import type { Log } from './core/log.ts'
import type { Settings } from './core/settings.ts'
import type { Store } from './store/store.ts'

/**
 * Reaches the store and each server once. What is kept in a folder has to be there before anything is promised;
 * Redis may be away for a while.
 */
export async function startWithStore(built: Runtime, store: Store, log: Log): Promise<readonly Finding[]> {
  const warming = startUp(built, log)
  // It is looked at below, unless the store is in the way.
  warming.catch(() => undefined)
  const problem = await problemOf(store, built.settings)
  return problem === undefined ? warming : [{ path: ['store'], message: problem }]
}

/** A store once it is open. @throws Error where it is a folder that can not be used; it is closed then */
export async function usable(store: Store, settings: Settings): Promise<Store> {
  const problem = await problemOf(store, settings)
  if (problem === undefined) return store
  await store.close()
  throw new Error(`store: ${problem}`)
}

/** Why the folder of a store can not be used, once that is known. Redis may be away for a while. */
async function problemOf(store: Store, settings: Settings): Promise<string | undefined> {
  await store.opened?.()
  return settings.store.kind === 'folder' ? store.unavailableReason : undefined
}

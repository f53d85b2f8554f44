import { type Built, warmUp } from './build.ts'
import type { Finding } from './core/finding.ts'
import type { Log } from './core/log.ts'
import type { Store } from './store/store.ts'

/**
 * Reaches the store and each server once. What is kept in a folder has to be there before anything is promised;
 * Redis may be away for a while.
 */
export async function warmUpWithStore(built: Built, store: Store, log: Log): Promise<readonly Finding[]> {
  const warming = warmUp(built, log)
  // It is looked at below, unless the store is in the way.
  warming.catch(() => undefined)
  await store.opened?.()
  const { problem } = store
  if (built.settings.store.kind === 'folder' && problem !== undefined)
    return [{ path: ['store'], message: problem }]
  return warming
}

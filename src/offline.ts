import type { Log } from './core/log.ts'
import type { Settings } from './core/settings.ts'
import { openStore } from './store/open.ts'
import type { Store } from './store/store.ts'

/** The store of gateways that may be running, for a command. @throws Error where it is forgotten with its process */
export async function openSharedStore({ store: settings }: Settings, log: Log): Promise<Store> {
  if (settings.kind === 'memory')
    throw new Error(
      'store: memory is forgotten with the process that has it, so nothing can be seen from here. Remove it for the default, a folder, or name Redis',
    )
  const store = openStore(settings, log)
  await store.opened?.()
  if (store.problem === undefined) return store
  const { problem } = store
  await store.close()
  throw new Error(`the store can not be used: ${problem}`)
}

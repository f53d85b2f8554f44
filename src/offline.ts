import type { Log } from './core/log.ts'
import type { Settings } from './core/settings.ts'
import { openPortable } from './store/open.ts'
import type { Portable } from './store/store.ts'

/** The store of gateways that may be running, for a command. @throws Error where it is forgotten with its process */
export async function openSharedStore({ store: settings }: Settings, log: Log): Promise<Portable> {
  if (settings.kind === 'memory')
    throw new Error(
      'store: memory is forgotten with the process that has it, so nothing can be seen from here. Remove it for the default, a folder, or name Redis',
    )
  const store = openPortable(settings, log)
  await store.opened?.()
  const { problem } = store
  if (problem === undefined) return store
  await store.close()
  throw new Error(settings.kind === 'folder' ? problem : `the store can not be used: ${problem}`)
}

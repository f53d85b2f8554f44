/** The store and the audit log for commands that run without a gateway. */
import type { Log } from '../core/log.ts'
import type { Settings } from '../core/settings.ts'
import { Audit } from '../observability/audit/audit.ts'
import { acceptLoss, acceptRedisLoss, mayBeUnusable, openPortable } from '../store/open.ts'
import type { PortableStore } from '../store/store.ts'

export type { Audit }
export { anchorsIn } from './startup.ts'
export { verifyAudit } from '../observability/audit/verify.ts'

/** Whether the store has to be opened to know that it can be: usually it opens later, at the first use. */
export function isStoreDoubtful({ store }: Settings): boolean {
  return mayBeUnusable(store)
}

/**
 * Has a store go on with what is there, where what it promised is gone. Whether there was anything to accept.
 * @throws Error where it is forgotten with its process, or cannot be used even so
 */
export async function acceptStore(settings: Settings, log: Log): Promise<boolean> {
  const { store } = settings
  if (store.kind === 'redis') return acceptRedisLoss(store, log)
  if (store.kind === 'folder') {
    const before = openPortable(store, log)
    await before.opened?.()
    const { unavailableReason: problem } = before
    await before.close()
    if (problem === undefined) return false
    acceptLoss(store)
  }
  const opened = await openSharedStore(settings, log)
  await opened.close()
  return true
}

/** The store of gateways that may be running, for a command. @throws Error where it is forgotten with its process */
export async function openSharedStore({ store: settings }: Settings, log: Log): Promise<PortableStore> {
  if (settings.kind === 'memory')
    throw new Error(
      'store: memory is forgotten with the process that has it, so nothing can be seen from here. Remove it for the default, a folder, or name Redis',
    )
  const store = openPortable(settings, log)
  await store.opened?.()
  const { unavailableReason: problem } = store
  if (problem === undefined || store.canRead === true) return store
  await store.close()
  throw new Error(settings.kind === 'folder' ? problem : `the store cannot be used: ${problem}`)
}

/**
 * Does what stands in the audit log of the gateways, where they keep one: it is open before anything is done. While a
 * gateway writes to its file, this one has a file of its own beside it. @throws Error where it cannot be opened
 */
export async function audited<Result>(
  { observe: { audit: settings } }: Settings,
  log: Log,
  act: (audit: Audit | undefined) => Promise<Result>,
): Promise<Result> {
  const audit = settings && new Audit(settings, log)
  try {
    return await act(audit)
  } finally {
    await audit?.close()
  }
}

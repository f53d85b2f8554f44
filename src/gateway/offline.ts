/**
 * The store and the audit log for commands that run without a gateway. Such a command loads this file in place of the
 * gateway, so it imports little, and the rest on demand.
 */
import type { Log } from '../core/log.ts'
import type { Settings } from '../core/settings.ts'
import type { Audit } from '../observability/audit/audit.ts'
import { acceptLoss, acceptRedisLoss, mayBeUnusable, openPortable } from '../store/portable.ts'
import type { PortableStore } from '../store/store.ts'

/** Whether the store must be opened at startup to know that it is usable; normally it opens at the first use. */
export function mayStoreBeUnusable({ store }: Pick<Settings, 'store'>): boolean {
  return mayBeUnusable(store)
}

/**
 * Accepts the current content of a store that lost data. Returns whether there was a loss to accept.
 * @throws Error if the store is in memory, or cannot be used
 */
export async function acceptStore(settings: Pick<Settings, 'store'>, log: Log): Promise<boolean> {
  const { store } = settings
  if (store.kind === 'redis') return acceptRedisLoss(store, log)
  if (store.kind === 'folder') {
    const before = await openPortable(store, log)
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

/** Opens the store of gateways that may be running. @throws Error if the store is in memory, or cannot be used */
export async function openSharedStore(
  { store: settings }: Pick<Settings, 'store'>,
  log: Log,
): Promise<PortableStore> {
  if (settings.kind === 'memory')
    throw new Error(
      'store: memory exists only inside the process of the gateway, so a command cannot read it. Remove the setting to use the default, a folder, or use Redis',
    )
  const store = await openPortable(settings, log)
  await store.opened?.()
  const { unavailableReason: problem } = store
  if (problem === undefined || store.canRead === true) return store
  await store.close()
  throw new Error(settings.kind === 'folder' ? problem : `the store cannot be used: ${problem}`)
}

type AuditedSettings = { readonly observe: Pick<Settings['observe'], 'audit'> }

/**
 * Opens the audit log, if one is configured. While a gateway writes to the file, this process writes to a separate file next
 * to it. @throws Error if the log cannot be opened
 */
export async function openAudit(
  { observe: { audit: settings } }: AuditedSettings,
  log: Log,
): Promise<Audit | undefined> {
  return settings && new (await import('../observability/audit/audit.ts')).Audit(settings, log)
}

/** Runs `act` with the audit log, if one is configured, opened first. @throws Error if the log cannot be opened */
export async function audited<Result>(
  settings: AuditedSettings,
  log: Log,
  act: (audit: Audit | undefined) => Promise<Result>,
): Promise<Result> {
  const audit = await openAudit(settings, log)
  try {
    return await act(audit)
  } finally {
    await audit?.close()
  }
}

/** Reaches every server once at start, when the store is ready, and reports what does not fit together. */
import { hostname } from 'node:os'
import type { Finding } from '../core/finding.ts'
import type { Log } from '../core/log.ts'
import type { Settings } from '../core/settings.ts'
import { type Anchors, createAnchors } from '../observability/audit/anchor.ts'
import { type Store, FOREVER } from '../store/store.ts'
import { type Runtime, startUp } from './runtime.ts'

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

/** A store once it is open. @throws Error where it is a folder that cannot be used; it is closed then */
export async function usable(store: Store, settings: Settings): Promise<Store> {
  const problem = await problemOf(store, settings)
  if (problem === undefined) return store
  await store.close()
  throw new Error(`store: ${problem}`)
}

/** Why the folder of a store cannot be used, once that is known. Redis may be away for a while. */
async function problemOf(store: Store, settings: Settings): Promise<string | undefined> {
  await store.opened?.()
  return settings.store.kind === 'folder' ? store.unavailableReason : undefined
}

// Joins audit logs and the store: where the head of a log is kept besides its files, for the gateway that writes it and for
// the command that verifies it. Both name a log alike, or the command finds nothing.

/** The heads of audit logs in a store; undefined where the store is forgotten with its process. */
export function anchorsIn(
  { store: { kind } }: Pick<Settings, 'store'>,
  store: () => Pick<Store, 'get' | 'put'>,
): Anchors | undefined {
  if (kind === 'memory') return undefined
  // A folder is of one machine, whatever that is called today.
  return createAnchors(store, { host: kind === 'redis' ? hostname() : '', ttl: FOREVER })
}

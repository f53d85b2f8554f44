/**
 * Joins audit logs and the store: where the head of a log is kept besides its files, for the gateway that writes it and for
 * the command that verifies it. Both name a log alike, or the command finds nothing.
 */
import { hostname } from 'node:os'
import type { Settings } from './core/settings.ts'
import { type Anchors, createAnchors } from './observe/audit-anchor.ts'
import { FOREVER, type Store } from './store/store.ts'

/** The heads of audit logs in a store; undefined where the store is forgotten with its process. */
export function anchorsIn(
  { store: { kind } }: Pick<Settings, 'store'>,
  store: () => Pick<Store, 'get' | 'put'>,
): Anchors | undefined {
  if (kind === 'memory') return undefined
  // A folder is of one machine, whatever that is called today.
  return createAnchors(store, { host: kind === 'redis' ? hostname() : '', ttl: FOREVER })
}

/** Connects to every server at startup, once the store is ready, and reports inconsistencies. */
import type { Finding } from '../core/finding.ts'
import { background, type Log } from '../core/log.ts'
import type { Settings } from '../core/settings.ts'
import { ownCall } from '../protocol/lift.ts'
import type { Store } from '../store/store.ts'
import { startServers } from '../upstream/upstream.ts'
import type { Runtime } from './runtime.ts'

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

/** Connects to each server once. Resolves with the settings that contradict what the servers list. */
async function startUp({ upstreams, catalog, active, names, ended }: Runtime, log: Log): Promise<Finding[]> {
  const call = ownCall()
  await startServers(upstreams.values(), call, {
    ended: ended.signal,
    onReached: (upstream) => background(names.again(upstream), log),
    log,
  })
  const collisions = await catalog.collisions(call)
  const problems = await Promise.all([
    names.all(),
    ...active.map(async ({ instance }) => (await instance.problems?.()) ?? []),
  ])
  // A feature that cannot start because the store is unavailable does not prevent serving.
  if (!ended.signal.aborted)
    for (const { instance } of active) if (instance.start) background(instance.start(), log)
  return [...collisions, ...problems.flat()]
}

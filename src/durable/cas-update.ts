/** Changes a value of the store by compare-and-swap until it succeeds. */
import { pause } from '../core/time/waiting.ts'
import { world } from '../core/world.ts'
import type { Store } from '../store/store.ts'

/** The decision about a value: the result to return, and the new value if it changes. */
export interface CasUpdate<Result> {
  readonly result: Result
  /** `ttl` is in milliseconds. */
  readonly write?: { readonly text: string; readonly ttl: number } | 'remove' | undefined
}

/** What a change needs of a store. */
type CasStore = Pick<Store, 'get' | 'setIfAbsent' | 'compareAndSwap' | 'compareAndDelete'>

/** How often a change is attempted that loses against concurrent ones, and how often without waiting. */
const MAX_ATTEMPTS = 100
const EAGER_ATTEMPTS = 20
/** The longest wait before a later attempt, in milliseconds; it is random, so that others do not attempt at the same time. */
const MAX_WAIT_MS = 10

/**
 * Changes a value that others may change concurrently: after a lost race, `decide` runs again on the new value. The
 * write is durable once this resolves. `onBusy` returns a result, or throws, if every attempt lost.
 */
export async function casUpdate<Result>(
  store: CasStore,
  key: string,
  decide: (text: string | undefined) => CasUpdate<Result> | Promise<CasUpdate<Result>>,
  onBusy: () => Result,
): Promise<Result> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    if (attempt >= EAGER_ATTEMPTS) await pause(1 + Math.floor(world.random() * MAX_WAIT_MS))
    const before = await store.get(key)
    const { result, write } = await decide(before)
    if (!write || (await isWritten(store, key, before, write))) return result
  }
  return onBusy()
}

/**
 * The same for a value that was seen before, or that there was none, without reading it first: it costs one access if that is still
 * so. What `decide` throws or does not write counts only for a value that was read.
 */
export async function casUpdateSeen<Result>(
  store: CasStore,
  key: string,
  seen: string | undefined,
  decide: (text: string | undefined) => CasUpdate<Result> | Promise<CasUpdate<Result>>,
): Promise<{ readonly result: Result } | undefined> {
  let decided: CasUpdate<Result>
  try {
    decided = await decide(seen)
  } catch {
    return undefined
  }
  const { result, write } = decided
  return write && (await isWritten(store, key, seen, write)) ? { result } : undefined
}

async function isWritten(
  store: CasStore,
  key: string,
  before: string | undefined,
  write: NonNullable<CasUpdate<unknown>['write']>,
): Promise<boolean> {
  if (write === 'remove') return before === undefined || store.compareAndDelete(key, before)
  if (before === undefined) return (await store.setIfAbsent(key, write.text, write.ttl)) === undefined
  return store.compareAndSwap(key, before, write.text, write.ttl)
}

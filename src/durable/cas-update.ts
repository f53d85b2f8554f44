/** Changes a value of the store by compare-and-swap until it succeeds. */
import type { Store } from '../store/store.ts'

/** The decision about a value: the result to return, and the new value if it changes. */
export interface CasUpdate<Result> {
  readonly result: Result
  /** `ttl` is in milliseconds. */
  readonly write?: { readonly text: string; readonly ttl: number } | undefined
}

/** How often a change is attempted that loses against concurrent ones. */
const MAX_ATTEMPTS = 100

/**
 * Changes a value that others may change concurrently: after a lost race, `decide` runs again on the new value. The
 * write is durable once this resolves. `onBusy` returns a result, or throws, if every attempt lost.
 */
export async function casUpdate<Result>(
  store: Store,
  key: string,
  decide: (text: string | undefined) => CasUpdate<Result>,
  onBusy: () => Result,
): Promise<Result> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const before = await store.get(key)
    const { result, write } = decide(before)
    if (!write) return result
    const isWritten =
      before === undefined
        ? (await store.setIfAbsent(key, write.text, write.ttl)) === undefined
        : await store.compareAndSwap(key, before, write.text, write.ttl)
    if (isWritten) return result
  }
  return onBusy()
}

/** Changes a value of the store by compare-and-swap until it succeeds. */
import type { Store } from '../store/store.ts'

/** What comes of a look at a value: what to tell, and what the value becomes, where it becomes another. */
export interface CasUpdate<Told> {
  readonly result: Told
  /** `ttl` is in milliseconds. */
  readonly write?: { readonly text: string; readonly ttl: number } | undefined
}

/** How often a change is tried that others come before. */
const MAX_ATTEMPTS = 100

/**
 * Changes a value that others may change at the same time: where one comes between, it is looked at anew. What was
 * written is durable once this resolves. `busy` tells, or throws, where others came first every time.
 */
export async function casUpdate<Told>(
  store: Store,
  key: string,
  look: (text: string | undefined) => CasUpdate<Told>,
  busy: () => Told,
): Promise<Told> {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
    const before = await store.get(key)
    const { result: told, write } = look(before)
    if (!write) return told
    const isWritten =
      before === undefined
        ? (await store.setIfAbsent(key, write.text, write.ttl)) === undefined
        : await store.compareAndSwap(key, before, write.text, write.ttl)
    if (isWritten) return told
  }
  return busy()
}

/**
 * Follows a value in the store that this or another process changes (`Store.watch`): one reader for each, at most one read at a
 * time, and one more if the value changed meanwhile. A read that fails is repeated, so what happened last is always learned.
 */
import { pause } from '../core/time/waiting.ts'
import type { Store } from '../store/store.ts'

/** The pause after a read that failed, in milliseconds. */
const RETRY_DELAY_MS = 1000

/**
 * Has `read` called when the value of a key may have changed, and once at the beginning, until the returned function is called.
 * What it throws is not reported: the store reports itself that it is away.
 */
export function whenChanged(
  store: Pick<Store, 'watch'>,
  key: string,
  read: () => Promise<unknown>,
): () => void {
  let isEnded = false
  let isReading = false
  let isDue = false
  const run = async (): Promise<void> => {
    isDue = true
    if (isReading) return
    isReading = true
    while (isDue && !isEnded) {
      isDue = false
      try {
        await read()
      } catch {
        await pause(RETRY_DELAY_MS)
        isDue = true
      }
    }
    isReading = false
  }
  const unwatch = store.watch(key, () => void run())
  return () => {
    isEnded = true
    unwatch()
  }
}

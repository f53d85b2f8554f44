import { untilAborted } from '../../core/waiting.ts'

/** Runs what has the same key one after the other, unless the signal is aborted before its turn. */
export type Queue = <Value>(key: string, signal: AbortSignal, run: () => Promise<Value>) => Promise<Value>

/** Makes a queue. */
export function createQueue(): Queue {
  const tails = new Map<string, Promise<void>>()
  return async (key, signal, run) => {
    const before = tails.get(key)
    let leave = (): void => undefined
    const left = new Promise<void>((resolve) => (leave = resolve))
    const tail = before ? before.then(() => left) : left
    tails.set(key, tail)
    try {
      if (before) await untilAborted(before, signal)
      return await run()
    } finally {
      leave()
      // The last one takes the key away.
      if (tails.get(key) === tail) void tail.then(() => tails.get(key) === tail && tails.delete(key))
    }
  }
}

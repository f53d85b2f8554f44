/** A keyed call takes effect at most once while its key is remembered, and only one call does with a key. */
import { MAX_SKEW_MS } from '../faults.ts'
import type { Entry, Operation } from '../history.ts'
import { LONG_TTL_MS } from '../workload.ts'
import { type CreateRule, keyOf } from './rule.ts'

interface Known {
  readonly operation: Operation
  attempts: number
  readonly effects: Entry[]
}

interface Key {
  readonly firstInvokedAt: number
  /** The shortest time for which one of the calls asked the key to be remembered. */
  ttl: number
  readonly orders: Map<string, number>
}

/** The rule. */
export const effectsOnce: CreateRule = () => {
  const known = new Map<string, Known>()
  const keys = new Map<string, Key>()
  return {
    name: 'effects-once',
    observe: (entry) => {
      if (entry.kind === 'invoke') {
        const { operation, at, ttl = LONG_TTL_MS } = entry
        const found = known.get(operation.order) ?? { operation, attempts: 0, effects: [] }
        found.attempts++
        known.set(operation.order, found)
        if (operation.key === undefined) return undefined
        const name = keyOf({ ...operation, key: operation.key })
        const key = keys.get(name) ?? { firstInvokedAt: at, ttl, orders: new Map() }
        key.ttl = Math.min(key.ttl, ttl)
        keys.set(name, key)
        return undefined
      }
      if (entry.kind !== 'effect' || entry.lie === 'answered without doing') return undefined
      const found = known.get(entry.order)
      if (!found) return undefined
      found.effects.push(entry)
      const { operation, attempts, effects } = found
      if (operation.isIdempotent) return undefined
      if (operation.key === undefined)
        return effects.length > attempts
          ? `order ${entry.order} was called ${attempts} times and done ${effects.length} times`
          : undefined
      const key = keys.get(keyOf({ ...operation, key: operation.key }))
      // Once it may have been forgotten, a key may be used again.
      if (!key || entry.at - key.firstInvokedAt > key.ttl - 2 * MAX_SKEW_MS) return undefined
      if (effects.length > 1) return `order ${entry.order} was done ${effects.length} times`
      key.orders.set(entry.order, entry.at)
      const others = [...key.orders.keys()].filter((order) => order !== entry.order)
      return others.length > 0
        ? `the key ${operation.key} did order ${entry.order} and order ${others.join(', ')}`
        : undefined
    },
  }
}

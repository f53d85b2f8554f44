/** What was answered under a key stays answered: the same call gets the same again, another call is refused. */
import { MAX_SKEW_MS } from '../faults.ts'
import type { Entry } from '../history.ts'
import { LONG_TTL_MS } from '../workload.ts'
import { type CreateRule, keyOf } from './rule.ts'

type ReplyEntry = Extract<Entry, { readonly kind: 'reply' }>

interface Answered {
  readonly firstInvokedAt: number
  ttl: number
  /** The calls that were made with the key. */
  readonly orders: Set<string>
  /** The first answer; one that the gateway marked as unrecorded need not stay. */
  answer?: ReplyEntry
}

/** The rule. */
export const answersStay: CreateRule = () => {
  const keys = new Map<string, Answered>()
  const invokedAt = new Map<number, number>()
  return {
    name: 'answers-stay',
    observe: (entry) => {
      if (entry.kind === 'invoke') {
        const { operation, at, attempt, ttl = LONG_TTL_MS } = entry
        if (operation.key === undefined) return undefined
        invokedAt.set(attempt, entry.step)
        const name = keyOf({ ...operation, key: operation.key })
        const known = keys.get(name) ?? { firstInvokedAt: at, ttl, orders: new Set() }
        known.ttl = Math.min(known.ttl, ttl)
        known.orders.add(operation.order)
        keys.set(name, known)
        return undefined
      }
      if (entry.kind !== 'reply' || entry.operation.key === undefined) return undefined
      const known = keys.get(keyOf({ ...entry.operation, key: entry.operation.key }))
      const invoked = invokedAt.get(entry.attempt) ?? 0
      invokedAt.delete(entry.attempt)
      if (!known || entry.at - known.firstInvokedAt > known.ttl - 2 * MAX_SKEW_MS) return undefined
      const { answer } = known
      if (entry.code === 'IDEMPOTENCY_CONFLICT' && known.orders.size === 1)
        return `order ${entry.operation.order} is refused for another call with the key ${entry.operation.key}, and there is none`
      if (!answer) {
        if (entry.type === 'ok' && !entry.isUnrecorded) known.answer = entry
        return undefined
      }
      return contradiction(answer, entry, invoked > answer.step)
    },
  }
}

function contradiction(answer: ReplyEntry, entry: ReplyEntry, isLater: boolean): string | undefined {
  const { order, key } = entry.operation
  const isSame = order === answer.operation.order
  if (entry.type === 'ok' && !isSame)
    return `the key ${key} of order ${answer.operation.order} also answered order ${order}`
  if (entry.type === 'ok' && entry.text !== answer.text)
    return `order ${order} was answered ${answer.text}, and then ${entry.text}`
  if (!isLater || !isSame) return undefined
  if (entry.type === 'ok' && !entry.wasReplay)
    return `order ${order} was answered before, and this answer is no replay`
  if (entry.code === 'OUTCOME_UNKNOWN')
    return `order ${order} was answered before, and its outcome is now unknown`
  return undefined
}

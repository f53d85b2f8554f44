/** A success has an effect, and it is that of this very call: no result of another call or caller. */
import type { CreateRule } from './rule.ts'

/** The rule. */
export const successHasEffect: CreateRule = () => {
  const done = new Map<string, Set<string>>()
  return {
    name: 'success-has-effect',
    observe: (entry) => {
      if (entry.kind === 'effect') {
        const ids = done.get(entry.order) ?? new Set()
        done.set(entry.order, ids.add(entry.id))
        return undefined
      }
      if (entry.kind !== 'reply' || entry.type !== 'ok' || entry.code !== undefined) return undefined
      const { order, amount, principal } = entry.operation
      const { said = [] } = entry
      const asked = [order, amount, JSON.stringify(principal)]
      for (const each of said) {
        const { id = 'nothing' } = each
        const answered = [each['order'], each['amount'], each['owner']]
        if (answered.join() !== asked.join())
          return `order ${order} (${asked.join()}) was answered with ${answered.join()}`
        if (done.get(order)?.has(id) !== true)
          return `order ${order} was answered with ${id}, which was not done`
      }
      return said.length === 0 ? `order ${order} was answered with nothing` : undefined
    },
  }
}

/** Without faults, every outcome is known. A gateway that stops in order is no fault. */
export const knownWithoutFaults: CreateRule = ({ drain: _drain, busy: _busy, work: _work, ...rates }) => {
  const isCalm = Object.values(rates).every((rate) => rate === 0)
  return {
    name: 'known-without-faults',
    observe: (entry) => {
      if (!isCalm || entry.kind !== 'reply') return undefined
      const { code, operation } = entry
      if (code === 'OUTCOME_UNKNOWN')
        return `nothing failed, and the outcome of order ${operation.order} is unknown`
      if (code === 'DISCONNECTED') return `nothing failed, and order ${operation.order} got no answer`
      return undefined
    },
  }
}

/** Nothing fails in a way that the gateway does not expect. */
export const noDefects: CreateRule = () => ({
  name: 'no-defects',
  observe: (entry) => {
    if (entry.kind === 'defect') return entry.what
    if (entry.kind === 'reply' && entry.code === 'INTERNAL_ERROR')
      return `order ${entry.operation.order} ended with INTERNAL_ERROR`
    return undefined
  },
})

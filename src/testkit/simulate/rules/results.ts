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
      const { order, principal } = entry.operation
      const { order: answered, owner, id } = entry.fields ?? {}
      if (answered !== order || owner !== principal)
        return `${order} of ${principal} was answered with ${String(answered)} of ${String(owner)}`
      return done.get(order)?.has(String(id))
        ? undefined
        : `${order} was answered with ${String(id)}, which was not done`
    },
  }
}

/** Without faults, every outcome is known. */
export const knownWithoutFaults: CreateRule = (rates) => {
  const isCalm = Object.values(rates).every((rate) => rate === 0)
  return {
    name: 'known-without-faults',
    observe: (entry) => {
      if (!isCalm || entry.kind !== 'reply' || entry.code !== 'OUTCOME_UNKNOWN') return undefined
      return `nothing failed, and the outcome of ${entry.operation.order} is unknown`
    },
  }
}

/** Nothing fails in a way that the gateway does not expect. */
export const noDefects: CreateRule = () => ({
  name: 'no-defects',
  observe: (entry) => {
    if (entry.kind === 'defect') return entry.what
    if (entry.kind === 'reply' && entry.code === 'INTERNAL_ERROR')
      return `${entry.operation.order} ended with INTERNAL_ERROR`
    return undefined
  },
})

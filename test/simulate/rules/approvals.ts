/** One approval opens one call. */
import type { CreateRule } from './rule.ts'

/** The tool that another person approves. */
const TOOL = 'delete_customer'

/** The rule. */
export const approvalOpensOne: CreateRule = () => {
  const approved = new Map<string, number>()
  const done = new Map<string, number>()
  return {
    name: 'approval-opens-one',
    observe: (entry) => {
      if (entry.kind === 'approval' && entry.verdict === 'approved')
        approved.set(entry.order, (approved.get(entry.order) ?? 0) + 1)
      if (entry.kind !== 'effect' || entry.tool !== TOOL || entry.lie === 'answered without doing')
        return undefined
      const count = (done.get(entry.order) ?? 0) + 1
      done.set(entry.order, count)
      const given = approved.get(entry.order) ?? 0
      return count > given
        ? `order ${entry.order} was done ${count} times and approved ${given} times`
        : undefined
    },
  }
}

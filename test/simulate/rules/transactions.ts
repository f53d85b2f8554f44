/**
 * Transactions end. Steps are undone in reverse order, unless the status says which are not. A committed one has the effects of all its steps that were answered; of a rolled back one nothing is
 * left, or it needs attention.
 */
import { isObject } from '../../../src/core/json/json.ts'
import type { Operation, Reply } from '../history.ts'
import type { CreateRule, FinalState } from './rule.ts'

interface Followed {
  readonly id: string
  /** The orders that a server undid, in the order in which it did. */
  readonly undone: string[]
  hasBegun: boolean
  /** The step operations, by order, and whether one was answered with success. */
  readonly steps: Map<string, { readonly operation: Operation; isAnswered: boolean }>
  committed: boolean
  rolledBack: boolean
  status?: Reply
}

const ended: ReadonlySet<unknown> = new Set(['committed', 'rolled_back', 'partially_rolled_back'])

/** The rule. */
export const transactionsEnd: CreateRule = () => {
  const all = new Map<string, Followed>()
  /** The operations of which a server did not answer what it did. */
  const lies = new Set<string>()
  const follow = (id: string): Followed => {
    const found = all.get(id) ?? {
      id,
      undone: [],
      hasBegun: false,
      steps: new Map(),
      committed: false,
      rolledBack: false,
    }
    all.set(id, found)
    return found
  }
  return {
    name: 'transactions-end',
    observe: (entry) => {
      if (entry.kind === 'effect' && entry.lie !== undefined) lies.add(entry.order)
      if (entry.kind === 'undone') {
        const holder = [...all.values()].find(({ steps }) => steps.has(entry.order))
        holder?.undone.push(entry.order)
      }
      if (entry.kind === 'reply' && entry.operation.transaction !== undefined) {
        const { order } = entry.operation
        const { steps } = follow(entry.operation.transaction)
        const isAnswered = entry.type === 'ok' && entry.code === undefined
        steps.set(order, {
          operation: entry.operation,
          isAnswered: isAnswered || steps.get(order)?.isAnswered === true,
        })
      }
      if (entry.kind !== 'transaction' || !entry.reply) return undefined
      const followed = follow(entry.transaction)
      const { verb, reply } = entry
      if (reply.type !== 'ok') return undefined
      if (verb === 'begin') followed.hasBegun = true
      if (verb === 'commit') followed.committed = true
      if (verb === 'rollback' && reply.result?.member('status') === 'rolled_back') followed.rolledBack = true
      if (verb === 'status') followed.status = reply
      return followed.committed && followed.rolledBack
        ? `${entry.transaction} was committed and rolled back`
        : undefined
    },
    finish: (state) => {
      for (const followed of all.values()) {
        const found = faultOf(followed, state, lies)
        if (found !== undefined) return `${followed.id}: ${found}`
      }
      return undefined
    },
  }
}

function faultOf(followed: Followed, state: FinalState, lies: ReadonlySet<string>): string | undefined {
  const { hasBegun, status, committed, rolledBack } = followed
  if (!hasBegun) return undefined
  const fields = status?.result?.fields
  if (!fields) return 'its status cannot be read'
  if (!ended.has(fields['status'])) return `it is still ${String(fields['status'])}`
  if (committed && fields['status'] !== 'committed')
    return `it was committed, and is ${String(fields['status'])}`
  if (rolledBack && fields['status'] !== 'rolled_back')
    return `it was rolled back, and is ${String(fields['status'])}`
  const steps = Array.isArray(fields['steps']) ? fields['steps'].filter(isObject) : []
  const late = outOfOrder(followed, fields)
  if (late !== undefined) return `${late} was undone after a step before it, and its status does not say so`
  const ok = new Set(steps.flatMap((step) => (step['status'] === 'ok' ? [step['step_id']] : [])))
  for (const [order, { operation, isAnswered }] of followed.steps) {
    if (isAnswered && !ok.has(operation.key))
      return `order ${order} was answered, and is not recorded as done`
    if (lies.has(order) || operation.tool !== 'book_room') continue
    const isThere = state.thingsOf(operation.server, order).length > 0
    if (fields['status'] === 'committed' && isAnswered && !isThere)
      return `it is committed, and order ${order} is gone`
    const isSettled = fields['status'] === 'rolled_back' && fields['needs_attention'] !== true
    if (isSettled && isThere) return `it is rolled back, and order ${order} is still there`
  }
  return undefined
}

/** A step that was undone after one before it, of which the status says that it was undone in its turn. */
function outOfOrder({ undone }: Followed, fields: Readonly<Record<string, unknown>>): string | undefined {
  const steps = Array.isArray(fields['steps']) ? fields['steps'].filter(isObject) : []
  const places = new Map(steps.map((step, index) => [step['step_id'], index]))
  const ends = Array.isArray(fields['steps_compensated']) ? fields['steps_compensated'].filter(isObject) : []
  return undone.find((order, at) => {
    const end = ends.find((each) => each['step_id'] === order)
    const isInTurn = end?.['status'] === 'compensated' && end['out_of_order'] !== true
    const place = places.get(order) ?? Infinity
    return isInTurn && undone.slice(0, at).some((before) => (places.get(before) ?? Infinity) < place)
  })
}

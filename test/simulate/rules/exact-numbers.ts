/** All that is done names exactly the numbers of its call: no effect, undo, read, question or refusal is that of a neighbour. */
import { OTHER_ID } from '../client.ts'
import type { Entry, Operation } from '../history.ts'
import { digitsOf, ROUND, ROUNDED } from '../odd-numbers.ts'
import type { CreateRule } from './rule.ts'

/** The rule. */
export const exactNumbers: CreateRule = () => {
  const operations = new Map<string, Operation>()
  /** The order of each thing that a server said it made. */
  const made = new Map<string, string>()
  /** The order that was to be undone last. */
  let toUndo: string | undefined

  const contradiction = (entry: Entry): string | undefined => {
    switch (entry.kind) {
      case 'effect':
        return wrongEffect(entry, operations.get(entry.order))
      case 'event': {
        const operation = operations.get(entry.order)
        return operation && operation.principal !== entry.receiver
          ? `${entry.receiver} received an event of order ${entry.order} of ${operation.principal}`
          : wrongEffect(entry, operation)
      }
      case 'request': {
        const { server, tool, order, id } = entry
        const called = tool === 'list_tickets' ? 'create_ticket' : 'book_room'
        const operation = operations.get(order)
        if (operation?.server !== server || operation.tool !== called)
          return `${tool} of ${server} names order ${order}, and no client called ${called} with it`
        if (id !== undefined && made.get(`${server} ${id}`) !== order)
          return `${tool} of ${server} names ${id} of order ${order}, which did not make it`
        return undefined
      }
      case 'undone':
        return toUndo === entry.order
          ? undefined
          : `order ${entry.order} was undone in place of order ${toUndo}`
      case 'approval': {
        const { order, question } = entry
        if (operations.get(order)?.tool !== 'delete_customer')
          return `somebody is asked about order ${order}, which no client wants to delete`
        const shown: readonly string[] = question.match(/-?\d+(?:\.\d+)?/g) ?? []
        return shown.includes(digitsOf(order))
          ? undefined
          : `the question about order ${order} is: ${question}`
      }
      case 'reply': {
        const { code, operation } = entry
        if (code === OTHER_ID) return `order ${operation.order} got the response to another request`
        return code === 'PERMISSION_DENIED' && !isDenied(operation.order)
          ? `order ${operation.order} is refused, and no rule denies it`
          : undefined
      }
      default:
        return undefined
    }
  }

  return {
    name: 'exact-numbers',
    observe: (entry) => {
      if (entry.kind === 'invoke') operations.set(entry.operation.order, entry.operation)
      if (entry.kind === 'effect') made.set(`${entry.server} ${entry.id}`, entry.order)
      if (entry.kind === 'request' && entry.id !== undefined) toUndo = entry.order
      return contradiction(entry)
    },
  }
}

function wrongEffect(
  { kind, server, tool, order, amount }: Extract<Entry, { readonly kind: 'effect' | 'event' }>,
  operation: Operation | undefined,
): string | undefined {
  if (operation?.server !== server || operation.tool !== tool)
    return `${kind} of ${tool} at ${server} names order ${order}, and no client called it`
  if (isDenied(order)) return `${kind} at ${server} names order ${order}, which a rule denies`
  return amount === operation.amount
    ? undefined
    : `${kind} of order ${order} has ${amount} in place of ${operation.amount}`
}

function isDenied(order: string): boolean {
  return [ROUNDED, ROUND].includes(digitsOf(order))
}

/** Decides which actions `gatehouse undo` can undo and in which parts. Pure. */
import type { Action } from '../records/actions.ts'
import { isOver, type Transaction } from '../records/transactions.ts'

/** Something that was done, and what can be done about it. */
export interface Chosen {
  readonly deed: Action
  /** How well it can be undone. */
  readonly how: 'exactly' | 'approximately' | 'not at all'
  /** Why it cannot be, or what to keep in mind. */
  readonly why?: string
}

/** What can be undone of some deeds; what is undone already, or came to nothing, is left out. */
export function choose(deeds: readonly Action[], transactions: readonly Transaction[]): readonly Chosen[] {
  const holders = holdersOf(transactions)
  return deeds.flatMap((deed): Chosen[] => {
    const { status, way, undoneAt } = deed
    if (undoneAt !== undefined || status === 'failed' || way.kind === 'nothing') return []
    const found = holders.get(deed.key) ?? []
    if (found.some((each) => isUndone(each, deed))) return []
    const why = hindrance(deed, found)
    if (why !== undefined) return [{ deed, how: 'not at all', why }]
    if (way.kind === 'none') return [{ deed, how: 'not at all', why: way.reason }]
    const how = way.kind === 'exact' ? 'exactly' : 'approximately'
    return [{ deed, how, ...(status !== 'ok' && { why: 'it is unknown whether it was done' }) }]
  })
}

/**
 * Deeds, the last one first, in parts of one caller each, to be undone one part after the other: what another caller
 * did in between is undone in between, else what is put back would be what was there later.
 */
export function partsOf(deeds: readonly Action[]): readonly (readonly Action[])[] {
  const parts: Action[][] = []
  for (const deed of deeds) {
    const part = parts.at(-1)
    if (part?.[0]?.principal.id === deed.principal.id) part.push(deed)
    else parts.push([deed])
  }
  return parts
}

/** The transactions each deed is a step of: the one it was done in, and those that undid it. */
function holdersOf(transactions: readonly Transaction[]): ReadonlyMap<string, readonly Transaction[]> {
  const holders = new Map<string, Transaction[]>()
  for (const transaction of transactions) {
    for (const { deed } of transaction.steps) {
      holders.set(deed, [...(holders.get(deed) ?? []), transaction])
    }
  }
  return holders
}

function isUndone({ steps, compensations }: Transaction, { key }: Action): boolean {
  const step = steps.find(({ deed }) => deed === key)
  return compensations.some((each) => each.step === step?.id && each.status === 'compensated')
}

/** Why something must be left alone. */
function hindrance({ status, transaction }: Action, holders: readonly Transaction[]): string | undefined {
  const open = holders.find((each) => !isOver(each))
  if (open?.status === 'rolling_back') return 'it is being undone'
  if (open) return `its transaction is still open: see gatehouse tx rollback ${open.id}`
  const own = holders.find(({ id }) => id === transaction)
  if (own && own.status !== 'committed')
    return `its transaction was rolled back: see gatehouse tx show ${own.id}`
  return status === 'pending' ? 'it has not ended' : undefined
}

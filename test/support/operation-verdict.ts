import { additionsOf, type Effect } from './effects.ts'
import type { OperationEnding, OperationPlan } from './operation-client.ts'
import type { Seeded } from '../simulate/random.ts'

/** A kind of operation: how it is called, and what its client may hear of it. */
interface Kind {
  readonly server: 'effects' | 'tasked' | 'asking' | 'modern' | 'confirmed'
  readonly tool: string
  readonly isKeyed?: true
  readonly isStep?: true
  /** Its client waits for the result. */
  readonly isPlain?: true
  /** What became of it can always be found out. */
  readonly isKnown?: true
  /** It may take longer than a server that has no task may be silent. */
  readonly isLong?: true
  readonly canBeCancelled?: true
}

const kinds: Readonly<Record<string, Kind>> = {
  task: { server: 'effects', tool: 'add_blind_effect', isLong: true, canBeCancelled: true },
  verified: { server: 'effects', tool: 'add_effect', isKnown: true, isLong: true },
  keyed: { server: 'effects', tool: 'add_effect', isKeyed: true, isKnown: true, isLong: true },
  keyed_blind: { server: 'effects', tool: 'add_blind_effect', isKeyed: true, canBeCancelled: true },
  keyed_call: { server: 'effects', tool: 'add_effect', isKeyed: true, isKnown: true, isPlain: true },
  read: { server: 'effects', tool: 'find_effects', isKnown: true, isLong: true },
  step: { server: 'effects', tool: 'add_effect', isKeyed: true, isStep: true },
  served: { server: 'tasked', tool: 'add_blind_effect', isLong: true, canBeCancelled: true },
  served_keyed: { server: 'tasked', tool: 'add_effect', isKeyed: true, isKnown: true, isLong: true },
  asked: { server: 'asking', tool: 'confirm_delete' },
  served_asked: { server: 'modern', tool: 'confirm_delete' },
}

/** Calls that a person confirms in a form of the client. */
const confirmedKinds: typeof kinds = {
  confirmed: { server: 'confirmed', tool: 'add_blind_effect' },
  confirmed_keyed: { server: 'confirmed', tool: 'add_effect', isKeyed: true, isKnown: true },
}

/** The kinds of operations for which each gateway needs no processes of its own but one. */
export const fleetKinds = Object.keys({ ...kinds, ...confirmedKinds }).filter(
  (name) => name !== 'served_asked',
)

/** So many operations of these kinds, or of all but those that are confirmed. */
export function planOperations(
  count: number,
  from: string,
  random: Seeded,
  names: readonly string[] = Object.keys(kinds),
): readonly OperationPlan[] {
  return Array.from({ length: count }, (_none, index): OperationPlan => {
    const kind = names[index % names.length] ?? ''
    const { server, tool, isKeyed, isStep, isPlain, isLong, canBeCancelled } = kindOf(kind)
    const name = `${from}-${index}-${kind}`
    const value = `${isLong && random.chance(0.4) ? 'long ' : ''}value of ${name}`
    return {
      name,
      kind,
      server,
      tool,
      arguments: tool === 'confirm_delete' ? { filename: name } : { key: name, value },
      ...(isKeyed && { key: name }),
      ...(isStep && { transaction: name }),
      declaresTasks: !isPlain,
      isCancelled: canBeCancelled === true && random.chance(0.3),
    }
  })
}

/** What really happened. */
export interface Facts {
  readonly effects: readonly Effect[]
  /** The log of the effects, with those that were undone. */
  readonly log: string
  /** The statuses of transactions, by id. */
  readonly transactions: ReadonlyMap<string, string>
  /** Whether the store was away, so that nothing could be found out. */
  readonly wasStoreAway?: boolean
}

/** What is wrong with how operations ended, given what really happened; nothing where all is well. */
export function faultsOfOperations(endings: readonly OperationEnding[], facts: Facts): readonly string[] {
  const additions = additionsOf(facts.log)
  const byKey = Map.groupBy(facts.effects, ({ key }) => key)
  return endings.flatMap(({ plan, outcome, wrong }) => {
    const label = `${plan.name}${plan.isCancelled ? ' (cancelled)' : ''}`
    const added = additions.get(plan.name) ?? 0
    const faults = [
      ...wrong,
      ...(added > 1 ? [`was done ${added} times`] : []),
      ...contradictions({ plan, outcome, wrong }, added, byKey.get(plan.name)?.[0], facts),
    ]
    return faults.map((fault) => `${label}: ${fault}; its client got ${outcome.kind} ${outcome.text}`)
  })
}

function contradictions(
  { plan, outcome }: OperationEnding,
  added: number,
  effect: Effect | undefined,
  { transactions, wasStoreAway }: Facts,
): readonly string[] {
  const { isKnown, tool } = kindOf(plan.kind)
  const { kind, code, structured, text } = outcome
  const hasEffect = tool.startsWith('add_')
  const status = plan.transaction === undefined ? undefined : transactions.get(plan.transaction)
  if (status !== undefined && !['committed', 'rolled_back', 'partially_rolled_back'].includes(status))
    return [`its transaction is ${status}`]
  if (kind === 'lost') return plan.key === undefined ? [] : ['it has a key, and its client got no outcome']
  if (kind === 'cancelled') return plan.isCancelled ? [] : ['no client cancelled it']
  if (kind === 'failed') {
    if (code === 'OUTCOME_UNKNOWN') return isKnown && !wasStoreAway ? ['its outcome can be found out'] : []
    if (isInDoubt(code) || (code === 'CANCELLED' && plan.isCancelled)) return []
    // It says of one attempt that it was not made; there were others with the key.
    if (plan.key !== undefined && code === 'SERVER_UNAVAILABLE') return []
    return hasEffect && added > 0 ? ['it was done'] : refusals.has(code) ? [] : ['there is no reason to fail']
  }
  if (tool === 'find_effects') return structured['key'] === plan.name ? [] : ['it is another result']
  if (!hasEffect) return text.includes(`deleted ${plan.name}`) ? [] : ['it is another result']
  if (added === 0) return ['it was not done']
  if (status !== undefined && status !== 'committed') return [`its transaction is ${status}`]
  return effect && structured['id'] === effect.id ? [] : [`what was done is ${JSON.stringify(effect)}`]
}

/** Whether a failure says that its call took too long, or that another one with its key is not over. */
function isInDoubt(code: string | undefined): boolean {
  return code === 'OPERATION_TIMEOUT' || code === 'IDEMPOTENCY_IN_PROGRESS'
}

/** Failures that say that nothing was done: something was away, or the call that asked for input is lost. */
const refusals: ReadonlySet<string | undefined> = new Set([
  'SERVER_UNAVAILABLE',
  'STATE_EXPIRED',
  // A gateway that does not get the shared key from its store serves with one of its own.
  'STATE_INVALID',
  // The answer to a question did not arrive in time.
  'CONFIRMATION_DECLINED',
])

/** What is wrong with what operations are said to be once more. */
export function changesOf(
  before: readonly OperationEnding[],
  again: readonly OperationEnding[],
): readonly string[] {
  return again.flatMap((other) => {
    const { plan, outcome, wrong } = other
    const first = before.find((each) => each.plan.name === plan.name)?.outcome
    const isSame = other.taskId === undefined ? isSameKeyed(first, outcome) : first?.text === outcome.text
    const faults = isSame ? wrong : [...wrong, `it was ${first?.kind} ${first?.text}`]
    return faults.map((fault) => `${plan.name}: ${fault}; now it is ${outcome.kind} ${outcome.text}`)
  })
}

/** Whether a keyed call made again came to the same. One that was cancelled may have been done. */
function isSameKeyed(
  first: OperationEnding['outcome'] | undefined,
  again: OperationEnding['outcome'],
): boolean {
  if (!first || first.kind === 'cancelled') return again.kind !== 'lost'
  // Too much time passed, and then nobody knows.
  if (isInDoubt(first.code) && again.code === 'OUTCOME_UNKNOWN') return true
  // A read can settle what was in doubt.
  if (first.kind === 'failed' && again.kind === 'completed') return true
  if (first.kind !== 'completed') return again.kind === first.kind && again.code === first.code
  return JSON.stringify(again.structured) === JSON.stringify(first.structured)
}

function kindOf(name: string): Kind {
  const kind = kinds[name] ?? confirmedKinds[name]
  if (!kind) throw new TypeError(`there is no kind ${name}`)
  return kind
}

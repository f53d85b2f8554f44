/**
 * Rewinds: plans to undo what was done since a point in time, and what became of them. Any process that shares the store may
 * request one, such as a command; a gateway reads the present states, and undoes what is ordered.
 *
 *   reading --present states--> planned --order--> undoing --> ended
 *
 * Invariant: exactly the actions of the plan are undone, as one transaction for each run of actions of one caller. The ids of
 * these transactions follow from the plan, so whoever takes a rewind over finds those that were begun.
 */
import type { OrderStep } from '../core/audit-step.ts'
import { GatewayError } from '../core/error.ts'
import { isObject } from '../core/json/json.ts'
import { world } from '../core/world.ts'
import { asJson, Collection, hasMembers, type RecordKind } from '../durable/collection.ts'
import type { Store } from '../store/store.ts'
import type { ActionFilter, StateAfterUndo } from './actions.ts'
import { changedSince, isToBeUndone, partsOf, type PlannedAction } from './rewind-plan.ts'
import {
  type CompensationStatus,
  differenceOf,
  hasEnded,
  type Transaction,
  transactionKey,
} from './transactions.ts'

/** A rewind. Stored as JSON; times are milliseconds since 1970. */
export interface Rewind {
  /** Also how the ids of its transactions begin. */
  readonly id: string
  /** `reading` and `undoing` are for a gateway to do. */
  readonly status: 'reading' | 'planned' | 'undoing' | 'ended'
  readonly madeAt: number
  /** What was planned for; absent if the plan is not made again before it is carried out. */
  readonly filter?: ActionFilter
  /** In the order in which they are undone, newest first. */
  readonly plan: readonly PlannedAction[]
  readonly order?: RewindOrder
  /** The worker that does it; another worker takes over if that one is gone. */
  readonly runner?: string
  /** It took too long: the transactions that had not begun by then are not begun any more. */
  readonly isLate?: true
}

/** Who ordered that a plan is carried out, and how. */
export interface RewindOrder {
  readonly by: string
  readonly via: NonNullable<OrderStep['via']>
  /** Whether actions are undone that something else changed since, which overwrites that. */
  readonly force?: boolean
}

/** The actions of one caller that are undone together. */
export interface RewindPart {
  /** The id of the transaction. */
  readonly transaction: string
  readonly caller: string
  readonly actions: readonly PlannedAction[]
}

/** A new rewind. */
export function newRewind(given: Pick<Rewind, 'status' | 'filter' | 'plan' | 'order'>): Rewind {
  return { id: `undo-${world.randomBytes(8).toString('hex')}`, madeAt: world.now(), ...given }
}

/** The actions that are undone, by the transactions that undo them, in this order. */
export function partsOfRewind({ id, plan, order }: Pick<Rewind, 'id' | 'plan' | 'order'>): RewindPart[] {
  const undone = plan.filter((action) => isToBeUndone(action, order?.force))
  return partsOf(undone).map((actions, index) => ({
    transaction: index === 0 ? id : `${id}-${index + 1}`,
    caller: actions[0]?.principal.id ?? '',
    actions,
  }))
}

/** What the audit log says of an order: each transaction, and for each caller what is left because something else changed it since. */
export function orderSteps(
  rewind: Pick<Rewind, 'id' | 'plan'> & { readonly order: RewindOrder },
): OrderStep[] {
  const { plan, order } = rewind
  const { by, via, force = false } = order
  const step = { order: 'undo', by, via, ...(force && { force }) } as const
  const left = plan.filter((action) => isToBeUndone(action, true) && !isToBeUndone(action, force))
  return [
    ...partsOfRewind(rewind).map(({ transaction, caller }) => ({ ...step, transaction, caller })),
    ...[...Map.groupBy(left, ({ principal }) => principal.id)].map(([caller, actions]) => ({
      ...step,
      left: actions.map(({ key }) => key),
      caller,
    })),
  ]
}

// What became of the actions of a rewind.

/** What became of an action. */
export interface UndoneAction {
  readonly action: PlannedAction
  /** `cannot` if there is no undo, `left` if it was not to be undone, `waiting` until it is known. */
  readonly outcome: 'undone' | 'not_undone' | 'left' | 'cannot' | 'waiting'
  /** Why it was not undone. */
  readonly error?: string
  /** What something else changed since, if it was not undone because of that. */
  readonly difference?: readonly string[]
  /** What the state is after it was undone. */
  readonly state?: StateAfterUndo
}

/** A rewind and what became of its actions so far, in the order of the plan. */
export interface RewindProgress {
  readonly rewind: Rewind
  readonly actions: readonly UndoneAction[]
}

/** How far a rewind has got, given the transactions in the store by their keys. */
export async function progressOf(
  rewind: Rewind,
  find: (key: string) => Promise<Transaction | undefined>,
): Promise<RewindProgress> {
  const found = await Promise.all(
    partsOfRewind(rewind).map(({ caller, transaction }) => find(transactionKey(caller, transaction))),
  )
  const transactions = found.flatMap((each) => each ?? [])
  return {
    rewind,
    actions: rewind.plan.map((action) => ({ action, ...endOf(action, rewind, transactions) })),
  }
}

function endOf(
  action: PlannedAction,
  { status, order, isLate }: Rewind,
  transactions: readonly Transaction[],
): Omit<UndoneAction, 'action'> {
  const { key, how, why, present, tool } = action
  if (how === 'not at all') return { outcome: 'cannot', ...(why !== undefined && { error: why }) }
  if (present?.kind === 'changed' && !isToBeUndone(action, order?.force)) {
    const { read, difference } = present
    return { outcome: 'left', error: changedSince(read, tool), difference }
  }
  for (const transaction of transactions) {
    const step = transaction.steps.find(({ deed }) => deed === key)
    const end = step && transaction.compensations.find((each) => each.step === step.id)
    if (end) return endOfStep(end)
    if (!step) continue
    if (!hasEnded(transaction) && status !== 'ended') return { outcome: 'waiting' }
    return { outcome: 'not_undone', error: 'it has not finished: see gatehouse tx list' }
  }
  if (status !== 'ended') return { outcome: 'waiting' }
  const error = isLate
    ? 'it was not started, because the others took too long: run the command again'
    : 'another process is undoing it, or has undone it'
  return { outcome: 'not_undone', error }
}

function endOfStep(end: CompensationStatus): Omit<UndoneAction, 'action'> {
  if (end.status === 'compensated') return { outcome: 'undone', ...(end.state && { state: end.state }) }
  const error = isObject(end.error) ? String(end.error['message']) : 'the compensation failed'
  const difference = differenceOf(end)
  return { outcome: 'not_undone', error, ...(difference.length > 0 && { difference }) }
}

// The rewinds in a store.

/** How long a plan that nobody orders, and a rewind that has ended, is kept, in milliseconds. */
const PLAN_TTL_MS = 3_600_000
const ENDED_TTL_MS = 86_400_000

/** How many actions a plan has at most that is kept. */
const MAX_PLANNED = 10_000

/** All rewinds. */
export class Rewinds {
  readonly #kept: Collection<Rewind>
  readonly #due: Collection<object>

  constructor(store: Store) {
    this.#kept = new Collection(store, rewindKind)
    this.#due = new Collection(store, dueKind)
  }

  find(id: string): Promise<Rewind | undefined> {
    return this.#kept.get(id)
  }

  /** Keeps a rewind, new or changed; gateways find what they have to do. @throws PAYLOAD_TOO_LARGE */
  async put(rewind: Rewind): Promise<void> {
    const count = rewind.plan.length
    if (count > MAX_PLANNED)
      throw new GatewayError(
        'PAYLOAD_TOO_LARGE',
        `${count} actions are too many to undo at once: at most ${MAX_PLANNED} are. Choose a later time, or a single server.`,
      )
    await this.#kept.put(rewind.id, rewind)
    if (isDue(rewind)) await this.#due.put(rewind.id, {})
  }

  /** Changes a rewind; `decide` returns the same one to keep it. Resolves with the rewind after that, if there is one. */
  async change(id: string, decide: (rewind: Rewind) => Rewind): Promise<Rewind | undefined> {
    const after = await this.#kept.update(id, (before) => {
      const decided = before && decide(before)
      return decided === undefined || decided === before ? 'keep' : decided
    })
    if (after && isDue(after)) await this.#due.put(id, {})
    else await this.#due.remove(id)
    return after
  }

  /** The ids of the rewinds for which a gateway has to do something. */
  due(): Promise<readonly string[]> {
    return this.#due.ids()
  }
}

function isDue({ status }: Rewind): boolean {
  return status === 'reading' || status === 'undoing'
}

const json = asJson<Rewind>({ string: ['id', 'status'], number: ['madeAt'], list: ['plan'] })
const isPlanned = hasMembers<PlannedAction>({
  string: ['key', 'upstream', 'tool', 'how'],
  number: ['startedAt'],
  principal: ['principal'],
})

const rewindKind: RecordKind<Rewind> = {
  name: 'rewind',
  prefix: 'rewind:',
  encode: json.encode,
  decode: (text) => {
    const rewind = json.decode(text)
    return rewind?.plan.every(isPlanned) ? rewind : undefined
  },
  ttlOf: ({ status }) => (status === 'ended' || status === 'undoing' ? ENDED_TTL_MS : PLAN_TTL_MS),
}

/** That there is something to do for the rewind of the same id; it says nothing more. */
const dueKind: RecordKind<object> = {
  name: 'due rewind',
  prefix: 'rewind-due/',
  encode: () => '1',
  decode: () => ({}),
  ttlOf: () => ENDED_TTL_MS,
}

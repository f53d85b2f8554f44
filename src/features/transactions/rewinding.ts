/**
 * Plans what is to be undone, with what somebody else changed since, and undoes exactly that, one transaction after the other.
 * Also does what other processes request, such as `gatehouse undo`, and continues what processes left that ended.
 */
import { GatewayError } from '../../core/error.ts'
import { background } from '../../core/log.ts'
import { oneLine, shortened } from '../../core/text/escape.ts'
import { pause } from '../../core/time/waiting.ts'
import { type Timer, world } from '../../core/world.ts'
import type { Lease } from '../../durable/lease.ts'
import type { Action, ActionFilter } from '../../records/actions.ts'
import {
  choose,
  type Chosen,
  hasLeftState,
  plannedActions,
  planChanges,
  withPresent,
} from '../../records/rewind-plan.ts'
import {
  newRewind,
  orderSteps,
  partsOfRewind,
  progressOf,
  type Rewind,
  type RewindOrder,
  type RewindPart,
  type RewindProgress,
  Rewinds,
} from '../../records/rewinds.ts'
import { type Transaction, transactionKey } from '../../records/transactions.ts'
import { newUndoTransaction } from '../../records/transitions.ts'
import {
  type ChangedPlan,
  presentStates,
  recordingStates,
  type Rewinding,
  type RewindPlan,
} from '../offers.ts'
import { type TransactionService, waitForRollback } from './service.ts'

type RewindContext = Pick<TransactionService, 'deps' | 'repository' | 'actions' | 'worker' | 'rollback'>

/** How often the store is polled for requests, and for those that failed, or that another worker does, in milliseconds. */
const POLL_INTERVAL_MS = 250
const RETRY_DELAY_MS = 5000
/** How much of a name that is not known is in an error, in characters. */
const MAX_STATED_LENGTH = 100
/** The total time for all transactions of a rewind, in milliseconds. */
const MAX_UNDO_MS = 600_000

/** Plans and carries out rewinds. */
export class RewindWorker implements Rewinding {
  readonly #context: RewindContext
  readonly #rewinds: Rewinds
  readonly #stopped = new AbortController()
  readonly #busy = new Set<string>()
  #timer: Timer | undefined
  #isPolling = false

  constructor(context: RewindContext) {
    this.#context = context
    this.#rewinds = new Rewinds(context.deps.store)
  }

  start(): void {
    this.#timer ??= world.setInterval(() => this.#poll(), POLL_INTERVAL_MS).unref()
  }

  /** Leaves what has not ended to the next one. */
  stop(): void {
    world.clearInterval(this.#timer)
    this.#stopped.abort(new GatewayError('CANCELLED', 'Another runtime continues the rewind.'))
  }

  async plan(filter: ActionFilter): Promise<RewindPlan> {
    this.#mustBeServer(filter.upstream)
    return this.#keep(filter, await this.#planned(filter))
  }

  async carryOut(id: string, order: RewindOrder): Promise<{ readonly id: string } | ChangedPlan> {
    const found = await this.#rewinds.find(id)
    if (!found?.filter) throw new GatewayError('RESOURCE_NOT_FOUND', 'There is no such plan any more.')
    if (found.status !== 'planned') return { id }
    const now = await this.#planned(found.filter)
    const changes = planChanges(found.plan, plannedActions(now))
    if (changes.length > 0) return { plan: await this.#keep(found.filter, now), changes }
    const ordered = await this.#rewinds.change(id, (each) =>
      each.status === 'planned' ? { ...each, status: 'undoing', order } : each,
    )
    if (ordered?.order === order) orderSteps({ ...ordered, order }).forEach(this.#context.deps.audit.ordered)
    this.#take(id)
    return { id }
  }

  async progress(id: string): Promise<RewindProgress | undefined> {
    const rewind = await this.#rewinds.find(id)
    return rewind && progressOf(rewind, (key) => this.#context.repository.find(key))
  }

  #mustBeServer(name: string | undefined): void {
    const names = this.#context.deps.servers.names()
    if (name === undefined || names.includes(name)) return
    const stated = oneLine(shortened(name, MAX_STATED_LENGTH))
    const message = `There is no server named “${stated}”. There are ${names.join(', ')}.`
    throw new GatewayError('INVALID_INPUT', message, { field: 'server' })
  }

  async #keep(filter: ActionFilter, actions: readonly Chosen[]): Promise<RewindPlan> {
    const rewind = newRewind({ status: 'planned', filter, plan: plannedActions(actions) })
    await this.#rewinds.put(rewind)
    return { id: rewind.id, madeAt: rewind.madeAt, actions }
  }

  async #planned(filter: ActionFilter): Promise<readonly Chosen[]> {
    const { actions } = this.#context
    await this.#recorded()
    return this.#withPresent(await this.#chosen(await actions.list(filter)))
  }

  async #chosen(actions: readonly Action[]): Promise<readonly Chosen[]> {
    const transactions = await this.#context.repository.list()
    return choose(
      actions,
      transactions.map(({ transaction }) => transaction),
    )
  }

  /** Resolves once what has happened in this process is in the store. */
  async #recorded(): Promise<void> {
    await Promise.all(this.#context.deps.features.offered(recordingStates).map((recorded) => recorded()))
  }

  async #withPresent(plan: readonly Chosen[]): Promise<readonly Chosen[]> {
    const [read] = this.#context.deps.features.offered(presentStates)
    const known = plan.filter(hasLeftState).map(({ action }) => action)
    return withPresent(plan, (await read?.(known)) ?? new Map())
  }

  #poll(): void {
    if (this.#isPolling) return
    this.#isPolling = true
    const taken = this.#rewinds.due().then((ids) => ids.forEach((id) => this.#take(id)))
    // Nothing can be requested while the store cannot be used, which it reports itself.
    void taken.catch(() => undefined).then(() => (this.#isPolling = false))
  }

  #take(id: string): void {
    const { worker, deps } = this.#context
    if (this.#busy.has(id) || this.#stopped.signal.aborted) return
    this.#busy.add(id)
    const work = worker.during(`rewind ${id}`, () => this.#work(id))
    background(work, deps.log)
    const isDone = work.catch(() => false)
    void isDone
      .then((isOver) => (isOver ? undefined : pause(RETRY_DELAY_MS)))
      .then(() => this.#busy.delete(id))
  }

  /** Does what is due; resolves with whether it did. */
  async #work(id: string): Promise<boolean> {
    const { worker } = this.#context
    const before = (await this.#rewinds.find(id))?.runner
    if (before !== undefined && before !== worker.id && (await worker.isAlive(before))) return false
    await worker.register()
    const taken = await this.#rewinds.change(id, (each) =>
      each.runner === before ? { ...each, runner: worker.id } : each,
    )
    if (taken?.runner !== worker.id) return false
    if (taken.status === 'reading') await this.#read(taken)
    if (taken.status === 'undoing' && taken.order) await this.#undo(taken, taken.order, before !== undefined)
    return true
  }

  /** Adds the present states to a plan. */
  async #read({ id, plan }: Rewind): Promise<void> {
    await this.#recorded()
    const actions = await this.#context.actions.findAll(plan.map(({ key }) => key))
    const chosen = plan.flatMap(({ key, how, why }): Chosen[] => {
      const action = actions.get(key)
      return action ? [{ action, how, ...(why !== undefined && { why }) }] : []
    })
    const known = plannedActions(await this.#withPresent(chosen))
    await this.#rewinds.change(id, ({ runner: _runner, ...rest }) => ({
      ...rest,
      status: 'planned',
      plan: known,
    }))
  }

  /** Undoes what was planned: the actions that no other process undoes. */
  async #undo(rewind: Rewind, order: RewindOrder, isTakenOver: boolean): Promise<void> {
    const { actions, deps } = this.#context
    const keys = partsOfRewind(rewind).flatMap((part) => part.actions.map(({ key }) => key))
    const reserved = await Promise.all(
      keys.map(async (key) => [key, await actions.reserve(key, isTakenOver)] as const),
    )
    const late = world.timeoutSignal(MAX_UNDO_MS)
    const signal = AbortSignal.any([this.#stopped.signal, deps.gateway.closing, late])
    try {
      await this.#undoParts({ ...rewind, order }, new Map(reserved), signal)
    } catch (error) {
      if (!signal.aborted) throw error
      if (!late.aborted) return
    } finally {
      await Promise.all(reserved.map(async ([, lease]) => lease?.release()))
    }
    await this.#rewinds.change(rewind.id, (each) => ({
      ...each,
      status: 'ended',
      ...(late.aborted && { isLate: true }),
    }))
  }

  async #undoParts(
    rewind: Rewind & { readonly order: RewindOrder },
    reserved: ReadonlyMap<string, Lease | undefined>,
    signal: AbortSignal,
  ): Promise<void> {
    const { repository, actions, rollback } = this.#context
    // Another process may have undone them just before they were reserved.
    const found = await this.#chosen([...(await actions.findAll([...reserved.keys()])).values()])
    const left = new Map(
      found.flatMap(({ action, how }) => (how === 'not at all' ? [] : [[action.key, action]])),
    )
    for (const part of partsOfRewind(rewind)) {
      signal.throwIfAborted()
      const key = transactionKey(part.caller, part.transaction)
      const isOpen = (await repository.find(key)) !== undefined
      const free = part.actions.flatMap(
        (each) => (reserved.get(each.key)?.isHeld && left.get(each.key)) || [],
      )
      if (!isOpen && free.length === 0) continue
      if (!isOpen) await repository.open(transactionOf(part, free, rewind.order))
      await waitForRollback(key, undefined, signal, { repository, rollback })
    }
  }
}

/** The transaction that undoes a part. What was as its action left it is not overwritten by force either. */
function transactionOf(
  { transaction, actions }: RewindPart,
  free: readonly Action[],
  { by, via, force }: RewindOrder,
): Transaction {
  const asLeft = new Set(actions.flatMap(({ key, present }) => (present?.kind === 'as_left' ? [key] : [])))
  return newUndoTransaction(free, {
    id: transaction,
    by: `${via === 'command_line' ? 'gatehouse undo' : 'rewind'} by ${by}`,
    now: world.now(),
    isForced: ({ key }) => force === true && !asLeft.has(key),
  })
}

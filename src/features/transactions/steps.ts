import type { Call, Handler, Outcome } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { newActionKey } from '../../records/deeds.ts'
import { keptPrincipal } from '../../records/principal.ts'
import { pendingOf, stepAsked, stepBegun, TAKEN, UNDER_WAY } from '../../records/transaction-moves.ts'
import { type Step, type Transaction } from '../../records/transactions.ts'
import { extensionOf, isTask, TRANSACTION_ID, withoutExtension, withoutTasks } from '../../wire/extensions.ts'
import { type TransactionService, keyFor, mustHaveKeys } from './desk.ts'
import { readId } from './ids.ts'
import { quiescent, stepWork } from './settled.ts'
import { runStep, STATE_KEY } from './step-end.ts'
import { kindOf, mustBeUndoable } from './undoable.ts'

/** Makes a call as a step of the transaction it names. */
export async function makeStep(call: Call, next: Handler, desk: TransactionService): Promise<Outcome> {
  mustHaveKeys(desk.deps, call.target.upstream)
  if (isTask(call)) throw noTask()
  const id = readId(extensionOf(call, TRANSACTION_ID), TRANSACTION_ID)
  const stepId = extensionOf(call, 'step_id')
  const wanted = stepId === undefined ? undefined : readId(stepId, 'step_id')
  const bare = withoutTasks(withoutExtension(withoutExtension(call, TRANSACTION_ID), 'step_id'))
  const key = keyFor(call, id)
  call.logFields.set('transaction', id)
  return desk.queue(key, call.signal, async () => {
    const begun = await begin(bare, { key, wanted }, desk)
    return desk.worker.during(stepWork(key, begun.step.id), () =>
      runStep(bare, next, { ...begun, id, key, desk }),
    )
  })
}

interface Beginning {
  readonly key: string
  readonly wanted: string | undefined
}

interface Begun {
  readonly step: Step
  readonly isToBeUndoable: boolean
}

/** Writes a step down before its server is called, once none is under way at another gateway. @throws what refuses it */
async function begin(call: Call, beginning: Beginning, desk: TransactionService): Promise<Begun> {
  for (;;) {
    try {
      return await tryToBegin(call, beginning, desk)
    } catch (error) {
      if (!isOvertaken(error, beginning)) throw error
    }
  }
}

/** Whether another step began between the look at the transaction and the beginning of this one. */
function isOvertaken(error: unknown, { wanted }: Beginning): boolean {
  if (!(error instanceof GatewayError) || error.code !== 'TRANSACTION_CONFLICT') return false
  const { reason } = error.extra
  return reason === UNDER_WAY || (reason === TAKEN && wanted === undefined)
}

async function tryToBegin(call: Call, { key, wanted }: Beginning, desk: TransactionService): Promise<Begun> {
  const { book, worker, deps, limits } = desk
  const transaction = await waited(key, call.signal, desk)
  await worker.register()
  // What can not be written down in the end is not begun.
  const { unavailableReason: problem } = deps.store
  if (problem !== undefined && call.requestState[STATE_KEY] === undefined) throw noRoom(problem)
  const kind = await kindOf(call, deps)
  const isToBeUndoable = kind === 'write' && desk.settings(call.target.upstream).uncompensable === 'reject'
  const open = openStep(call, transaction)
  if (open) {
    await book.change(key, stepAsked(open.id, worker.id))
    return { step: open, isToBeUndoable }
  }
  const now = Date.now()
  const { upstream = '', name: tool = '' } = call.target
  const id = wanted ?? freeId(transaction)
  const about = { upstream, tool, kind, runner: worker.id }
  const step: Step = { id, deed: newActionKey(now), ...about, status: 'pending' }
  const move = stepBegun(step, { most: limits.max_steps, now })
  // A refusal for what the transaction is comes before one for what the tool is.
  move(transaction)
  if (isToBeUndoable) await mustBeUndoable(call, keptPrincipal(transaction.principal), deps)
  desk.watch.track(key, await book.change(key, move))
  return { step, isToBeUndoable }
}

/** The transaction, once nobody else works on a step of it. @throws RESOURCE_NOT_FOUND, the signal's reason */
export function waited(key: string, signal: AbortSignal, desk: TransactionService): Promise<Transaction> {
  return quiescent(key, desk, {
    signal,
    // A step that waits for answers of its caller goes on when they come.
    isLeft: async ({ status }, { isOpen = false, runner }) =>
      status !== 'active' || (isOpen && (await desk.worker.isAlive(runner))),
  })
}

/** The step a call comes back to with answers. */
function openStep({ requestState: state }: Call, transaction: Transaction): Step | undefined {
  const slot = state[STATE_KEY]
  if (slot === undefined) return undefined
  const found = pendingOf(transaction).find(({ id, isOpen }) => isOpen && id === slot)
  if (found) return found
  throw new GatewayError('TRANSACTION_CONFLICT', 'The step is over, so its answer came too late.')
}

/** A task is answered when it is accepted, which is no end that a step could be kept or undone by. */
function noTask(): GatewayError {
  return new GatewayError('INVALID_INPUT', 'A step of a transaction cannot be made as a task.', {
    field: 'task',
    reason: 'unsupported',
    suggestion: 'Make the step without "task": the gateway waits for its result. The transaction stays open.',
  })
}

function noRoom(problem: string): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The step can not be written down, so it was not done.', {
    cause: new Error(problem),
    isUnsent: true,
  })
}

function freeId({ steps }: Transaction): string {
  const taken = new Set(steps.map(({ id }) => id))
  for (let number = steps.length + 1; ; number++) {
    if (!taken.has(`step-${number}`)) return `step-${number}`
  }
}

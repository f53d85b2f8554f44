/** Checks of transactions: all steps are kept, or all are undone. */
import { randomUUID } from 'node:crypto'
import type { Fields } from '../../core/payload.ts'
import type { Answer, Endpoint } from './client.ts'
import {
  ask,
  checksOf,
  expect,
  expectCalls,
  expectSame,
  failureOf,
  objectAt,
  objectsIn,
  resultOf,
  successOf,
} from './check.ts'

/** What can be done with a transaction. */
type Move = 'begin' | 'commit' | 'rollback'

export function move(endpoint: Endpoint, which: Move, id: string): Promise<Answer> {
  return ask(endpoint, `transaction/${which}`, `${which}_transaction`, { transaction_id: id })
}

/** Begins a transaction with a new id. @throws CheckFailure */
async function begun(endpoint: Endpoint): Promise<string> {
  const id = `conformance-${randomUUID()}`
  const result = resultOf(await move(endpoint, 'begin', id))
  expectSame(result.status, 'begun', 'the status')
  expectSame(result.transaction_id, id, 'transaction_id')
  return id
}

function step(endpoint: Endpoint, id: string, text: string): Promise<Answer> {
  return endpoint.call('create_entry', { text }, { meta: { transaction_id: id } })
}

/** A text that no other entry has. */
function newText(): string {
  return `text ${randomUUID()}`
}

const common = { category: 'transactions', needs: ['transactions', 'idempotency', 'undo'] } as const

/** The checks of transactions. */
export const transactionChecks = checksOf(common, [
  {
    test_id: 'CONF-0511',
    description: 'A rollback undoes the steps of a transaction, the last one first.',
    run: async ({ ours, echo }) => {
      const [one, two] = [newText(), newText()]
      const id = await begun(ours)
      const steps = [successOf(await step(ours, id, one)), successOf(await step(ours, id, two))].map(stepIn)
      expect(echo.entries.includes(one) && echo.entries.includes(two), 'a step did not take effect')
      const result = resultOf(await move(ours, 'rollback', id))
      expectSame(result.status, 'rolled_back', 'the status')
      const undone = objectsIn(result.steps_compensated)
      const wanted = steps.toReversed().map(({ step_id }) => ({ step_id, status: 'compensated' }))
      expectSame(undone, wanted, 'steps_compensated')
      expect(!echo.entries.includes(one) && !echo.entries.includes(two), 'a step is still in effect')
    },
  },
  {
    test_id: 'CONF-0512',
    description: 'A commit keeps the steps, and a rollback after it is refused.',
    run: async ({ ours, echo }) => {
      const text = newText()
      const id = await begun(ours)
      successOf(await step(ours, id, text))
      const result = resultOf(await move(ours, 'commit', id))
      expectSame(result.status, 'committed', 'the status')
      expectSame(result.steps_completed, 1, 'steps_completed')
      failureOf(await move(ours, 'rollback', id), 'TRANSACTION_CONFLICT')
      expect(echo.entries.includes(text), 'the step is not in effect')
    },
  },
  {
    test_id: 'CONF-0513',
    description: 'A second rollback returns the outcome of the first, and undoes nothing again.',
    run: async ({ ours, echo }) => {
      const id = await begun(ours)
      successOf(await step(ours, id, newText()))
      const first = resultOf(await move(ours, 'rollback', id))
      const reached = echo.follow('delete_entry')
      const second = resultOf(await move(ours, 'rollback', id))
      expectSame(second.status, first.status, 'the status')
      expectSame(second.was_replay, true, 'was_replay')
      expectCalls(reached(), 0)
    },
  },
  {
    test_id: 'CONF-0514',
    description:
      'A transaction with a used id, and a step after the end, are refused, and the step does not reach the server.',
    run: async ({ ours, echo }) => {
      const id = await begun(ours)
      failureOf(await move(ours, 'begin', id), 'TRANSACTION_CONFLICT')
      resultOf(await move(ours, 'commit', id))
      const reached = echo.follow('create_entry')
      failureOf(await step(ours, id, newText()), 'TRANSACTION_CONFLICT')
      expectCalls(reached(), 0)
    },
  },
  {
    test_id: 'CONF-0515',
    description: 'To another caller a transaction does not exist: it can neither end it nor add a step.',
    run: async ({ ours, theirs, echo }) => {
      const id = await begun(ours)
      const reached = echo.follow('create_entry')
      failureOf(await move(theirs, 'rollback', id), 'RESOURCE_NOT_FOUND')
      failureOf(await step(theirs, id, newText()), 'RESOURCE_NOT_FOUND')
      expectCalls(reached(), 0)
      expectSame(resultOf(await move(ours, 'commit', id)).status, 'committed', 'the status afterwards')
    },
  },
  {
    test_id: 'CONF-0516',
    description:
      'A step that cannot be undone is refused before the server, or runs and is reported by the rollback.',
    run: async ({ ours, echo, settings }) => {
      const id = await begun(ours)
      const reached = echo.follow('add_note')
      const answer = await ours.call('add_note', { text: newText() }, { meta: { transaction_id: id } })
      if (objectAt(settings('transactions'))?.uncompensable === 'allow') {
        successOf(answer)
        const result = resultOf(await move(ours, 'rollback', id))
        expectSame(result.status, 'partially_rolled_back', 'the status')
        return
      }
      failureOf(answer, 'COMPENSATION_UNAVAILABLE')
      expectCalls(reached(), 0)
      resultOf(await move(ours, 'rollback', id))
    },
  },
])

/** The `_meta` of the result of a step. @throws CheckFailure */
function stepIn(result: Fields): Fields {
  const found = objectAt(result, '_meta')
  expect(typeof found?.step_id === 'string', 'the result has no step_id')
  expect(objectAt(found, 'compensation')?.tool === 'delete_entry', 'the result has no compensation')
  return found
}

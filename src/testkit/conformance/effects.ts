/**
 * Checks of effects: a call with an idempotency key takes effect once, and its caller always gets the same outcome; all steps of a
 * transaction are kept, or all are undone.
 */
import { randomUUID } from 'node:crypto'
import type { Fields } from '../../core/payload.ts'
import type { Answer, Endpoint } from './client.ts'
import {
  checksOf,
  expect,
  expectCalls,
  expectSame,
  failureOf,
  objectAt,
  successOf,
  ask,
  objectsIn,
  resultOf,
} from './check.ts'

/** A new key, or the id of a transaction. */
export function newId(): string {
  return `conformance-${randomUUID()}`
}

function create(endpoint: Endpoint, text: string, key: string): Promise<Answer> {
  return endpoint.call('create_entry', { text }, { meta: { idempotency_key: key } })
}

/** The id of the created entry, and the `_meta` of the result. @throws CheckFailure */
function createdBy(answer: Answer): { readonly id: unknown; readonly meta: Fields } {
  const result = successOf(answer)
  return { id: objectAt(result, 'structuredContent')?.id, meta: objectAt(result, '_meta') ?? {} }
}

/** The checks of idempotency keys. */
export const idempotencyChecks = checksOf({ category: 'idempotency', needs: ['idempotency'] }, [
  {
    test_id: 'CONF-0501',
    description:
      'A repeated call with its key runs once; the second response is the first one, marked as a replay.',
    run: async ({ ours, echo }) => {
      const key = newId()
      const reached = echo.follow('create_entry')
      const first = createdBy(await create(ours, 'once', key))
      const second = createdBy(await create(ours, 'once', key))
      expectCalls(reached(), 1)
      expectSame(second.id, first.id, 'the id in the second response')
      expectSame([first.meta.was_replay, second.meta.was_replay], [false, true], 'was_replay')
      expectSame(second.meta.idempotency_key, key, 'idempotency_key')
      expect(typeof first.meta.original_timestamp === 'string', 'original_timestamp is absent')
      expectSame(second.meta.original_timestamp, first.meta.original_timestamp, 'original_timestamp')
    },
  },
  {
    test_id: 'CONF-0502',
    description:
      'A key that was used with other arguments is refused, and the call does not reach the server.',
    run: async ({ ours, echo }) => {
      const key = newId()
      createdBy(await create(ours, 'first', key))
      const reached = echo.follow('create_entry')
      failureOf(await create(ours, 'second', key), 'IDEMPOTENCY_CONFLICT')
      failureOf(
        await ours.call('add_note', { text: 'first' }, { meta: { idempotency_key: key } }),
        'IDEMPOTENCY_CONFLICT',
      )
      expectCalls(reached(), 0)
    },
  },
  {
    test_id: 'CONF-0503',
    description: 'Simultaneous calls with one key run once, and all get the same outcome.',
    run: async ({ ours, echo }) => {
      const key = newId()
      const reached = echo.follow('create_entry')
      const answers = await Promise.all(Array.from({ length: 5 }, () => create(ours, 'together', key)))
      const ids = new Set(answers.map((answer) => createdBy(answer).id))
      expectSame(ids.size, 1, 'the number of different outcomes')
      expectCalls(reached(), 1)
    },
  },
  {
    test_id: 'CONF-0504',
    description: 'A key belongs to its caller: the same key of another caller is another call.',
    run: async ({ ours, theirs }) => {
      const key = newId()
      const own = createdBy(await create(ours, 'mine', key))
      const other = createdBy(await create(theirs, 'mine', key))
      expect(own.id !== other.id, 'the second caller got the outcome of the first')
      expectSame(other.meta.was_replay, false, 'was_replay of the second caller')
    },
  },
  {
    test_id: 'CONF-0505',
    description: 'Two different keys in one request, and a key in a wrong form, are refused with -32602.',
    run: async ({ ours, echo }) => {
      const reached = echo.follow('create_entry')
      const options = { meta: { idempotency_key: newId() }, beside: { idempotency_key: newId() } }
      const two = await ours.call('create_entry', { text: 'two' }, options)
      expectSame(two.error?.code, -32602, 'the code for two keys')
      expectSame(
        (await create(ours, 'wrong', 'a key with spaces')).error?.code,
        -32602,
        'the code for a wrong form',
      )
      expectCalls(reached(), 0)
    },
  },
  {
    test_id: 'CONF-0506',
    description: 'The header Idempotency-Key and the key in _meta are the same key.',
    run: async ({ ours, echo }) => {
      const key = newId()
      const reached = echo.follow('create_entry')
      const headers = { 'idempotency-key': key }
      const first = createdBy(await ours.call('create_entry', { text: 'header' }, { headers }))
      const second = createdBy(await create(ours, 'header', key))
      expectSame(second.id, first.id, 'the id in the second response')
      expectCalls(reached(), 1)
    },
  },
  {
    test_id: 'CONF-0507',
    description: 'A failure that the server reports is the outcome of its key too.',
    run: async ({ ours, echo }) => {
      const options = { meta: { idempotency_key: newId() } }
      const fail = () => ours.call('get_failure', { text: 'the printer is on fire' }, options)
      const first = await fail()
      const reached = echo.follow('get_failure')
      const second = await fail()
      expectSame([first.result?.isError, second.result?.isError], [true, true], 'isError')
      expectCalls(reached(), 0)
      expectSame(objectAt(second.result, '_meta')?.was_replay, true, 'was_replay')
    },
  },
])

/** What can be done with a transaction. */
type Move = 'begin' | 'commit' | 'rollback'

export function move(endpoint: Endpoint, which: Move, id: string): Promise<Answer> {
  return ask(endpoint, `transaction/${which}`, `${which}_transaction`, { transaction_id: id })
}

/** Begins a transaction with a new id. @throws CheckFailure */
async function begun(endpoint: Endpoint): Promise<string> {
  const id = newId()
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
      const undone = objectsIn(result.steps_compensated).map(({ step_id, status }) => ({ step_id, status }))
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

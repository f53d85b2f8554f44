/** Checks of idempotency keys: a call with a key takes effect once, and its caller always gets the same outcome. */
import { randomUUID } from 'node:crypto'
import type { Fields } from '../../core/payload.ts'
import type { Answer, Endpoint } from './client.ts'
import { checksOf, expect, expectCalls, expectSame, failureOf, objectAt, successOf } from './check.ts'

function newKey(): string {
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
      const key = newKey()
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
      const key = newKey()
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
      const key = newKey()
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
      const key = newKey()
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
      const options = { meta: { idempotency_key: newKey() }, beside: { idempotency_key: newKey() } }
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
      const key = newKey()
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
      const options = { meta: { idempotency_key: newKey() } }
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

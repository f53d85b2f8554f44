/** Checks of idempotency keys: a call with a key takes effect once, and its caller always gets the same outcome. */
import { randomUUID } from 'node:crypto'
import type { Fields } from '../../core/payload.ts'
import type { Answer, Endpoint } from './client.ts'
import { type Check, expect, expectSame, failureOf, objectAt, successOf } from './check.ts'

const category = 'idempotency'

function newKey(): string {
  return `conformance-${randomUUID()}`
}

function create(endpoint: Endpoint, text: string, key: string): Promise<Answer> {
  return endpoint.call('create_entry', { text }, { meta: { idempotency_key: key } })
}

/** The id of the created entry, and the `_meta` of the result. @throws Failure */
function createdBy(answer: Answer): { readonly id: unknown; readonly meta: Fields } {
  const result = successOf(answer)
  return { id: objectAt(result, 'structuredContent')?.id, meta: objectAt(result, '_meta') ?? {} }
}

/** The checks of idempotency keys. */
export const idempotencyChecks: readonly Check[] = [
  {
    test_id: 'CONF-0501',
    proposal_ref: 'proposal-5',
    category,
    description:
      'A repeated call with its key runs once; the second response is the first one, marked as a replay.',
    needs: ['idempotency'],
    run: async ({ ours, echo }) => {
      const key = newKey()
      const before = echo.received('create_entry').length
      const first = createdBy(await create(ours, 'once', key))
      const second = createdBy(await create(ours, 'once', key))
      expectSame(
        echo.received('create_entry').length - before,
        1,
        'the number of calls that reached the server',
      )
      expectSame(second.id, first.id, 'the id in the second response')
      expectSame([first.meta.was_replay, second.meta.was_replay], [false, true], 'was_replay')
      expectSame(second.meta.idempotency_key, key, 'idempotency_key')
      expect(typeof first.meta.original_timestamp === 'string', 'original_timestamp is absent')
      expectSame(second.meta.original_timestamp, first.meta.original_timestamp, 'original_timestamp')
    },
  },
  {
    test_id: 'CONF-0502',
    proposal_ref: 'proposal-5',
    category,
    description:
      'A key that was used with other arguments is refused, and the call does not reach the server.',
    needs: ['idempotency'],
    run: async ({ ours, echo }) => {
      const key = newKey()
      createdBy(await create(ours, 'first', key))
      const reached = echo.received('create_entry').length
      failureOf(await create(ours, 'second', key), 'IDEMPOTENCY_CONFLICT')
      failureOf(
        await ours.call('add_note', { text: 'first' }, { meta: { idempotency_key: key } }),
        'IDEMPOTENCY_CONFLICT',
      )
      expectSame(echo.received('create_entry').length, reached, 'the calls that reached the server')
    },
  },
  {
    test_id: 'CONF-0503',
    proposal_ref: 'proposal-5',
    category,
    description: 'Simultaneous calls with one key run once, and all get the same outcome.',
    needs: ['idempotency'],
    run: async ({ ours, echo }) => {
      const key = newKey()
      const before = echo.received('create_entry').length
      const answers = await Promise.all(Array.from({ length: 5 }, () => create(ours, 'together', key)))
      const ids = new Set(answers.map((answer) => createdBy(answer).id))
      expectSame(ids.size, 1, 'the number of different outcomes')
      expectSame(
        echo.received('create_entry').length - before,
        1,
        'the number of calls that reached the server',
      )
    },
  },
  {
    test_id: 'CONF-0504',
    proposal_ref: 'proposal-5',
    category,
    description: 'A key belongs to its caller: the same key of another caller is another call.',
    needs: ['idempotency'],
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
    proposal_ref: 'proposal-5',
    category,
    description: 'Two different keys in one request, and a key in a wrong form, are refused with -32602.',
    needs: ['idempotency'],
    run: async ({ ours, echo }) => {
      const reached = echo.received('create_entry').length
      const options = { meta: { idempotency_key: newKey() }, beside: { idempotency_key: newKey() } }
      const two = await ours.call('create_entry', { text: 'two' }, options)
      expectSame(two.error?.code, -32602, 'the code for two keys')
      expectSame(
        (await create(ours, 'wrong', 'a key with spaces')).error?.code,
        -32602,
        'the code for a wrong form',
      )
      expectSame(echo.received('create_entry').length, reached, 'the calls that reached the server')
    },
  },
  {
    test_id: 'CONF-0506',
    proposal_ref: 'proposal-5',
    category,
    description: 'The header Idempotency-Key and the key in _meta are the same key.',
    needs: ['idempotency'],
    run: async ({ ours, echo }) => {
      const key = newKey()
      const before = echo.received('create_entry').length
      const headers = { 'idempotency-key': key }
      const first = createdBy(await ours.call('create_entry', { text: 'header' }, { headers }))
      const second = createdBy(await create(ours, 'header', key))
      expectSame(second.id, first.id, 'the id in the second response')
      expectSame(
        echo.received('create_entry').length - before,
        1,
        'the number of calls that reached the server',
      )
    },
  },
  {
    test_id: 'CONF-0507',
    proposal_ref: 'proposal-5',
    category,
    description: 'A failure that the server reports is the outcome of its key too.',
    needs: ['idempotency'],
    run: async ({ ours, echo }) => {
      const options = { meta: { idempotency_key: newKey() } }
      const fail = () => ours.call('get_failure', { text: 'the printer is on fire' }, options)
      const first = await fail()
      const reached = echo.received('get_failure').length
      const second = await fail()
      expectSame([first.result?.isError, second.result?.isError], [true, true], 'isError')
      expectSame(echo.received('get_failure').length, reached, 'the calls that reached the server')
      expectSame(objectAt(second.result, '_meta')?.was_replay, true, 'was_replay')
    },
  },
]

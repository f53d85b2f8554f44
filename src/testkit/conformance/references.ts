/** Checks of references: a result that is kept, and its data as an argument of another call. */
import { NS, REFERENCE_KEY } from '../../protocol/meta-keys.ts'
import type { Fields } from '../../core/payload.ts'
import {
  type Check,
  type Context,
  expect,
  expectSame,
  failureOf,
  objectAt,
  objectsIn,
  successOf,
} from './check.ts'

const category = 'streaming'
const needs = ['references']

/** Keeps the result of a call. @throws Failure */
async function kept({ ours }: Context): Promise<{ readonly result: Fields; readonly facts: Fields }> {
  const answer = await ours.call('list_entries', {}, { meta: { [`${NS}/as_reference`]: true } })
  const result = successOf(answer)
  const facts = objectAt(result, '_meta', REFERENCE_KEY)
  expect(typeof facts?.ref_id === 'string', `the result has no ${REFERENCE_KEY}`)
  return { result, facts }
}

/** The checks of references. */
export const referenceChecks: readonly Check[] = [
  {
    test_id: 'CONF-0901',
    proposal_ref: 'proposal-9',
    category,
    description: 'A result that is kept is replaced by a link, with its size and SHA-256.',
    needs,
    run: async (context) => {
      const { result, facts } = await kept(context)
      const link = objectsIn(result.content).find(({ type }) => type === 'resource_link')
      expectSame(link?.uri, `ref://${String(facts.ref_id)}`, 'the URI of the link')
      expectSame(objectAt(facts, 'checksum')?.algorithm, 'sha256', 'checksum.algorithm')
      expect(Number(facts.size_bytes) > 0, 'size_bytes is absent')
      expectSame(facts.origin_server, context.echoName, 'origin_server')
    },
  },
  {
    test_id: 'CONF-0902',
    proposal_ref: 'proposal-9',
    category,
    description: 'A reference as an argument reaches the server as the data that it stands for.',
    needs,
    run: async (context) => {
      const { facts } = await kept(context)
      const { ours, echo } = context
      successOf(await ours.call('get_echo', { text: `ref://${String(facts.ref_id)}` }))
      const { text } = echo.received('get_echo').at(-1)?.arguments ?? {}
      expect(typeof text === 'string', 'the argument did not arrive as a text')
      expectSame(Buffer.byteLength(text), facts.size_bytes, 'the size of the argument at the server')
      expect(text.includes('"number":1'), 'the argument at the server is not the data')
    },
  },
  {
    test_id: 'CONF-0903',
    proposal_ref: 'proposal-9',
    category,
    description: 'To another caller a reference does not exist, and the call does not reach the server.',
    needs,
    run: async (context) => {
      const { facts } = await kept(context)
      const { theirs, echo } = context
      const reached = echo.received('get_echo').length
      const answer = await theirs.call('get_echo', { text: `ref://${String(facts.ref_id)}` })
      failureOf(answer, 'RESOURCE_NOT_FOUND')
      expectSame(echo.received('get_echo').length, reached, 'the calls that reached the server')
    },
  },
]

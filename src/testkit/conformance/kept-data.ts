/** Checks of what the gateway keeps for a caller alone: results as references, and the state of a session. */
import { NS } from '../../core/identity.ts'
import { REFERENCE_KEY, SESSION_KEY, SESSION_STATE_KEY } from '../../protocol/meta-keys.ts'
import type { Fields } from '../../core/payload.ts'
import type { Answer, Endpoint, Extras } from './client.ts'
import {
  checksOf,
  expect,
  expectCalls,
  expectSame,
  failureOf,
  objectAt,
  objectsIn,
  successOf,
} from './check.ts'

/** Keeps the result of a call. @throws CheckFailure */
async function kept(ours: Endpoint): Promise<{ readonly result: Fields; readonly facts: Fields }> {
  const answer = await ours.call('list_entries', {}, { meta: { [`${NS}/as_reference`]: true } })
  const result = successOf(answer)
  const facts = objectAt(result, '_meta', REFERENCE_KEY)
  expect(typeof facts?.ref_id === 'string', `the result has no ${REFERENCE_KEY}`)
  return { result, facts }
}

/** The checks of references. */
export const referenceChecks = checksOf({ category: 'streaming', needs: ['references'] }, [
  {
    test_id: 'CONF-0901',
    description: 'A result that is kept is replaced by a link, with its size and SHA-256.',
    run: async ({ ours, echoName }) => {
      const { result, facts } = await kept(ours)
      const link = objectsIn(result.content).find(({ type }) => type === 'resource_link')
      expectSame(link?.uri, `ref://${String(facts.ref_id)}`, 'the URI of the link')
      expectSame(objectAt(facts, 'checksum')?.algorithm, 'sha256', 'checksum.algorithm')
      expect(Number(facts.size_bytes) > 0, 'size_bytes is absent')
      expectSame(facts.origin_server, echoName, 'origin_server')
    },
  },
  {
    test_id: 'CONF-0902',
    description: 'A reference as an argument reaches the server as the data that it stands for.',
    run: async ({ ours, echo }) => {
      const { facts } = await kept(ours)
      const reached = echo.follow('get_echo')
      successOf(await ours.call('get_echo', { text: `ref://${String(facts.ref_id)}` }))
      const { text } = reached()[0]?.arguments ?? {}
      expect(typeof text === 'string', 'the argument did not arrive as a text')
      expectSame(Buffer.byteLength(text), facts.size_bytes, 'the size of the argument at the server')
      expect(text.includes('"number":1'), 'the argument at the server is not the data')
    },
  },
  {
    test_id: 'CONF-0903',
    description: 'To another caller a reference does not exist, and the call does not reach the server.',
    run: async ({ ours, theirs, echo }) => {
      const { facts } = await kept(ours)
      const reached = echo.follow('get_echo')
      const answer = await theirs.call('get_echo', { text: `ref://${String(facts.ref_id)}` })
      failureOf(answer, 'RESOURCE_NOT_FOUND')
      expectCalls(reached(), 0)
    },
  },
])

/** A request for a token. */
const asking = { meta: { [SESSION_STATE_KEY]: true } }

function withState(token: string): Extras {
  return { meta: { [SESSION_STATE_KEY]: token } }
}

/** The token in a result, and the facts about its session. @throws CheckFailure */
function stateIn(answer: Answer): { readonly token: string; readonly session: Fields } {
  const meta = objectAt(successOf(answer), '_meta')
  const token = meta?.[SESSION_STATE_KEY]
  expect(typeof token === 'string', 'the result has no session_state')
  return { token, session: objectAt(meta, SESSION_KEY) ?? {} }
}

/** The checks of session state. */
export const stateChecks = checksOf({ category: 'permissions', needs: ['state'] }, [
  {
    test_id: 'CONF-1401',
    description:
      'A call that asks for session state gets a token, and a call with the token continues the session.',
    run: async ({ ours }) => {
      const first = stateIn(await ours.call('get_echo', { text: 'one' }, asking))
      const again = stateIn(await ours.call('get_echo', { text: 'two' }, withState(first.token)))
      expect(typeof first.session.session_id === 'string', 'session_id is absent')
      expectSame(again.session.session_id, first.session.session_id, 'session_id of the second call')
      expect(Number(again.session.version) > Number(first.session.version), 'the version did not rise')
    },
  },
  {
    test_id: 'CONF-1402',
    description: 'A changed token, and that of another caller, are refused with a token for a new session.',
    run: async ({ ours, theirs, echo }) => {
      const { token } = stateIn(await ours.call('get_echo', { text: 'one' }, asking))
      const reached = echo.follow('get_echo')
      const middle = Math.floor(token.length / 2)
      const changed = `${token.slice(0, middle)}${token[middle] === 'A' ? 'B' : 'A'}${token.slice(middle + 1)}`
      for (const answer of [
        await ours.call('get_echo', { text: 'two' }, withState(changed)),
        await theirs.call('get_echo', { text: 'two' }, withState(token)),
      ]) {
        const error = failureOf(answer, 'INVALID_INPUT')
        expect(typeof error.session_state === 'string', 'the error has no token for a new session')
      }
      expectCalls(reached(), 0)
    },
  },
])

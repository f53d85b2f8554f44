/** Checks of session state: a token continues the session of its caller, and only that. */
import { SESSION_KEY, SESSION_STATE_KEY } from '../../protocol/meta-keys.ts'
import type { Fields } from '../../core/payload.ts'
import type { Answer, RequestOptions } from './client.ts'
import { type Check, expect, expectSame, failureOf, objectAt, successOf } from './check.ts'

const category = 'permissions'

/** A request for a token. */
const asking = { meta: { [SESSION_STATE_KEY]: true } }

function withState(token: string): RequestOptions {
  return { meta: { [SESSION_STATE_KEY]: token } }
}

/** The token in a result, and the facts about its session. @throws Failure */
function stateIn(answer: Answer): { readonly token: string; readonly session: Fields } {
  const meta = objectAt(successOf(answer), '_meta')
  const token = meta?.[SESSION_STATE_KEY]
  expect(typeof token === 'string', 'the result has no session_state')
  return { token, session: objectAt(meta, SESSION_KEY) ?? {} }
}

/** The checks of session state. */
export const stateChecks: readonly Check[] = [
  {
    test_id: 'CONF-1401',
    proposal_ref: 'proposal-14',
    category,
    description:
      'A call that asks for session state gets a token, and a call with the token continues the session.',
    needs: ['state'],
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
    proposal_ref: 'proposal-14',
    category,
    description: 'A changed token, and that of another caller, are refused with a token for a new session.',
    needs: ['state'],
    run: async ({ ours, theirs, echo }) => {
      const { token } = stateIn(await ours.call('get_echo', { text: 'one' }, asking))
      const reached = echo.received('get_echo').length
      const middle = Math.floor(token.length / 2)
      const changed = `${token.slice(0, middle)}${token[middle] === 'A' ? 'B' : 'A'}${token.slice(middle + 1)}`
      for (const answer of [
        await ours.call('get_echo', { text: 'two' }, withState(changed)),
        await theirs.call('get_echo', { text: 'two' }, withState(token)),
      ]) {
        const error = failureOf(answer, 'INVALID_INPUT')
        expect(typeof error.session_state === 'string', 'the error has no token for a new session')
      }
      expectSame(echo.received('get_echo').length, reached, 'the calls that reached the server')
    },
  },
]

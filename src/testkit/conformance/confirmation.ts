/** Checks of confirmation by a person: a call that can do harm runs once after a yes, and not otherwise. */
import { CONFIRMATION_KEY } from '../../protocol/meta-keys.ts'
import type { Fields } from '../../core/payload.ts'
import type { Answer, Endpoint, Extras } from './client.ts'
import {
  checksOf,
  type Context,
  expect,
  expectCalls,
  expectSame,
  failureOf,
  isFailed,
  objectAt,
  resultOf,
  Skip,
  successOf,
} from './check.ts'
import { parseJson } from '../../core/json/read.ts'

/** A client that can ask its user. */
const asking = { capabilities: { elicitation: { form: {} } } }

/** Creates an entry to delete. @throws CheckFailure */
async function createdId(ours: Endpoint, text: string): Promise<string> {
  const result = successOf(await ours.call('create_entry', { text }))
  return String(objectAt(result, 'structuredContent')?.id)
}

function deleteEntry(endpoint: Endpoint, id: string, options?: Extras): Promise<Answer> {
  return endpoint.call('delete_entry', { id }, options)
}

/** The options of a call that a person confirmed at the host of the client. */
function confirmedBy(token: string): Extras {
  return { meta: { user_confirmed: true, confirmation_token: token } }
}

/** The token of a call that has to be confirmed. @throws CheckFailure, Skip where clients that cannot ask get none */
async function tokenFor({ ours, settings }: Pick<Context, 'ours' | 'settings'>, id: string): Promise<string> {
  const fallback = objectAt(settings('confirm'))?.fallback
  if (fallback === 'deny') throw new Skip('features.confirm.fallback is deny')
  const answer = await deleteEntry(ours, id)
  failureOf(answer, 'CONFIRMATION_REQUIRED')
  const token = objectAt(answer.result, '_meta', CONFIRMATION_KEY)?.confirmation_token
  expect(typeof token === 'string', 'the result has no confirmation_token')
  return token
}

/** The state with which the call goes on after the question. @throws CheckFailure */
function questionIn(answer: Answer): { readonly key: string; readonly state: unknown } {
  const { resultType, inputRequests, requestState } = resultOf(answer)
  expectSame(resultType, 'input_required', 'resultType')
  const [[key, question] = []] = Object.entries(objectAt(inputRequests) ?? {})
  expectSame(objectAt(question)?.method, 'elicitation/create', 'the method of the question')
  expect(key !== undefined, 'there is no question')
  return { key, state: requestState }
}

function answered({ key, state }: ReturnType<typeof questionIn>, response: Fields): Extras {
  return { ...asking, beside: { requestState: state, inputResponses: { [key]: response } } }
}

/** The checks of confirmation. */
export const confirmationChecks = checksOf({ category: 'permissions', needs: ['confirm'] }, [
  {
    test_id: 'CONF-0601',
    description:
      'A destructive call of a client that cannot ask its user does not reach the server, with or without user_confirmed alone.',
    run: async ({ ours, echo, settings }) => {
      const id = await createdId(ours, 'keep me')
      const reached = echo.follow('delete_entry')
      failureOf(await deleteEntry(ours, id), 'CONFIRMATION_REQUIRED')
      if (objectAt(settings('confirm'))?.accept_bare_flag !== true)
        failureOf(await deleteEntry(ours, id, { meta: { user_confirmed: true } }), 'CONFIRMATION_REQUIRED')
      expectCalls(reached(), 0)
    },
  },
  {
    test_id: 'CONF-0602',
    description: 'A call with the token of its confirmation runs once.',
    run: async (context) => {
      const { ours, echo } = context
      const id = await createdId(ours, 'delete me')
      const token = await tokenFor(context, id)
      const reached = echo.follow('delete_entry')
      successOf(await deleteEntry(ours, id, confirmedBy(token)))
      failureOf(await deleteEntry(ours, id, confirmedBy(token)), 'CONFIRMATION_TOKEN_INVALID')
      expectCalls(reached(), 1)
    },
  },
  {
    test_id: 'CONF-0603',
    description: 'The token of a confirmation is not valid for other arguments or for another caller.',
    run: async (context) => {
      const { ours, theirs, echo } = context
      const [id, other] = [await createdId(ours, 'one'), await createdId(ours, 'other')]
      const token = await tokenFor(context, id)
      const reached = echo.follow('delete_entry')
      failureOf(await deleteEntry(ours, other, confirmedBy(token)), 'CONFIRMATION_TOKEN_INVALID')
      failureOf(await deleteEntry(theirs, id, confirmedBy(token)), 'CONFIRMATION_TOKEN_INVALID')
      expectCalls(reached(), 0)
    },
  },
  {
    test_id: 'CONF-0604',
    description: 'A client that can ask its user gets the question; after a yes the call runs once.',
    run: async ({ ours, echo }) => {
      const id = await createdId(ours, 'ask me')
      const reached = echo.follow('delete_entry')
      const question = questionIn(await deleteEntry(ours, id, asking))
      expectCalls(reached(), 0)
      const yes = answered(question, { action: 'accept', content: { confirm: true } })
      successOf(await deleteEntry(ours, id, yes))
      const again = await deleteEntry(ours, id, yes)
      expect(isFailed(again), 'the answer was accepted twice')
      expectCalls(reached(), 1)
    },
  },
  {
    test_id: 'CONF-0605',
    description: 'After a no, or a yes without the box, the call does not run.',
    run: async ({ ours, echo }) => {
      const id = await createdId(ours, 'decline me')
      const reached = echo.follow('delete_entry')
      for (const response of [{ action: 'decline' }, { action: 'accept', content: { confirm: false } }]) {
        const question = questionIn(await deleteEntry(ours, id, asking))
        failureOf(await deleteEntry(ours, id, answered(question, response)), 'CONFIRMATION_DECLINED')
      }
      expectCalls(reached(), 0)
    },
  },
  {
    test_id: 'CONF-0606',
    description:
      'The manifest of the server under test has a question for every tool that requires confirmation.',
    needs: ['confirm', 'manifest'],
    run: async ({ server, name }) => {
      const { text } = await server.get(`/capabilities/${name}`)
      const manifest: unknown = parseJson(text)
      const tools = objectAt(manifest)?.tools
      expect(Array.isArray(tools), 'the manifest has no list of tools')
      for (const tool of tools) {
        const entry = objectAt(tool) ?? {}
        const isAsked = entry.requires_confirmation === true
        const hasMessage = typeof entry.confirmation_message === 'string' && entry.confirmation_message !== ''
        expectSame(hasMessage, isAsked, `whether ${String(entry.name)} has a confirmation_message`)
      }
    },
  },
])

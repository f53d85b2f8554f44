/**
 * Checks of permissions, the answer before a call and the refusal of the call; and of confirmation by a person: a call that can do
 * harm runs once after a yes, and not otherwise.
 */
import type { Answer, Endpoint, Extras } from './client.ts'
import type { Fields } from '../../core/payload.ts'
import {
  ask,
  checksOf,
  type Context,
  expect,
  expectCalls,
  expectSame,
  failureOf,
  objectAt,
  resultOf,
  successOf,
  isFailed,
  Skip,
} from './check.ts'
import { CONFIRMATION_KEY } from '../../protocol/meta-keys.ts'
import { parseJson } from '../../core/json/read.ts'

async function preflight(endpoint: Endpoint, params: Fields): Promise<Fields> {
  return resultOf(await ask(endpoint, 'permissions/check', 'check_permissions', params))
}

async function negotiated(endpoint: Endpoint, scopes: readonly string[]): Promise<Fields> {
  const params = { requested_scopes: scopes }
  return resultOf(await ask(endpoint, 'permissions/negotiate', 'negotiate_scopes', params))
}

/** Whether tools that a caller may not call do not exist for it. */
function isHiding(settings: Context['settings']): boolean {
  return objectAt(settings('permissions'))?.hide_unpermitted === true
}

/** @throws CheckFailure if a call without its scope was not refused, or not as configured */
function expectRefused(answer: Answer, settings: Context['settings'], missing: readonly string[]): void {
  if (isHiding(settings)) {
    failureOf(answer, 'UNKNOWN_TOOL')
    return
  }
  const error = failureOf(answer, 'SCOPE_INSUFFICIENT')
  expectSame(error.category, 'auth_required', 'the category')
  expectSame(objectAt(error, 'details')?.missing_scopes, missing, 'details.missing_scopes')
}

/** The checks of permissions. */
export const permissionChecks = checksOf({ category: 'permissions', needs: ['permissions'] }, [
  {
    test_id: 'CONF-002',
    proposal_ref: 'proposal-4',
    description:
      'A call for which the caller holds the scope is allowed, by the answer before it and in fact.',
    run: async ({ reader }) => {
      const answer = await preflight(reader, { tool: 'get_echo' })
      expectSame(answer.allowed, true, 'allowed')
      successOf(await reader.call('get_echo', { text: 'permitted' }))
    },
  },
  {
    test_id: 'CONF-003',
    proposal_ref: 'proposal-4',
    description:
      'A call without its scope is refused: the answer before it names the missing scope, and the call does not reach the server.',
    run: async ({ reader, echo, echoName, settings }) => {
      const missing = [`write:${echoName}`]
      const answer = await preflight(reader, { tool: 'create_entry' })
      expectSame(answer.allowed, false, 'allowed')
      if (!isHiding(settings)) expectSame(answer.missing_scopes, missing, 'missing_scopes')
      const reached = echo.follow('create_entry')
      expectRefused(await reader.call('create_entry', { text: 'no' }), settings, missing)
      expectCalls(reached(), 0)
    },
  },
  {
    test_id: 'CONF-0401',
    description:
      'For other scopes than those of the caller, the answer before a call names exactly the missing ones.',
    run: async ({ ours, echoName, settings }) => {
      const held = (scopes: readonly string[]): Promise<Fields> =>
        preflight(ours, { tool: 'delete_entry', scopes_held: scopes })
      expectSame((await held([`delete:${echoName}`])).allowed, true, 'allowed with the scope')
      const without = await held([`read:${echoName}`])
      expectSame(without.allowed, false, 'allowed without the scope')
      if (!isHiding(settings)) expectSame(without.missing_scopes, [`delete:${echoName}`], 'missing_scopes')
    },
  },
  {
    test_id: 'CONF-0402',
    description: 'The answer about an unknown tool is that it is not allowed.',
    run: async ({ ours }) => {
      const answer = await preflight(ours, { tool: 'conformance_no_such_name' })
      expectSame(answer.allowed, false, 'allowed')
    },
  },
  {
    test_id: 'CONF-0403',
    description:
      'A negotiated session has the granted scopes and no others, and its token restricts calls to them.',
    run: async ({ ours, echo, echoName, settings }) => {
      const { granted_scopes: granted, session } = await negotiated(ours, [`read:${echoName}`])
      expectSame(granted, [`read:${echoName}`], 'granted_scopes')
      const { token, expires_at: end } = objectAt(session) ?? {}
      expect(typeof token === 'string', 'session.token is absent')
      expect(Date.parse(String(end)) > Date.now(), 'session.expires_at is not in the future')
      const headers = { 'x-mcp-session-token': token }
      successOf(await ours.call('get_echo', { text: 'session' }, { headers }))
      const reached = echo.follow('create_entry')
      const refused = await ours.call('create_entry', { text: 'session' }, { headers })
      expectRefused(refused, settings, [`write:${echoName}`])
      expectCalls(reached(), 0)
    },
  },
  {
    test_id: 'CONF-0404',
    description:
      'A negotiation grants no scope that the caller does not hold, and lists each of those as denied.',
    run: async ({ reader, echoName }) => {
      const scopes = [`read:${echoName}`, `delete:${echoName}`]
      const { granted_scopes: granted, denied_scopes: denied } = await negotiated(reader, scopes)
      expectSame(granted, [`read:${echoName}`], 'granted_scopes')
      const names = Array.isArray(denied) ? denied.map((each) => objectAt(each)?.scope) : denied
      expectSame(names, [`delete:${echoName}`], 'denied_scopes')
    },
  },
])

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

/** The state with which the call continues after the question. @throws CheckFailure */
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
      const question = questionIn(await deleteEntry(ours, id, asking))
      failureOf(
        await deleteEntry(ours, id, answered(question, { action: 'decline' })),
        'CONFIRMATION_DECLINED',
      )
      // Without the box, the person is asked once more, in words.
      const unticked = { action: 'accept', content: { confirm: false } }
      const asked = await deleteEntry(
        ours,
        id,
        answered(questionIn(await deleteEntry(ours, id, asking)), unticked),
      )
      const no = { action: 'accept', content: { confirm: 'no' } }
      failureOf(await deleteEntry(ours, id, answered(questionIn(asked), no)), 'CONFIRMATION_DECLINED')
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

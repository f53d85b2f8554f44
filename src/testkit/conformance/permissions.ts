/** Checks of permissions: the answer before a call, and the refusal of the call. */
import type { Answer, Endpoint } from './client.ts'
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
} from './check.ts'

function preflight(endpoint: Endpoint, context: Context, params: Fields): Promise<Answer> {
  return ask(endpoint, context, { method: 'permissions/check', tool: 'check_permissions' }, params)
}

/** The result of a negotiation for a session that may only read. @throws Failure */
async function readingSession(context: Context): Promise<Fields> {
  const answer = await ask(
    context.ours,
    context,
    { method: 'permissions/negotiate', tool: 'negotiate_scopes' },
    { requested_scopes: [`read:${context.echoName}`] },
  )
  return resultOf(answer)
}

/** Whether tools that a caller may not call do not exist for it. */
function isHiding({ settings }: Context): boolean {
  return objectAt(settings('permissions'))?.hide_unpermitted === true
}

/** @throws Failure if a call without its scope was not refused, or not as configured */
function expectRefused(answer: Answer, context: Context, missing: readonly string[]): void {
  if (isHiding(context)) {
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
    run: async (context) => {
      const { reader } = context
      const answer = resultOf(await preflight(reader, context, { tool: 'get_echo' }))
      expectSame(answer.allowed, true, 'allowed')
      successOf(await reader.call('get_echo', { text: 'permitted' }))
    },
  },
  {
    test_id: 'CONF-003',
    proposal_ref: 'proposal-4',
    description:
      'A call without its scope is refused: the answer before it names the missing scope, and the call does not reach the server.',
    run: async (context) => {
      const { reader, echo, echoName } = context
      const missing = [`write:${echoName}`]
      const answer = resultOf(await preflight(reader, context, { tool: 'create_entry' }))
      expectSame(answer.allowed, false, 'allowed')
      if (!isHiding(context)) expectSame(answer.missing_scopes, missing, 'missing_scopes')
      const reached = echo.follow('create_entry')
      expectRefused(await reader.call('create_entry', { text: 'no' }), context, missing)
      expectCalls(reached(), 0)
    },
  },
  {
    test_id: 'CONF-0401',
    description:
      'For other scopes than those of the caller, the answer before a call names exactly the missing ones.',
    run: async (context) => {
      const { ours, echoName } = context
      const held = async (scopes: readonly string[]): Promise<Fields> =>
        resultOf(await preflight(ours, context, { tool: 'delete_entry', scopes_held: scopes }))
      expectSame((await held([`delete:${echoName}`])).allowed, true, 'allowed with the scope')
      const without = await held([`read:${echoName}`])
      expectSame(without.allowed, false, 'allowed without the scope')
      if (!isHiding(context)) expectSame(without.missing_scopes, [`delete:${echoName}`], 'missing_scopes')
    },
  },
  {
    test_id: 'CONF-0402',
    description: 'The answer about an unknown tool is that it is not allowed.',
    run: async (context) => {
      const answer = resultOf(await preflight(context.ours, context, { tool: 'conformance_no_such_name' }))
      expectSame(answer.allowed, false, 'allowed')
    },
  },
  {
    test_id: 'CONF-0403',
    description:
      'A negotiated session has the granted scopes and no others, and its token restricts calls to them.',
    run: async (context) => {
      const { ours, echo, echoName } = context
      const { granted_scopes: granted, session } = await readingSession(context)
      expectSame(granted, [`read:${echoName}`], 'granted_scopes')
      const { token, expires_at: end } = objectAt(session) ?? {}
      expect(typeof token === 'string', 'session.token is absent')
      expect(Date.parse(String(end)) > Date.now(), 'session.expires_at is not in the future')
      const headers = { 'x-mcp-session-token': token }
      successOf(await ours.call('get_echo', { text: 'session' }, { headers }))
      const reached = echo.follow('create_entry')
      const refused = await ours.call('create_entry', { text: 'session' }, { headers })
      expectRefused(refused, context, [`write:${echoName}`])
      expectCalls(reached(), 0)
    },
  },
  {
    test_id: 'CONF-0404',
    description:
      'A negotiation grants no scope that the caller does not hold, and lists each of those as denied.',
    run: async (context) => {
      const { reader, echoName } = context
      const answer = await ask(
        reader,
        context,
        { method: 'permissions/negotiate', tool: 'negotiate_scopes' },
        { requested_scopes: [`read:${echoName}`, `delete:${echoName}`] },
      )
      const { granted_scopes: granted, denied_scopes: denied } = resultOf(answer)
      expectSame(granted, [`read:${echoName}`], 'granted_scopes')
      const names = Array.isArray(denied) ? denied.map((each) => objectAt(each)?.scope) : denied
      expectSame(names, [`delete:${echoName}`], 'denied_scopes')
    },
  },
])

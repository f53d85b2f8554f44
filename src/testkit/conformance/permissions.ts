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

import { isObject } from '../core/json.ts'
import { asksForTokens } from './auth-checks.ts'
import type { Finding } from './problem.ts'

type Path = readonly string[]
type Values = Readonly<Record<string, unknown>>

/** Warns where calls wait for a person on a page that no browser can open. */
export function pageWarnings({ auth, features, profile, store }: Values): Finding[] {
  if (!isObject(auth) || !asksForTokens(auth)) return []
  const { jwt, basic } = auth
  const users = isObject(basic) && Array.isArray(basic.users) ? basic.users : []
  const isOpened = isObject(jwt) && jwt.client_id !== undefined
  if (isOpened || users.some((user) => isObject(user) && user.approves_as !== undefined)) return []
  if (!isPageUsed(features, profile)) return []
  const way = isObject(jwt)
    ? 'set `client_id` here, with which people sign in at the issuer, or name people'
    : 'name people with `approves_as`'
  const otherwise = store === 'memory' ? 'a client that supports elicitation' : '`gatehouse approvals`'
  return [
    {
      path: ['auth', isObject(jwt) ? 'jwt' : 'opaque'],
      at: 'key',
      message: `no browser can open the page of a call that waits for a person, as browsers send no tokens: ${way} under \`auth.basic\`. Without, such a call takes ${otherwise}`,
    },
  ]
}

/** Whether a call may wait for a person who is not asked by the client. */
function isPageUsed(features: unknown, profile: unknown): boolean {
  if (features === 'none') return false
  const confirm = isObject(features) ? features.confirm : undefined
  if (confirm === false || confirm === 'off') return false
  const fallback = isObject(confirm) ? confirm.fallback : undefined
  return (fallback ?? (profile === 'corporate' ? 'deny' : 'page')) === 'page'
}

/** Checks how the settings of one tool about approval go together: people have to be able to approve. */
export function approvalProblems(tools: unknown, path: Path, hasAuth: boolean): Finding[] {
  if (!isObject(tools)) return []
  return Object.entries(tools).flatMap(([glob, tool]) =>
    isObject(tool) ? problemsOf(tool, [...path, glob], hasAuth) : [],
  )
}

function problemsOf(tool: Readonly<Record<string, unknown>>, at: Path, hasAuth: boolean): Finding[] {
  const { approval, approvals, approvers } = tool
  const misplaced = approval === 'inline' ? ['approvals', 'approvers'].filter((key) => key in tool) : []
  if (misplaced.length > 0) {
    const message = 'goes with `approval: out_of_band` only: inline nobody but the caller is asked'
    return misplaced.map((key) => ({ path: [...at, key], at: 'key', message }))
  }
  if (typeof approvals !== 'number' || approvals < 2) return []
  const path = [...at, 'approvals']
  const named = approvers === undefined ? undefined : [approvers].flat().length
  if (named !== undefined && named < approvals)
    return [{ path, message: `more than the ${named} in \`approvers\`: nobody else may approve` }]
  if (hasAuth) return []
  return [{ path, message: 'needs `auth`: without it all people are one, whoever they are' }]
}

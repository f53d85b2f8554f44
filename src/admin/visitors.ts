import type { IncomingMessage } from 'node:http'
import { type AuthSettings, isProtected } from '../core/auth-settings.ts'
import { cookieOf } from '../core/cookie.ts'
import { GatewayError } from '../core/error.ts'
import type { Principal } from '../core/principal.ts'
import type { Decision } from '../records/approvals.ts'
import type { Operator } from './operator.ts'

/** Who looks at a page, and how that is known. */
export type Visitor = Pick<Decision, 'by' | 'via'>

/** How those who use a service path with a password are named (`auth.basic`). */
const SERVICE = 'service:'

interface Options {
  auth(): AuthSettings
  readonly operator: Operator
}

/** Whether people are known by the code of the terminal alone. */
export function isByCode(auth: AuthSettings): boolean {
  return !isProtected(auth) && auth.users.length === 0
}

/** Tells who looks at a page; nobody where the code of the terminal is still to be typed. @throws what `enter` throws */
export async function visitorOf(
  incoming: IncomingMessage,
  enter: () => Promise<Principal>,
  { auth, operator }: Options,
): Promise<Visitor | undefined> {
  if (isByCode(auth())) {
    const isKnown = operator.isKnown(cookieOf(incoming.headers.cookie, operator.cookie))
    return isKnown ? { by: 'operator', via: 'code' } : undefined
  }
  const principal = await enter()
  const visitor = visitorNamed(principal, auth())
  if (visitor) return visitor
  const name = principal.id.slice(SERVICE.length)
  throw new GatewayError('PERMISSION_DENIED', `${name} is not among those who approve calls.`, {
    suggestion: 'Give this name an `approves_as` in auth.basic of the configuration.',
  })
}

/** The person that a principal stands for on these pages; nothing for a name that approves no calls. */
export function visitorNamed(
  { id, isSignedIn }: Pick<Principal, 'id' | 'isSignedIn'>,
  { users }: Pick<AuthSettings, 'users'>,
): Visitor | undefined {
  // No token belongs to such a name.
  if (!id.startsWith(SERVICE)) return { by: id, via: isSignedIn ? 'sign_in' : 'token' }
  const name = id.slice(SERVICE.length)
  const by = users.find((user) => user.name === name)?.approvesAs
  return by === undefined ? undefined : { by, via: 'password' }
}

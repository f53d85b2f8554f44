/**
 * Page users of the pages: a caller with credentials, a signed-in person, or the operator who entered the code from the
 * terminal.
 */
import { createHmac, randomInt, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type AuthSettings, isProtected, type PageRole, roleScopes } from '../../core/auth-settings.ts'
import { GatewayError } from '../../core/error.ts'
import { createFailureCounter } from '../../core/failure-counter.ts'
import { anonymous, type Principal } from '../../core/principal.ts'
import { cookieOf } from '../../core/web.ts'
import { plainCode } from '../../records/approval-codes.ts'
import type { Decision } from '../../records/approvals.ts'

/** A page user, how the page user was identified, and what the page user may do. */
export interface PageUser extends Pick<Decision, 'by' | 'via'> {
  /** All of them: an operator is also a viewer and an approver. */
  readonly roles: readonly PageRole[]
  /** Whose rights calls have that the page user makes on a page. */
  readonly principal: Principal
}

const everyRole: readonly PageRole[] = ['viewer', 'approver', 'operator']

/** Whether a page user has one of these roles. */
export function hasRole({ roles }: PageUser, ...wanted: readonly PageRole[]): boolean {
  return wanted.some((role) => roles.includes(role))
}

/** @throws PERMISSION_DENIED with the missing scope, unless the page user has one of these roles */
export function requireRole(user: PageUser, ...wanted: readonly PageRole[]): void {
  if (hasRole(user, ...wanted)) return
  const scopes = wanted.map((role) => roleScopes[role])
  throw new GatewayError('PERMISSION_DENIED', `${user.by} lacks the scope ${scopes.join(' or ')}.`, {
    suggestion: `Sign in with credentials that have the scope ${scopes[0]}, or set \`roles\` for this name in auth.basic of the configuration.`,
    details: { required_scopes: scopes },
  })
}

/** The roles that scopes give; without any scopes, all of them. */
export function grantedRoles({ scopes }: Pick<Principal, 'scopes'>): readonly PageRole[] {
  if (!scopes || scopes.has(roleScopes.operator)) return everyRole
  return everyRole.filter((role) => scopes.has(roleScopes[role]))
}

/** The same on pages: scopes of no role at all are those of a caller, who may approve as before there were roles. */
function rolesOf(principal: Pick<Principal, 'scopes'>): readonly PageRole[] {
  const given = grantedRoles(principal)
  return given.length > 0 ? given : ['approver']
}

/** The person at the terminal. */
const operatorUser: PageUser = { by: 'operator', via: 'code', roles: everyRole, principal: anonymous }

/** The prefix of principals that authenticate with a password (`auth.basic`). */
const SERVICE = 'service:'

interface PageUserSources {
  auth(): AuthSettings
  readonly operator: Operator
}

/** Whether page users are identified only by the code from the terminal. */
export function isByCode(auth: AuthSettings): boolean {
  return !isProtected(auth) && auth.users.length === 0
}

/** The page user of a page; undefined until the code from the terminal is entered. @throws what `authenticate` throws */
export async function pageUserOf(
  incoming: IncomingMessage,
  authenticate: () => Promise<Principal>,
  { auth, operator }: PageUserSources,
): Promise<PageUser | undefined> {
  if (isByCode(auth())) {
    return operatorOf(incoming.headers.cookie, operator)
  }
  const principal = await authenticate()
  const pageUser = pageUserNamed(principal, auth())
  if (pageUser) return pageUser
  const name = principal.id.slice(SERVICE.length)
  throw new GatewayError('PERMISSION_DENIED', `${name} may not use the pages of the gateway.`, {
    suggestion: 'Set `roles` or `approves_as` for this name in auth.basic of the configuration.',
  })
}

/** The person at the terminal, by the cookies of a request. */
export function operatorOf(cookies: string | undefined, operator: Operator): PageUser | undefined {
  return operator.isValid(cookies) ? operatorUser : undefined
}

/** The page user for a principal; undefined for a name without a role. */
export function pageUserNamed(
  { isSignedIn, ...principal }: Principal,
  { users }: Pick<AuthSettings, 'users'>,
): PageUser | undefined {
  const { id } = principal
  // Principals of tokens never have this prefix.
  if (!id.startsWith(SERVICE))
    return { by: id, via: isSignedIn ? 'sign_in' : 'token', roles: rolesOf(principal), principal }
  const name = id.slice(SERVICE.length)
  const user = users.find((each) => each.name === name)
  if (!user || user.roles.length === 0) return undefined
  const roles = user.roles.includes('operator') ? everyRole : user.roles
  const by = user.approvesAs ?? id
  // Calls are made in the same name, so that a person cannot decide on their own calls.
  return { by, via: 'password', roles, principal: { ...principal, id: by } }
}

/** After this many wrong codes in a minute, from all page users together, further attempts are rejected. */
const MAX_WRONG_CODES = 5
/** The lifetime of an operator session, in seconds: twelve hours. */
const LIFETIME_SECONDS = 12 * 60 * 60
/** No letters or digits that look alike. */
const ALPHABET = '23456789ABCDEFGHJKLMNPQRSTUVWXYZ'

/** Identifies the person at the terminal of a gateway, if callers are not authenticated. */
export interface Operator {
  /** The code that the terminal shows. */
  readonly code: string
  /** The lifetime of the cookie, in seconds. */
  readonly lifetime: number
  /**
   * The cookie, if the code is that of this gateway or of another one that shares its store.
   * @throws RATE_LIMIT_EXCEEDED, SERVER_UNAVAILABLE
   */
  createSession(typed: string): Promise<OperatorCookie | undefined>
  /** Whether the `cookie` header of a request has a cookie that is genuine and not expired. */
  isValid(cookies: string | undefined): boolean
}

interface OperatorCookie {
  /** Cookies are shared between ports of a host, so gateways that do not share a store have other names. */
  readonly name: string
  readonly value: string
}

interface OperatorOptions {
  /** Milliseconds since 1970. */
  now(): number
  /** The first one signs cookies, any of them verifies: those in the store are the same for all gateways that share it. */
  keys(): readonly Buffer[]
  /** Whether another gateway that shares the store shows this code. @throws SERVER_UNAVAILABLE */
  isOfOther(typed: string): Promise<boolean>
}

/** Creates a code for the lifetime of this process. */
export function createOperator({ now, keys, isOfOther }: OperatorOptions): Operator {
  const code = Array.from({ length: 8 }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')
  const attempts = createFailureCounter(MAX_WRONG_CODES, now)
  return {
    code: `${code.slice(0, 4)}-${code.slice(4)}`,
    lifetime: LIFETIME_SECONDS,
    createSession: async (typed) => {
      attempts.check('code')
      if (!isSame(plainCode(typed), code)) {
        // Counted before it is looked up, so that many at once are not more.
        const takeBack = attempts.failed('code')
        if (!(await isOfOther(typed))) return undefined
        takeBack()
      }
      const [key] = keys()
      if (!key) throw new TypeError('an operator needs a key')
      const end = String(now() + LIFETIME_SECONDS * 1000)
      return { name: cookieNameOf(key), value: `${end}.${signed(key, end)}` }
    },
    isValid: (cookies) =>
      keys().some((key) => {
        const [end = '', signature = ''] = (cookieOf(cookies, cookieNameOf(key)) ?? '').split('.')
        return isSame(signature, signed(key, end)) && Number(end) > now()
      }),
  }
}

/** Keys are also used for other purposes, so what is signed says that it is a cookie. */
function signed(key: Buffer, text: string): string {
  return createHmac('sha256', key).update(`operator cookie ${text}`).digest('base64url')
}

function cookieNameOf(key: Buffer): string {
  return `gatehouse-confirm-${createHmac('sha256', key).update('operator cookie name').digest('hex').slice(0, 8)}`
}

function isSame(one: string, other: string): boolean {
  const [first, second] = [Buffer.from(one), Buffer.from(other)]
  return first.length === second.length && timingSafeEqual(first, second)
}

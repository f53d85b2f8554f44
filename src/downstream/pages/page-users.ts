/**
 * Page users of the pages: a caller with credentials, a signed-in person, or the operator who entered the code from the
 * terminal.
 */
import { createHmac, randomBytes, randomInt, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type AuthSettings, isProtected } from '../../core/auth-settings.ts'
import { GatewayError } from '../../core/error.ts'
import { createFailureCounter } from '../../core/failure-counter.ts'
import type { Principal } from '../../core/principal.ts'
import { cookieOf } from '../../core/web.ts'
import { plainCode } from '../../records/approval-codes.ts'
import type { Decision } from '../../records/approvals.ts'

/** A page user of a page, and how the page user was identified. */
export type PageUser = Pick<Decision, 'by' | 'via'>

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
    const isValid = operator.isValid(cookieOf(incoming.headers.cookie, operator.cookie))
    return isValid ? { by: 'operator', via: 'code' } : undefined
  }
  const principal = await authenticate()
  const pageUser = pageUserNamed(principal, auth())
  if (pageUser) return pageUser
  const name = principal.id.slice(SERVICE.length)
  throw new GatewayError('PERMISSION_DENIED', `${name} may not approve calls.`, {
    suggestion: 'Set `approves_as` for this name in auth.basic of the configuration.',
  })
}

/** The page user for a principal; undefined for a name that may not approve calls. */
export function pageUserNamed(
  { id, isSignedIn }: Pick<Principal, 'id' | 'isSignedIn'>,
  { users }: Pick<AuthSettings, 'users'>,
): PageUser | undefined {
  // Principals of tokens never have this prefix.
  if (!id.startsWith(SERVICE)) return { by: id, via: isSignedIn ? 'sign_in' : 'token' }
  const name = id.slice(SERVICE.length)
  const by = users.find((user) => user.name === name)?.approvesAs
  return by === undefined ? undefined : { by, via: 'password' }
}

/** After this many wrong codes in a minute, from all page users together, further attempts are rejected. */
const MAX_WRONG_CODES = 5
/** The lifetime of an operator session, in seconds: twelve hours. */
const LIFETIME_SECONDS = 12 * 60 * 60
/** No letters or digits that look alike. */
const ALPHABET = '23456789ABCDEFGHJKLMNPQRSTUVWXYZ'

/** Identifies the person at the terminal of this process, if callers are not authenticated. */
export interface Operator {
  /** The code that the terminal shows. */
  readonly code: string
  /** The name of the cookie; unique, because cookies are shared between ports of a host. */
  readonly cookie: string
  /** The lifetime of the cookie, in seconds. */
  readonly lifetime: number
  /** The value of the cookie if the code is right, else undefined. @throws RATE_LIMIT_EXCEEDED */
  createSession(typed: string): string | undefined
  /** Whether a cookie value is genuine and not expired. */
  isValid(cookie: string | undefined): boolean
}

/** Creates a code for the lifetime of this process; `now` returns milliseconds since 1970. */
export function createOperator(now: () => number): Operator {
  const code = Array.from({ length: 8 }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')
  const key = randomBytes(32)
  const sign = (text: string): string => createHmac('sha256', key).update(text).digest('base64url')
  const isSame = (one: string, other: string): boolean =>
    timingSafeEqual(Buffer.from(sign(one)), Buffer.from(sign(other)))
  const attempts = createFailureCounter(MAX_WRONG_CODES, now)
  return {
    code: `${code.slice(0, 4)}-${code.slice(4)}`,
    lifetime: LIFETIME_SECONDS,
    cookie: `gatehouse-confirm-${randomBytes(4).toString('hex')}`,
    createSession: (typed) => {
      attempts.check('code')
      if (isSame(plainCode(typed), code)) {
        const end = String(now() + LIFETIME_SECONDS * 1000)
        return `${end}.${sign(end)}`
      }
      attempts.failed('code')
      return undefined
    },
    isValid: (cookie = '') => {
      const [end = '', signature = ''] = cookie.split('.')
      return isSame(signature, sign(end)) && Number(end) > now()
    },
  }
}

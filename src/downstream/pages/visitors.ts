/**
 * Who looks at the pages: a caller with credentials, a signed-in person, or the operator who typed the code of
 * the terminal.
 */
import { createHmac, randomBytes, randomInt, timingSafeEqual } from 'node:crypto'
import type { IncomingMessage } from 'node:http'
import { type AuthSettings, isProtected } from '../../core/auth-settings.ts'
import { GatewayError } from '../../core/error.ts'
import { createFailureCounter } from '../../core/failure-counter.ts'
import type { Principal } from '../../core/principal.ts'
import { cookieOf } from '../../core/web.ts'
import type { Decision } from '../../records/approvals.ts'

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

/** The visitor of a page; undefined until the code of the terminal was typed. @throws what `enter` throws */
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

/** How many wrong codes a minute are taken, from all together. */
const WRONG_CODES = 5
/** How long whoever typed the code is known, in seconds: twelve hours. */
const LIFETIME = 12 * 60 * 60
/** No letter or digit that looks like another one. */
const ALPHABET = '23456789ABCDEFGHJKLMNPQRSTUVWXYZ'

/** Recognizes the person at the terminal of this process, where callers are not authenticated. */
export interface Operator {
  /** What the terminal shows. */
  readonly code: string
  /** The name of the cookie; gateways on other ports of a machine have others. */
  readonly cookie: string
  /** How long whoever typed the code is known, in seconds. */
  readonly lifetime: number
  /** The value of a cookie for whoever types the code; nothing for any other text. @throws RATE_LIMIT_EXCEEDED */
  enter(typed: string): string | undefined
  /** Whether a cookie is one that was given out, and its time is not over. */
  isKnown(cookie: string | undefined): boolean
}

/** Makes a code for as long as this process lives; `now` tells the time in milliseconds since 1970. */
export function createOperator(now: () => number): Operator {
  const code = Array.from({ length: 8 }, () => ALPHABET[randomInt(ALPHABET.length)]).join('')
  const key = randomBytes(32)
  const sign = (text: string): string => createHmac('sha256', key).update(text).digest('base64url')
  const isSame = (one: string, other: string): boolean =>
    timingSafeEqual(Buffer.from(sign(one)), Buffer.from(sign(other)))
  const tries = createFailureCounter(WRONG_CODES, now)
  return {
    code: `${code.slice(0, 4)}-${code.slice(4)}`,
    lifetime: LIFETIME,
    cookie: `gatehouse-confirm-${randomBytes(4).toString('hex')}`,
    enter: (typed) => {
      tries.check('code')
      if (isSame(typed.toUpperCase().replaceAll(/[^0-9A-Z]/g, ''), code)) {
        const end = String(now() + LIFETIME * 1000)
        return `${end}.${sign(end)}`
      }
      tries.failed('code')
      return undefined
    },
    isKnown: (cookie = '') => {
      const [end = '', signature = ''] = cookie.split('.')
      return isSame(signature, sign(end)) && Number(end) > now()
    },
  }
}

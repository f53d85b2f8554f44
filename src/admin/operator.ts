import { createHmac, randomBytes, randomInt, timingSafeEqual } from 'node:crypto'
import { createFailureCounter } from '../core/tries.ts'

/** How many wrong codes a minute are taken, from all together. */
const WRONG_CODES = 5
/** How long whoever typed the code is known, in seconds: twelve hours. */
const LIFETIME = 12 * 60 * 60
/** No letter or digit that looks like another one. */
const ALPHABET = '23456789ABCDEFGHJKLMNPQRSTUVWXYZ'

/** Tells who sits at the terminal of this process, where nobody else can be told from anybody. */
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

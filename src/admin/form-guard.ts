import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto'
import { GatewayError } from '../core/error.ts'
import type { Store } from '../store/store.ts'
import type { Visitor } from './visitors.ts'

/** Under which key of the store the key of forms is, and for how long, in milliseconds. */
const STORE_KEY = 'key:forms'
const KEY_TTL_MS = 365 * 24 * 60 * 60_000

/** Tells forms this gateway made for a person from those other pages made a browser send. */
export interface FormGuard {
  /** What a form for an approval and a person has to say. */
  token(id: string, visitor: Visitor): Promise<string>
  isRight(token: string, id: string, visitor: Visitor): Promise<boolean>
}

/** Guards forms with a key that all gateways of a store share, as each may get what another one's form sends. */
export function createFormGuard(store: () => Store): FormGuard {
  const token: FormGuard['token'] = async (id, { by, via }) => {
    const key = Buffer.from(await sharedKey(store()), 'base64')
    return createHmac('sha256', key)
      .update(JSON.stringify([id, by, via]))
      .digest('base64url')
  }
  return {
    token,
    isRight: async (given, id, visitor) => {
      const wanted = Buffer.from(await token(id, visitor))
      const found = Buffer.from(given)
      return found.length === wanted.length && timingSafeEqual(found, wanted)
    },
  }
}

async function sharedKey(store: Store): Promise<string> {
  const known = await store.get(STORE_KEY)
  if (known !== undefined) return known
  const fresh = randomBytes(32).toString('base64')
  return (await store.setIfAbsent(STORE_KEY, fresh, KEY_TTL_MS)) ?? fresh
}

/** The refusal of what may come from another page. */
export function notFromHere(): GatewayError {
  return new GatewayError(
    'FORBIDDEN',
    'This was not sent from a page of the gateway. Open the page, and decide there.',
    {
      suggestion: 'Programs send Authorization and Content-Type: application/json.',
    },
  )
}

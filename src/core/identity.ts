/** The name and version of this program, and request ids. */
import { createHmac } from 'node:crypto'
import { world } from './world.ts'

/** The name and version the gateway identifies itself with. */
export const self = { name: 'gatehouse', title: 'Gatehouse', version: '0.3.0' } as const

/** The prefix of every key, method and extension the gateway defines. */
export const NS = 'dev.gatehouse'

/** Sessions end with the process, so each process has its own key. */
const sessionKey = world.randomBytes(32)

/**
 * A session in logs and spans: whoever has its id can use it, so this is a keyed hash, the same for everything that is said
 * of one session and of use nowhere else.
 */
export function sessionDigest(id: string): string {
  return createHmac('sha256', sessionKey).update(id).digest('hex').slice(0, 32)
}

/** A new request id. */
export function newRequestId(): string {
  return world.requestId()
}

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

/** The maximum length of the name of a client, in characters. */
const MAX_CLIENT_NAME_LENGTH = 128

/** The name and version of a client, by its own account (`clientInfo`); undefined if it has no name. */
export function clientName(info: Readonly<Record<string, unknown>> = {}): string | undefined {
  const { name, version } = info
  if (typeof name !== 'string') return undefined
  return (typeof version === 'string' ? `${name} ${version}` : name)
    .slice(0, MAX_CLIENT_NAME_LENGTH)
    .toWellFormed()
}

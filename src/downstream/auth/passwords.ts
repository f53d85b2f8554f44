/** Passwords of users: scrypt, a few at a time, and a pause after wrong ones. */
import { hash, scrypt, timingSafeEqual } from 'node:crypto'
import { promisify } from 'node:util'
import { LRUCache } from 'lru-cache'
import type { BasicUser } from '../../core/auth-settings.ts'
import { GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import { createFailureCounter } from '../../core/failure-counter.ts'
import { unauthorized } from './verified.ts'

/** How many passwords are tried side by side: each one costs some 50 ms of a core. */
const MAX_CONCURRENT_CHECKS = 4

/** How many wrong passwords of one name are looked at in a minute. */
const WRONG_PASSWORDS = 10

const derive = promisify<string, string, number, Buffer>(scrypt)

/** Checks names and passwords. The result throws AUTHENTICATION_REQUIRED, OVERLOADED, RATE_LIMIT_EXCEEDED. */
export function createPasswords(
  users: readonly BasicUser[],
): (credentials: { readonly name: string; readonly password: string }) => Promise<Principal> {
  const known = new LRUCache<string, Principal>({ max: 100 })
  const tries = createFailureCounter(WRONG_PASSWORDS, Date.now)
  let running = 0

  return async ({ name, password }) => {
    const key = hash('sha256', `${name}:${password}`, 'base64')
    const found = known.get(key)
    if (found) return found
    tries.check(name)
    if (running >= MAX_CONCURRENT_CHECKS)
      throw new GatewayError('OVERLOADED', 'Too many passwords are checked right now.')
    running++
    try {
      const user = users.find((each) => each.name === name)
      // Work is done for unknown names too, so that they cannot be told by the time it takes.
      const [, salt = '', digest = ''] = (
        user?.passwordHash.reveal() ?? `scrypt:nobody:${'0'.repeat(64)}`
      ).split(':')
      const derived = await derive(password, salt, 32)
      if (!timingSafeEqual(derived, Buffer.from(digest, 'hex')) || !user) {
        tries.failed(name)
        throw unauthorized('password', 'The name or password is wrong.')
      }
      const principal = { id: `service:${name}` }
      known.set(key, principal)
      return principal
    } finally {
      running--
    }
  }
}

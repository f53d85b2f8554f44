import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { GatewayError } from '../../core/error.ts'
import { MAX_CACHE_MS, type Verified } from './verified.ts'

/** How many tokens are remembered, good and bad. */
const MAX_ACCEPTED_TOKENS = 10_000
const MAX_REJECTED_TOKENS = 2000
/** How long a bad token stays refused without another look, in milliseconds. */
const REJECTED_TTL_MS = 10_000
/** How many tokens are looked at side by side. */
const MAX_CONCURRENT_CHECKS = 256

interface Options {
  verify(token: string): Promise<Verified>
  now(): number
}

/**
 * Remembers which tokens are good, by their hashes: at once for a token that is known, else when it was looked at.
 * The result throws what `verify` throws, and OVERLOADED when too many are under way.
 */
export function createTokenCache({ verify, now }: Options): (token: string) => Verified | Promise<Verified> {
  const good = new LRUCache<string, Verified>({ max: MAX_ACCEPTED_TOKENS })
  const bad = new LRUCache<string, { readonly error: GatewayError; readonly until: number }>({
    max: MAX_REJECTED_TOKENS,
  })
  const pending = new Map<string, Promise<Verified>>()

  const look = async (token: string, key: string): Promise<Verified> => {
    try {
      const verified = await verify(token)
      good.set(key, { ...verified, until: Math.min(verified.until, now() + MAX_CACHE_MS) })
      return verified
    } catch (error) {
      // What could not be checked is not bad.
      const isBad = error instanceof GatewayError && error.category === 'auth_required'
      if (isBad) bad.set(key, { error, until: now() + REJECTED_TTL_MS })
      throw error
    } finally {
      pending.delete(key)
    }
  }

  return (token) => {
    const key = hash('sha256', token, 'base64')
    const known = good.get(key)
    if (known) {
      if (known.until > now()) return known
      good.delete(key)
    }
    const refused = bad.get(key)
    if (refused && refused.until > now()) throw refused.error
    const running = pending.get(key)
    if (running) return running
    if (pending.size >= MAX_CONCURRENT_CHECKS) throw overloaded()
    const looked = look(token, key)
    pending.set(key, looked)
    return looked
  }
}

function overloaded(): GatewayError {
  return new GatewayError('OVERLOADED', 'Too many tokens are checked right now.', { reason: 'overloaded' })
}

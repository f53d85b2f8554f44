import type { CryptoKey, FlattenedJWSInput, JSONWebKeySet, JWSHeaderParameters } from 'jose'
import type { GatewayError } from '../../core/error.ts'
import { unavailable } from './refusal.ts'

/** Finds the key a token was signed with. */
export type FindKey = (header?: JWSHeaderParameters, token?: FlattenedJWSInput) => Promise<CryptoKey>

/** The keys of an issuer. */
export interface Keys extends FindKey {
  /** Whether there are keys; fetches them where there are none yet. */
  works(): Promise<boolean>
}

interface KeysOptions {
  /** Fetches the key set. */
  load(): Promise<unknown>
  now(): number
}

/** How long keys are used, and from when on they are fetched anew in the background, in milliseconds. */
const MAX_KEY_AGE_MS = 10 * 60_000
const KEYS_STALE_MS = 5 * 60_000
/** How long nothing is fetched after a token named an unknown key, or after a failure: at first and at most. */
const FIRST_RETRY_DELAY_MS = 1000
const MAX_RETRY_DELAY_MS = 60_000

/**
 * The keys of an issuer, fetched when they are needed. Callers can not make it fetch more often than its waits
 * allow, whatever keys they name. The result throws jose's errors, and SERVER_UNAVAILABLE where there are no keys.
 */
export function createKeys({ load, now }: KeysOptions): Keys {
  let keys: FindKey | undefined
  let loadedAt = -Infinity
  let pending: Promise<void> | undefined
  const misses = createWait(now)
  const failures = createWait(now)

  const fetchKeys = async (): Promise<void> => {
    try {
      const [loaded, { createLocalJWKSet }] = await Promise.all([load(), import('jose')])
      // It checks the shape of the whole set.
      keys = createLocalJWKSet(loaded as JSONWebKeySet)
      loadedAt = now()
      failures.reset()
    } catch (error) {
      failures.lengthen()
      throw noKeys(error)
    }
  }
  const refresh = (): Promise<void> => {
    pending ??= fetchKeys().finally(() => (pending = undefined))
    return pending
  }
  const current = async (): Promise<FindKey> => {
    const age = now() - loadedAt
    if (keys && age < MAX_KEY_AGE_MS) {
      if (age >= KEYS_STALE_MS && failures.isOver) refresh().catch(() => undefined)
      return keys
    }
    if (!pending && !failures.isOver) throw noKeys()
    await refresh()
    if (!keys) throw noKeys()
    return keys
  }

  const find: FindKey = async (header, token) => {
    const known = await current()
    try {
      return await known(header, token)
    } catch (error) {
      const { errors } = await import('jose')
      if (!(error instanceof errors.JWKSNoMatchingKey)) throw error
      // Those who come while keys are fetched learn from that fetch too.
      if (!pending) {
        if (!failures.isOver) throw noKeys()
        if (!misses.isOver) throw error
        misses.lengthen()
      }
      await refresh()
      const found = await (await current())(header, token)
      misses.reset()
      return found
    }
  }
  const works = (): Promise<boolean> =>
    current().then(
      () => true,
      () => false,
    )
  return Object.assign(find, { works })
}

function noKeys(cause?: unknown): GatewayError {
  return unavailable('The keys that tokens are checked with can not be had.', cause)
}

/** A time in which something is not done again, twice as long each time. */
interface Wait {
  readonly isOver: boolean
  lengthen(): void
  reset(): void
}

function createWait(now: () => number): Wait {
  let wait = FIRST_RETRY_DELAY_MS
  let until = -Infinity
  return {
    get isOver() {
      return now() >= until
    },
    lengthen: () => {
      until = now() + wait
      wait = Math.min(wait * 2, MAX_RETRY_DELAY_MS)
    },
    reset: () => {
      wait = FIRST_RETRY_DELAY_MS
      until = -Infinity
    },
  }
}

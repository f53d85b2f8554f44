import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json.ts'
import { background, type Log } from '../../core/log.ts'
import type { Principal } from '../../core/principal.ts'
import type { Store } from '../../store/store.ts'

/** What a session token is worth. */
export interface Session {
  readonly scopes: readonly string[]
  /** In milliseconds since 1970. */
  readonly expiresAt: number
}

/** A session and the tokens that were given out for it. */
export interface Granted extends Session {
  readonly token: string
  readonly refreshToken: string
}

interface Options {
  readonly store: Store
  readonly log: Log
  /** How long a session that is not used is kept, in milliseconds. */
  readonly idle: number
  /** How long a session may be kept up by refreshing it, in milliseconds. */
  readonly maxTtl: number
}

/** A session as it is kept: who it is for, and the hashes of its tokens. */
interface Kept extends Session {
  readonly principal: string
  readonly token: string
  readonly refresh: string
  readonly ttl: number
}

/** Sessions that narrow what a caller may do. Tokens are kept as hashes alone. */
export class Sessions {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  get idle(): number {
    return this.#options.idle
  }

  /** Opens a session for at most so many milliseconds. */
  open(principal: Principal, scopes: readonly string[], ttl: number): Promise<Granted> {
    return this.#grant(randomBytes(16).toString('base64url'), principal, scopes, ttl)
  }

  /** The session of a token. @throws TOKEN_EXPIRED for one that is over, unused for long, unknown, or another's */
  async find(token: string, principal: Principal): Promise<Session> {
    const { store, log, idle } = this.#options
    const [id, secret] = partsOf(token)
    const [kept, usedAt] = await Promise.all([this.#read(id), store.get(usedKey(id))])
    const now = Date.now()
    const isGood = kept !== undefined && isSame(kept.token, secret) && kept.principal === principal.id
    if (!isGood || kept.expiresAt <= now || usedAt === undefined || Number(usedAt) + idle <= now) {
      throw new GatewayError('TOKEN_EXPIRED', 'The session token is not good any more.', {
        suggestion: 'Negotiate scopes again, or go on without a session token.',
      })
    }
    // Noting each use would be one write for each call.
    if (now - Number(usedAt) > idle / NOTES) background(store.put(usedKey(id), String(now), idle), log)
    return kept
  }

  /**
   * Goes on with a session under new tokens. A refresh token is good once: where one comes a second time, somebody
   * else may have it, and the session ends. @throws TOKEN_EXPIRED
   */
  async refresh(token: string, principal: Principal): Promise<Granted> {
    const { store } = this.#options
    const [id, secret] = partsOf(token)
    const kept = await this.#read(id)
    if (kept?.principal === principal.id) {
      const isFresh = isSame(kept.refresh, secret) && (await store.delete(refreshKey(id, kept.refresh)))
      if (isFresh) return this.#grant(id, principal, kept.scopes, kept.ttl)
      await store.delete(sessionKey(id))
    }
    throw new GatewayError('TOKEN_EXPIRED', 'The refresh token is not good any more.', {
      suggestion: 'Negotiate scopes again.',
    })
  }

  async #grant(id: string, principal: Principal, scopes: readonly string[], ttl: number): Promise<Granted> {
    const { store, idle, maxTtl } = this.#options
    const [secret, refresh] = [randomBytes(32).toString('base64url'), randomBytes(32).toString('base64url')]
    const expiresAt = Date.now() + ttl
    const kept: Kept = {
      principal: principal.id,
      scopes,
      ttl,
      expiresAt,
      token: hash(secret),
      refresh: hash(refresh),
    }
    await Promise.all([
      store.put(sessionKey(id), JSON.stringify(kept), maxTtl),
      store.put(usedKey(id), String(Date.now()), idle),
      store.put(refreshKey(id, kept.refresh), '', maxTtl),
    ])
    return { scopes, expiresAt, token: `${id}.${secret}`, refreshToken: `${id}.${refresh}` }
  }

  async #read(id: string): Promise<Kept | undefined> {
    const text = await this.#options.store.get(sessionKey(id))
    if (text === undefined) return undefined
    const value: unknown = JSON.parse(text)
    // Written above.
    return isObject(value) ? (value as unknown as Kept) : undefined
  }
}

/** How many uses are noted at most while a session would become idle. */
const NOTES = 20

function sessionKey(id: string): string {
  return `session:${id}`
}

function usedKey(id: string): string {
  return `session:${id}:used`
}

function refreshKey(id: string, hashed: string): string {
  return `session:${id}:refresh:${hashed}`
}

function partsOf(token: string): [id: string, secret: string] {
  const [, id = '', secret = ''] = /^([\w-]{1,64})\.([\w-]{1,64})$/.exec(token) ?? []
  return [id, secret]
}

function hash(secret: string): string {
  return createHash('sha256').update(secret).digest('base64url')
}

function isSame(hashed: string, secret: string): boolean {
  return timingSafeEqual(Buffer.from(hashed), Buffer.from(hash(secret)))
}

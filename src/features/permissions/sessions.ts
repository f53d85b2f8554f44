/** Sessions with fewer scopes, by tokens that are stored as hashes and refreshed. */
import { createHash, timingSafeEqual } from 'node:crypto'
import { world } from '../../core/world.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { background, type Log } from '../../core/log.ts'
import type { Principal } from '../../core/principal.ts'
import type { Store } from '../../store/store.ts'
import { parseJson } from '../../core/json/read.ts'

/** The scopes and lifetime of a session token. */
export interface Session {
  readonly scopes: readonly string[]
  /** In milliseconds since 1970. */
  readonly expiresAt: number
}

/** A session and its tokens. */
export interface Granted extends Session {
  readonly token: string
  readonly refreshToken: string
}

interface Options {
  readonly store: Store
  readonly log: Log
  /** How long an unused session is kept, in milliseconds. */
  readonly idle: number
  /** The longest duration of a session, including refreshes, in milliseconds. */
  readonly maxTtl: number
}

/** A session as it is stored: its principal, and the hashes of its tokens. */
interface StoredSession extends Session {
  readonly principal: string
  readonly token: string
  readonly refresh: string
  readonly ttl: number
  /** When it ends for good, in milliseconds since 1970. */
  readonly endsAt: number
}

/** The lifetime of a session, in milliseconds. */
interface Lifetime {
  /** Without a refresh. */
  readonly ttl: number
  /** Including refreshes. */
  readonly maxDuration: number
}

/** Sessions that restrict what a caller may do. Tokens are stored as hashes only. */
export class Sessions {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  get idle(): number {
    return this.#options.idle
  }

  /** Opens a session with the given lifetime. */
  open(principal: Principal, scopes: readonly string[], { ttl, maxDuration }: Lifetime): Promise<Granted> {
    const id = world.randomBytes(16).toString('base64url')
    const duration = Math.min(maxDuration, this.#options.maxTtl)
    const lifetime = { ttl: Math.min(ttl, duration), endsAt: world.now() + duration }
    return this.#grant(id, { principal: principal.id, scopes, ...lifetime })
  }

  /** The session of a token. @throws TOKEN_EXPIRED if it has expired, was idle too long, is unknown, or belongs to another caller */
  async find(token: string, principal: Principal): Promise<Session> {
    const { store, log, idle } = this.#options
    const [id, secret] = partsOf(token)
    const [stored, usedAt] = await Promise.all([this.#read(id), store.get(usedKey(id))])
    const now = world.now()
    const isValid = stored !== undefined && isSame(stored.token, secret) && stored.principal === principal.id
    if (!isValid || hasExpired(stored, usedAt, idle)) {
      throw new GatewayError('TOKEN_EXPIRED', 'The session token is no longer valid.', {
        suggestion: 'Negotiate scopes again, or continue without a session token.',
      })
    }
    // Recording each use would be one write for each call.
    if (now - Number(usedAt) > idle / MAX_RECORDED_USES)
      background(store.put(usedKey(id), String(now), idle), log)
    return stored
  }

  /**
   * Continues a session with new tokens, up to its original end. A refresh token is valid once: if it is used a second
   * time, it may have been stolen, and the session ends. @throws TOKEN_EXPIRED also if the session has expired or was idle
   * too long
   */
  async refresh(token: string, principal: Principal): Promise<Granted> {
    const { store, idle } = this.#options
    const [id, secret] = partsOf(token)
    const [stored, usedAt] = await Promise.all([this.#read(id), store.get(usedKey(id))])
    if (stored?.principal === principal.id) {
      const isValid = isSame(stored.refresh, secret) && !hasExpired(stored, usedAt, idle)
      if (isValid && (await store.delete(refreshKey(id, stored.refresh)))) return this.#grant(id, stored)
      await store.delete(sessionKey(id))
    }
    throw new GatewayError('TOKEN_EXPIRED', 'The refresh token is no longer valid.', {
      suggestion: 'Negotiate scopes again.',
    })
  }

  async #grant(
    id: string,
    { principal, scopes, ttl, endsAt }: Pick<StoredSession, 'principal' | 'scopes' | 'ttl' | 'endsAt'>,
  ): Promise<Granted> {
    const { store, idle } = this.#options
    const [secret, refresh] = [
      world.randomBytes(32).toString('base64url'),
      world.randomBytes(32).toString('base64url'),
    ]
    const now = world.now()
    const expiresAt = Math.min(now + ttl, endsAt)
    const token = hash(secret)
    const stored: StoredSession = { principal, scopes, ttl, endsAt, expiresAt, token, refresh: hash(refresh) }
    await Promise.all([
      store.put(sessionKey(id), JSON.stringify(stored), endsAt - now),
      store.put(usedKey(id), String(now), idle),
      store.put(refreshKey(id, stored.refresh), '', endsAt - now),
    ])
    return { scopes, expiresAt, token: `${id}.${secret}`, refreshToken: `${id}.${refresh}` }
  }

  async #read(id: string): Promise<StoredSession | undefined> {
    const text = await this.#options.store.get(sessionKey(id))
    if (text === undefined) return undefined
    const value: unknown = parseJson(text)
    // Written above. Sessions of earlier versions have no separate end.
    return isObject(value) ? ({ endsAt: value.expiresAt, ...value } as unknown as StoredSession) : undefined
  }
}

/** How many uses are recorded at most within one idle timeout. */
const MAX_RECORDED_USES = 20

/** Whether a session has expired or was idle too long. */
function hasExpired({ expiresAt }: StoredSession, usedAt: string | undefined, idle: number): boolean {
  const now = world.now()
  return expiresAt <= now || usedAt === undefined || Number(usedAt) + idle <= now
}

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

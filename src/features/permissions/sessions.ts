/** Sessions with fewer scopes, by tokens that are stored as hashes and refreshed. */
import { createHash, randomBytes, timingSafeEqual } from 'node:crypto'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
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
  /** The longest a session lasts, however often it is refreshed, in milliseconds. */
  readonly maxTtl: number
}

/** A session as it is kept: who it is for, and the hashes of its tokens. */
interface Kept extends Session {
  readonly principal: string
  readonly token: string
  readonly refresh: string
  readonly ttl: number
  /** When it ends for good, in milliseconds since 1970. */
  readonly endsAt: number
}

/** How long a session lasts, in milliseconds. */
interface Span {
  /** Unless it is refreshed. */
  readonly ttl: number
  /** However often it is refreshed. */
  readonly longest: number
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

  /** Opens a session for at most so long. */
  open(principal: Principal, scopes: readonly string[], { ttl, longest }: Span): Promise<Granted> {
    const id = randomBytes(16).toString('base64url')
    const most = Math.min(longest, this.#options.maxTtl)
    const span = { ttl: Math.min(ttl, most), endsAt: Date.now() + most }
    return this.#grant(id, { principal: principal.id, scopes, ...span })
  }

  /** The session of a token. @throws TOKEN_EXPIRED for one that is over, unused for long, unknown, or another's */
  async find(token: string, principal: Principal): Promise<Session> {
    const { store, log, idle } = this.#options
    const [id, secret] = partsOf(token)
    const [kept, usedAt] = await Promise.all([this.#read(id), store.get(usedKey(id))])
    const now = Date.now()
    const isGood = kept !== undefined && isSame(kept.token, secret) && kept.principal === principal.id
    if (!isGood || isOver(kept, usedAt, idle)) {
      throw new GatewayError('TOKEN_EXPIRED', 'The session token is not good any more.', {
        suggestion: 'Negotiate scopes again, or go on without a session token.',
      })
    }
    // Noting each use would be one write for each call.
    if (now - Number(usedAt) > idle / NOTES) background(store.put(usedKey(id), String(now), idle), log)
    return kept
  }

  /**
   * Goes on with a session under new tokens, up to the end it was opened with. A refresh token is good once: where
   * one comes a second time, it may have been stolen, and the session ends. @throws TOKEN_EXPIRED also where it is
   * over or was not used for long
   */
  async refresh(token: string, principal: Principal): Promise<Granted> {
    const { store, idle } = this.#options
    const [id, secret] = partsOf(token)
    const [kept, usedAt] = await Promise.all([this.#read(id), store.get(usedKey(id))])
    if (kept?.principal === principal.id) {
      const isGood = isSame(kept.refresh, secret) && !isOver(kept, usedAt, idle)
      if (isGood && (await store.delete(refreshKey(id, kept.refresh)))) return this.#grant(id, kept)
      await store.delete(sessionKey(id))
    }
    throw new GatewayError('TOKEN_EXPIRED', 'The refresh token is not good any more.', {
      suggestion: 'Negotiate scopes again.',
    })
  }

  async #grant(
    id: string,
    { principal, scopes, ttl, endsAt }: Pick<Kept, 'principal' | 'scopes' | 'ttl' | 'endsAt'>,
  ): Promise<Granted> {
    const { store, idle } = this.#options
    const [secret, refresh] = [randomBytes(32).toString('base64url'), randomBytes(32).toString('base64url')]
    const now = Date.now()
    const expiresAt = Math.min(now + ttl, endsAt)
    const token = hash(secret)
    const kept: Kept = { principal, scopes, ttl, endsAt, expiresAt, token, refresh: hash(refresh) }
    await Promise.all([
      store.put(sessionKey(id), JSON.stringify(kept), endsAt - now),
      store.put(usedKey(id), String(now), idle),
      store.put(refreshKey(id, kept.refresh), '', endsAt - now),
    ])
    return { scopes, expiresAt, token: `${id}.${secret}`, refreshToken: `${id}.${refresh}` }
  }

  async #read(id: string): Promise<Kept | undefined> {
    const text = await this.#options.store.get(sessionKey(id))
    if (text === undefined) return undefined
    const value: unknown = JSON.parse(text)
    // Written above. One without an end of its own ends with its token.
    return isObject(value) ? ({ endsAt: value.expiresAt, ...value } as unknown as Kept) : undefined
  }
}

/** How many uses are noted at most while a session would become idle. */
const NOTES = 20

/** Whether the time of a session has passed, or it was not used for long. */
function isOver({ expiresAt }: Kept, usedAt: string | undefined, idle: number): boolean {
  const now = Date.now()
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

/**
 * State tokens: a session, sealed for its caller and server, or a short handle of one in the store. A handle is issued
 * where models copy it, and for a session that does not fit into a token.
 */
import { world } from '../../core/world.ts'
import type { Call } from '../../core/call.ts'
import type { Seal, SealUse } from '../../core/seal.ts'
import { SessionStates } from '../../records/session-states.ts'
import type { Services } from '../feature.ts'
import { afterCall, asSession, hasExpired, newSession, type Session, type SessionChanges } from './session.ts'

/** A token that a client sent. */
export type Presented =
  | { readonly kind: 'valid'; readonly session: Session; readonly handle?: string }
  | { readonly kind: 'expired'; readonly session: Session }
  | { readonly kind: 'invalid' }

/** A token for the client, and the session that it stands for. */
export interface Issued {
  readonly session: Session
  /** Absent if the session is too large, or too many are kept. */
  readonly token?: string
}

interface IssueOptions {
  /** The handle that the client has. */
  readonly handle?: string | undefined
  /** Whether a new token is a handle, if one can be kept. */
  readonly isShort: boolean
  readonly limits: TokenLimits
}

interface TokenLimits {
  /** The lifetime of a session, in milliseconds. */
  readonly ttl: number
  /** The longest token, in bytes. */
  readonly max: number
}

/** How long a handle is known after its session expired, so that its client learns why it is refused, in milliseconds. */
const EXPIRED_TTL_MS = 3_600_000

/** Opens and issues tokens. */
export class StateTokens {
  readonly #seal: Seal
  readonly #states: SessionStates

  constructor({ identity, store }: Pick<Services, 'identity' | 'store'>) {
    this.#seal = identity.seal
    this.#states = new SessionStates(store)
  }

  /** The session of a token. All tokens that are not of this caller and server fail alike. @throws SERVER_UNAVAILABLE */
  async open(text: string, call: Call): Promise<Presented> {
    const isHandle = SessionStates.isHandle(text)
    const sealed = isHandle ? await this.#states.find(call.principal, text) : text
    const session = sealed === undefined ? undefined : this.#unsealed(sealed, call)
    if (!session) return { kind: 'invalid' }
    if (hasExpired(session, world.now())) return { kind: 'expired', session }
    return { kind: 'valid', session, ...(isHandle && { handle: text }) }
  }

  /** The token of a session after a call. @throws SERVER_UNAVAILABLE */
  async issue(
    before: Session | undefined,
    changes: SessionChanges,
    call: Call,
    { handle, isShort, limits }: IssueOptions,
  ): Promise<Issued> {
    const { ttl, max } = limits
    const lifetime = { ttl, now: world.now() }
    const base = before ?? newSession(call.target.upstream ?? '', lifetime)
    if (handle !== undefined) {
      let session = base
      const change = (text: string | undefined): string => {
        const stored = text === undefined ? undefined : this.#unsealed(text, call)
        session = afterCall(stored ?? base, changes, lifetime)
        return this.#sealed(session, call)
      }
      const kept = await this.#states.change(call.principal, handle, { change, ttl: ttl + EXPIRED_TTL_MS })
      return { session, ...(kept !== undefined && { token: handle }) }
    }
    const session = afterCall(base, changes, lifetime)
    const sealed = this.#sealed(session, call)
    const isFitting = Buffer.byteLength(sealed) <= max
    const short =
      isShort || !isFitting ? await this.#states.add(call.principal, sealed, ttl + EXPIRED_TTL_MS) : undefined
    const token = short ?? (isFitting ? sealed : undefined)
    return { session, ...(token !== undefined && { token }) }
  }

  /** A token of a new session, for a client whose own token is refused. */
  fresh(call: Call, ttl: number): Required<Issued> {
    const session = newSession(call.target.upstream ?? '', { ttl, now: world.now() })
    return { session, token: this.#sealed(session, call) }
  }

  // The expiry is in the session, so that the session of an expired token is still known.

  #sealed(session: Session, call: Call): string {
    return this.#seal.close(session, useFor(call), 0)
  }

  #unsealed(text: string, call: Call): Session | undefined {
    const opened = this.#seal.open(text, useFor(call))
    return opened.kind === 'valid' ? asSession(opened.value) : undefined
  }
}

function useFor({ principal, target }: Call): SealUse {
  return { purpose: 'session-state', binding: JSON.stringify([principal.id, target.upstream]) }
}

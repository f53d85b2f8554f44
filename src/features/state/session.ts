/**
 * The session of one client with one server, and how calls change it. It is the content of a state token, and never
 * leaves the gateway unsealed.
 *
 * Invariant: a session whose context on the server was lost ends. What is not part of the context moves to a new session.
 */
import { world } from '../../core/world.ts'
import type { ExactNumber } from '../../core/json/exact-number.ts'
import { isObject } from '../../core/json/json.ts'
import { isoTime } from '../../core/time/waiting.ts'
import type { Call } from '../../core/call.ts'
import type { Seal, SealUse } from '../../core/seal.ts'
import { SessionStates } from '../../records/session-states.ts'
import type { Services } from '../feature.ts'

/** A session of one client with one server. */
export interface Session {
  readonly session_id: string
  readonly state: SessionState
  readonly created_at: string
  readonly expires_at: string
  readonly metadata: { readonly server_name: string; readonly tool_context: ToolContext }
  /** How often it was written. */
  readonly version: number
}

/** What calls with the token have in common. */
export interface SessionState {
  /** The id of the client's own connection to the server. */
  readonly connection?: string
  /** The process that has this connection (`Membership.id`). */
  readonly process?: string
  /** The last values of arguments, by name. */
  readonly remembered?: Readonly<Record<string, Remembered>>
  /** The open transaction. */
  readonly transaction?: string
  /** The state of a server that keeps one itself. */
  readonly own?: string
}

/** The value of an argument that can be remembered. */
export type Remembered = string | number | ExactNumber | boolean

interface ToolContext {
  readonly last_tool?: string
  readonly last_call_at?: string
}

/** The changes that a call makes to its session; a member of the state that is undefined here is removed. */
export interface SessionChanges {
  readonly state: { readonly [Key in keyof SessionState]: SessionState[Key] | undefined }
  /** The context on the server was lost. */
  readonly isLost: boolean
  /** The tool that was called; absent for other methods. */
  readonly tool?: string | undefined
}

/** How long sessions last, in milliseconds, and the time now. */
interface Lifetime {
  readonly ttl: number
  readonly now: number
}

/** A session without state. */
function newSession(server: string, { ttl, now }: Lifetime): Session {
  return {
    session_id: world.randomBytes(16).toString('base64url'),
    state: {},
    created_at: isoTime(now),
    expires_at: isoTime(now + ttl),
    metadata: { server_name: server, tool_context: {} },
    version: 0,
  }
}

/**
 * The session after a call. It lasts for `ttl` from its beginning; once half of that is over, from the call. Of
 * concurrent calls, the last one decides on each member of the state.
 */
function afterCall(session: Session, changes: SessionChanges, lifetime: Lifetime): Session {
  const { ttl, now } = lifetime
  const base = changes.isLost ? { ...newSession(serverOf(session), lifetime), state: session.state } : session
  const isDue = Date.parse(base.expires_at) - now < ttl / 2
  const merged = Object.entries({ ...base.state, ...changes.state })
  const { tool } = changes
  const toolContext: ToolContext =
    tool === undefined ? base.metadata.tool_context : { last_tool: tool, last_call_at: isoTime(now) }
  return {
    ...base,
    state: Object.fromEntries(merged.filter(([, value]) => value !== undefined)),
    expires_at: isDue ? isoTime(now + ttl) : base.expires_at,
    metadata: { ...base.metadata, tool_context: toolContext },
    version: session.version + 1,
  }
}

/** Whether a session is over. */
function hasExpired({ expires_at: end }: Session, now: number): boolean {
  return Date.parse(end) <= now
}

/** What clients may see of a session. */
export function visible({ session_id, created_at, expires_at, metadata, version }: Session): object {
  return { session_id, created_at, expires_at, metadata, version }
}

/** The content of a token as a session; undefined if another version of the gateway wrote something else. */
function asSession(value: unknown): Session | undefined {
  return isSession(value) ? value : undefined
}

function isSession(value: unknown): value is Session {
  if (!isObject(value)) return false
  const { session_id: id, state, created_at: from, expires_at: end, metadata, version } = value
  const isTimed = typeof from === 'string' && typeof end === 'string' && Number.isFinite(Date.parse(end))
  const isDescribed = isObject(metadata) && isObject(metadata.tool_context)
  return typeof id === 'string' && isObject(state) && isTimed && isDescribed && typeof version === 'number'
}

function serverOf({ metadata }: Session): string {
  return metadata.server_name
}

/*
 * State tokens: a session, sealed for its caller and server, or a short handle of one in the store. A handle is issued
 * where models copy it, and for a session that does not fit into a token.
 */

/** A token that a client sent. */
type Presented =
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
      const kept = await this.#states.change(call.principal, handle, change, ttl + EXPIRED_TTL_MS)
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

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
export function newSession(server: string, { ttl, now }: Lifetime): Session {
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
export function afterCall(session: Session, changes: SessionChanges, lifetime: Lifetime): Session {
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
export function hasExpired({ expires_at: end }: Session, now: number): boolean {
  return Date.parse(end) <= now
}

/** What clients may see of a session. */
export function visible({ session_id, created_at, expires_at, metadata, version }: Session): object {
  return { session_id, created_at, expires_at, metadata, version }
}

/** The content of a token as a session; undefined if another version of the gateway wrote something else. */
export function asSession(value: unknown): Session | undefined {
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

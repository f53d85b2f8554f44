/** How results and errors carry the state, and what a server that keeps a state itself sends. */
import { world } from '../../core/world.ts'
import type { Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { SESSION_KEY, SESSION_STATE, SESSION_STATE_KEY, STATE_CHANGED_KEY } from '../../protocol/meta-keys.ts'
import { type Session, visible } from './session.ts'
import type { Issued } from './tokens.ts'

/** What a result says about the state. */
export interface Statement extends Issued {
  readonly isChanged: boolean
  /** Whether the client's context on the server is new, or an earlier one was lost. */
  readonly context?: 'new' | 'lost' | undefined
}

const CHANGED = 'state_changed'

/** The state that a server sent with a result. */
export function ownState(result: Payload): string | undefined {
  const own = result.member(SESSION_STATE) ?? result.meta(SESSION_STATE)
  return typeof own === 'string' ? own : undefined
}

/** A result with the state in place of the server's own. */
export function withState(result: Payload, statement: Statement, isCompat: boolean): Payload {
  const { token, isChanged } = statement
  const hasOwn = result.meta(SESSION_STATE) !== undefined
  const bare = hasOwn ? { [SESSION_STATE]: undefined } : {}
  const meta = result.metaWith({ ...bare, ...metaOf(statement) })
  const isSent = isCompat && token !== undefined
  return result.with({
    _meta: meta,
    [SESSION_STATE]: isSent ? token : undefined,
    [CHANGED]: isSent ? isChanged : undefined,
  })
}

function metaOf({ token, isChanged, session, context }: Statement): Record<string, unknown> {
  return {
    [SESSION_STATE_KEY]: token,
    [STATE_CHANGED_KEY]: isChanged,
    [SESSION_KEY]: { ...visible(session), ...(context && { context }) },
  }
}

/** A result with a sentence for the model. */
export function withText(result: Payload, text: string): Payload {
  return result.withItem('content', { type: 'text', text })
}

/** An error that carries the state, also where it becomes a result. */
export function withStateOf(error: GatewayError, statement: Statement): GatewayError {
  const { token, isChanged } = statement
  if (token === undefined) return error
  return error.with({
    data: { ...error.extra.data, [SESSION_STATE]: token, [CHANGED]: isChanged },
    meta: { ...error.extra.meta, ...metaOf(statement) },
  })
}

type EventType = 'session_created' | 'session_renewed' | 'session_expired' | 'session_invalidated'

/** Notifies the client of an event of its session, if it declared the extension. */
export function notify(call: Call, type: EventType, { session_id }: Session, reason?: string): void {
  const { extensions } = call.client.capabilities
  if (!isObject(extensions) || !isObject(extensions[SESSION_STATE_KEY])) return
  const params = {
    type,
    session_id,
    timestamp: isoTime(world.now()),
    ...(reason !== undefined && { reason }),
  }
  call.emit({ method: 'notifications/session', params: Payload.of(params) })
}

const SUGGESTION =
  'Start a new session without a state token: make the call again without session_state, or with the new one of this error.'

/** The error for a token that is not, or no longer, of this caller and server. */
export function refusedToken(reason: 'type' | 'invalid' | 'expired'): GatewayError {
  const texts = {
    type: 'session_state must be a string.',
    invalid: 'session_state is not a state of this caller and server.',
    expired: 'session_state has expired.',
  }
  return new GatewayError('INVALID_INPUT', `Invalid params: ${texts[reason]}`, {
    field: SESSION_STATE,
    reason,
    suggestion: SUGGESTION,
    isUnsent: true,
    isResult: true,
  })
}

/** The error for a token over the limit, in bytes. */
export function oversizedToken(max: number): GatewayError {
  return new GatewayError('PAYLOAD_TOO_LARGE', `Invalid params: session_state is larger than ${max} bytes.`, {
    field: SESSION_STATE,
    suggestion: SUGGESTION,
    isUnsent: true,
  })
}

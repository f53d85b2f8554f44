/** What is reported of the messages exchanged with one peer, a server or a client, and of the sessions with it. */
import type { Call } from './call.ts'
import { Slot } from './slot.ts'
import type { Payload } from './payload.ts'

/** A request or notification to a peer that was answered or has failed. */
export interface Exchange {
  readonly method: string
  /** The tool or prompt that it names. */
  readonly name?: string | undefined
  readonly seconds: number
  readonly result?: Payload | undefined
  readonly error?: unknown
}

/** Counts the messages sent to a peer, and the sessions with it. */
export interface ExchangeMeter {
  /** A message was sent to the peer, in this revision, and is answered. */
  sent(exchange: Exchange, revision: string): void
  /** A session with the peer ended; by an error if there is one. */
  ended(seconds: number, revision: string, error?: string): void
}

/** Also counts the requests of clients that are only about their session, such as `ping`. */
export interface SessionMeter extends ExchangeMeter {
  /** A request of the client was answered that concerns only its session. */
  answered(exchange: Exchange, revision: string): void
}

/** The HTTP connection that a message of a client came on. */
export interface ClientPeer {
  readonly httpVersion: string
  readonly socket: { readonly remoteAddress?: string | undefined; readonly remotePort?: number | undefined }
}

/** The connection of its client over HTTP; absent on other transports, and on calls of the gateway itself. */
export const peerSlot = new Slot<ClientPeer>('peer')

/** The method the client used, where it differs: the handshake of older revisions. */
export const calledAsSlot = new Slot<'initialize'>('called as')

/** The state of the rate limit that has the least left for a caller. */
export interface RateLimitStatus {
  /** A short name of the limit. */
  readonly name: string
  readonly limit: number
  readonly remaining: number
  /** The length of the window, and the time until some of the limit is restored, in seconds. */
  readonly window: number
  readonly reset: number
}

/** Reports rate limits outside of the result, where the transport supports it (such as HTTP headers). */
export interface RateLimitReporter {
  /** Reports the state of a limit; ignored once the response has begun. */
  reportRateLimit?(status: RateLimitStatus): void
}

/** Absent if the call did not come from a client. */
export const rateLimitSlot = new Slot<RateLimitReporter>('rate limit reporter')

/** A request to a server, as its spans describe it. */
export interface SentRequest {
  /** Its JSON-RPC id. */
  readonly id: number
  /** The revision of the connection. */
  readonly revision: string
  /** The session that the server keeps for the connection: whoever knows it can use it. */
  readonly session?: string | undefined
}

/**
 * Called with the call right before it is sent to its server, again for each attempt, once everything that it waited for is
 * there. A call that it throws for is not sent: `alsoBeforeSend` adds a check. @throws GatewayError
 */
export const beforeSendSlot = new Slot<(call: Call) => void>('before send')

/** A value of the slot with a further check, after those that a call has already. */
export function alsoBeforeSend(call: Call, check: (sent: Call) => void): (sent: Call) => void {
  const earlier = beforeSendSlot.of(call)
  if (!earlier) return check
  return (sent) => {
    earlier(sent)
    check(sent)
  }
}

/** Called when the call is sent to its server, again for each attempt. Whoever sets it also calls the one that was there. */
export const onSentSlot = new Slot<(request: SentRequest) => void>('on sent')

/** The trace of the call that this one undoes (W3C `traceparent`). */
export const undoesSlot = new Slot<string>('undoes')

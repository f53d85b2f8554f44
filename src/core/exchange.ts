/** What is reported of the messages exchanged with one peer, a server or a client, and of the sessions with it. */
import type { Payload } from './payload.ts'

/** A request or notification to a peer, when its response has come, or it failed. */
export interface Exchange {
  readonly method: string
  /** The tool or prompt that it names. */
  readonly name?: string | undefined
  readonly seconds: number
  readonly result?: Payload | undefined
  readonly error?: unknown
}

/** Counts what one side of a connection does. */
export interface ExchangeMeter {
  /** A message was sent to the peer, in this revision, and is answered. */
  sent(exchange: Exchange, revision: string): void
  /** A session with the peer ended; by an error if there is one. */
  ended(seconds: number, revision: string, error?: string): void
}

/** Counts the sessions with clients, and what those do that is no call. */
export interface SessionMeter extends ExchangeMeter {
  /** A request of the client was answered that concerns only its session. */
  answered(exchange: Exchange, revision: string): void
}

/** The HTTP connection that a message of a client came on. */
export interface ClientPeer {
  readonly httpVersion: string
  readonly socket: { readonly remoteAddress?: string | undefined; readonly remotePort?: number | undefined }
}

/** What is reported of the messages exchanged with one peer, a server or a client, and of the sessions with it. */
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

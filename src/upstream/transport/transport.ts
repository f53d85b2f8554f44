/** The contract of a transport to a server: one pipe of messages, and who receives them. */
import type { Transport } from '../../protocol/json-rpc-peer.ts'
import type { Login } from './auth-retry.ts'

/** The largest message taken from a server, in bytes. */
export const MAX_MESSAGE = 64 * 1024 * 1024

/** A channel to a server, over any transport. */
export interface UpstreamTransport extends Transport {
  /** Whether what a server sends about a call arrives on a stream of that call. */
  readonly hasProvenance: boolean
  /** Whether a server with a handshake keeps no session, so that nothing it asks can be answered. */
  readonly isStateless?: boolean
  /** The handshake has settled on a revision. */
  established?(revision: string): void
  /** Opens the session's own stream, where the transport has one. */
  listen?(): Promise<void>
  close(): Promise<void>
}

/** Who takes what a link brings. */
export interface TransportReceiver {
  /** `about` is the request whose stream carried the text, where the transport tells. */
  receive(text: string, about?: number): void
  isWaiting(id: number): boolean
  /** Fails one request, if it still waits. */
  reject(id: number, error: unknown): void
  /** The link cannot be used any more. */
  closed(error: Error): void
  /** The server forgot the session, outside any request. */
  sessionLost(): void
}

/** Begins the time for one step of meeting a server: aborted once it is over, or the server is closed. */
export type StepTimeout = () => AbortSignal

/** Opens a link. @throws SERVER_UNAVAILABLE */
export type OpenTransport = (receiver: TransportReceiver) => Promise<UpstreamTransport>

/** The same with a caller's own credentials. */
export type OpenTransportAs = (receiver: TransportReceiver, login?: Login) => Promise<UpstreamTransport>

/** The contract of a transport to a server: one pipe of messages, and their receiver. */
import type { GatewayError } from '../../core/error.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import type { Spool } from '../../core/spool.ts'
import type { Transport } from '../../protocol/json-rpc-peer.ts'
import type { Login } from './auth-retry.ts'

/** A transport to a server. */
export interface UpstreamTransport extends Transport {
  /** Whether a server's messages about a call arrive on a stream of that call. */
  readonly hasProvenance: boolean
  /** Whether a server with a handshake keeps no session, so that its requests cannot be answered. */
  readonly isStateless?: boolean
  /** How long the handshake took that was answered before the connection sent it, in seconds. */
  readonly handshakeSeconds?: number | undefined
  /** The session that the server keeps for it; secret, as it is all that it takes to use the session. */
  readonly session?: string | undefined
  /** The id of the process that serves it, if the gateway started one. */
  readonly pid?: number | undefined
  /** A sentence about what a process printed before its first message, after a space; empty if there was nothing. */
  readonly printed?: string
  /** Called when the handshake has negotiated a revision. */
  established?(revision: string): void
  /** Opens the standalone stream of the session, if the transport has one. */
  listen?(): Promise<void>
  /** Ends the process that serves it by force, if the gateway started one. */
  kill?(): void
  close(): Promise<void>
}

/** Receives what a transport delivers. */
export interface TransportReceiver {
  /** `about` is the request whose stream carried the text, if the transport knows. `isRedacted`: it had secrets. */
  receive(text: string, about?: number, isRedacted?: boolean): void
  /** Where long strings of the message that arrives now are kept, if they are. */
  spool(about?: number): Spool | undefined
  isWaiting(id: number): boolean
  /** The exchange of a request ended without its response, which may now come on the stream of another request. */
  answeredElsewhere?(id: number): void
  /** Fails one request, if it is still pending. */
  reject(id: number, error: unknown): void
  /** The transport is no longer usable. */
  closed(error: Error): void
  /** A process prints text in place of messages. It is still listened to, as it may only be slow. */
  speaksNoJson?(error: GatewayError): void
  /** The server lost the session, outside any request. */
  sessionLost(): void
}

/** Starts the timeout of one connection step: aborted when it expires, or the server is closed. */
export type StepTimeout = () => AbortSignal

/** Opens a transport. @throws SERVER_UNAVAILABLE */
export type OpenTransport = (receiver: TransportReceiver) => Promise<UpstreamTransport>

/** Opens a transport with a caller's own credentials. */
export type OpenTransportAs = (receiver: TransportReceiver, login?: Login) => Promise<UpstreamTransport>

/** The connection whose transport is opened. */
interface InterceptedConnection {
  readonly settings: UpstreamSettings
  readonly era: 'legacy' | 'modern'
}

/** Wraps the opening of each transport to a server, to observe its messages or to replace the server. */
export type TransportInterceptor = (open: OpenTransport, connection: InterceptedConnection) => OpenTransport

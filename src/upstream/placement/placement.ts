/**
 * A server that a command starts in one process of those that share the store (`placement: one`). In that process it is a
 * server like any other. The other processes have connections to that process in place of connections to the server
 * (`connection.ts`), over which calls go as they are (`messages.ts`, `serving.ts`): below all features, so whatever makes a
 * call, a client, a list of all servers or a job of the gateway itself, need not know where the server runs.
 */
import type { Call, Handler } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import { type ServerContext, Slot } from '../../core/slot.ts'

/** Where a server runs: in this process, or in another one. */
export type Place = Here | There

interface Here {
  readonly kind: 'here'
}

/** Another process that runs the server, as long as it does. */
export interface There {
  readonly kind: 'there'
  /** The process, by `Membership.id`. */
  readonly process: string
  /** Aborted once the server does not run there any more, or it cannot be reached. */
  readonly ended: AbortSignal
  /** Has a call answered there. Aborting the signal cancels it. Never throws. */
  send(message: SentMessage, receiver: LineReceiver, signal: AbortSignal): void
  /** Calls a listener when the tools of the server may have changed, until the signal is aborted. */
  onChanged(listener: () => void, signal: AbortSignal): void
  /** Restarts the server. @throws SERVER_UNAVAILABLE */
  restart(): Promise<void>
}

/** A call for another process. */
export interface SentMessage {
  readonly principal: Principal
  readonly requestId: string
  /** The call (`encodeCall`). */
  readonly text: string
  /** It stays open for long. */
  readonly isLasting: boolean
}

/** Receives the answer of another process, line by line. */
export interface LineReceiver {
  line(text: string): void
  /** No more lines come. */
  ended(how: LineEnd): void
}

/** How an answer ended: it is whole; the server is not there; the process did not take the call; or that is not known. */
export type LineEnd = 'answered' | 'moved' | 'unreached' | 'lost'

/** Finds out where a server runs. */
export interface Placement {
  /** Where it is, as known by this process; undefined if that has to be found out. */
  readonly current: Place | undefined
  /** Where it is; in this process, from now on, if it was nowhere. @throws SERVER_UNAVAILABLE, unsent */
  find(): Promise<Place>
  /** Announces what runs the server in this process, until the returned function is called, which lets go of the server. */
  serve(server: PlacedServer): () => Promise<void>
}

/** A server that can run in this process. */
export interface PlacedServer {
  /** Answers a call that came to another process, only while the server runs here. */
  readonly relayed: Handler
  /** How many calls it works on. */
  readonly inFlight: number
  /** Ends all connections; by force if another process may start the server soon. Resolves once all processes ended. */
  leave(isByForce: boolean): Promise<void>
  /** The server does not run any more where it ran: connects to it wherever it runs then. @throws the connection error */
  follow(): Promise<void>
  restart(): Promise<void>
  /** Calls a listener when its tools may have changed, until the signal is aborted. */
  onChanged(listener: () => void, signal: AbortSignal): void
}

/** What another process has to know of the connection on which a call is made. */
export interface ConnectionFacts {
  readonly era: 'legacy' | 'modern'
  readonly revision: string
  readonly canAsk: boolean
  readonly context?: ServerContext | undefined
}

/** Set on calls that came to another process: they are made here, or not at all. Called before the call is sent. */
export const relayedSlot = new Slot<(facts: ConnectionFacts) => void>('relayed')

/** Whether a call has to be made by another process. @throws SERVER_UNAVAILABLE if it came from one: there is one hop only */
export function isElsewhere(call: Call, place: Place | undefined): place is There {
  if (place?.kind !== 'there') return false
  if (relayedSlot.of(call)) throw moved()
  return true
}

/** The `reason` of the error if a server does not run where a call was sent. */
const MOVED = 'moved'

/** The error of a call that was not made, because its server is not there. */
export function moved(): GatewayError {
  return new GatewayError('SERVER_UNAVAILABLE', 'The server is moving to another process of the gateway.', {
    reason: MOVED,
    isUnsent: true,
  })
}

export function isMoved(error: unknown): boolean {
  return error instanceof GatewayError && error.extra.reason === MOVED
}

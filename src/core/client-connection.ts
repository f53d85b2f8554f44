/** Connections to servers that belong to one client of a caller. */
import { Slot } from './slot.ts'

/** The `reason` of the error if the context that a server kept for a client is lost. */
export const CONTEXT_LOST = 'context_lost'

/**
 * The connection to a server that belongs to one client of a caller, so that later calls of the client find the context
 * that the server keeps for it. Used by no other caller.
 */
export interface ClientConnection {
  /** Chosen by the gateway, and secret: whoever has it uses the connection. */
  readonly id: string
  /** An earlier call used it; if it is not open any more, its context is lost. */
  readonly isKnown: boolean
  /** Whether the call may run in a new context if its own is lost; otherwise it fails with `CONFLICT`. */
  readonly mayReplace: boolean
  /** Called if a connection was opened for it, before the call is sent: with its id, and whether another one was lost. */
  onOpen(opened: { readonly id: string; readonly isLost: boolean }): void
}

/** The connection to use, if it is not the one of all calls of its caller. */
export const connectionSlot = new Slot<ClientConnection>('connection')

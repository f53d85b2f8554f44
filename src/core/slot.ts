/**
 * Values that single parts of the gateway give a call on its way: each has a slot, declared beside its owner. Those that
 * several parts set and read are declared here.
 */
import type { Trail } from './logged-call.ts'

/** The values that a call has, the latest first. Immutable, and short: to add one copies nothing. */
export interface Slots {
  readonly slot: Slot<unknown>
  readonly value: unknown
  readonly next: Slots | undefined
}

interface WithSlots {
  readonly slots?: Slots | undefined
}

/** A kind of value that a call can have. */
export class Slot<Value> {
  /** For people who look at a call. */
  readonly name: string

  constructor(name: string) {
    this.name = name
  }

  /** The value of a call; undefined if it has none. */
  of({ slots }: WithSlots): Value | undefined {
    for (let at = slots; at; at = at.next) if (at.slot === this) return at.value as Value
    return undefined
  }

  /** A copy of a call with a value, or without one. */
  set<Held extends WithSlots>(call: Held, value: Value | undefined): Held {
    return { ...call, slots: this.put(value, call.slots) }
  }

  /** Slots with a value, for a call that is copied anyway. */
  put(value: Value | undefined, slots?: Slots): Slots {
    return { slot: this, value, next: slots }
  }
}

/** What the address of a profile has before its name, in place of the name of a server: `/mcp/p/<name>`. */
export const PROFILE_ADDRESS = 'p/'

/** What is in place of the name of a server where the owner's client calls, at `/operator/mcp`: no server can have this name. */
export const OPERATOR_ADDRESS = '@operator'

/** The name of the profile whose URL the client used; absent for other URLs. */
export const profileSlot = new Slot<string>('profile')

/** The deadline of a call. */
export interface CallDeadline {
  /** Pauses it while the call waits for a person; the returned function resumes it. */
  pause(): () => void
  /** Restarts the timeout: the server has responded, and the call makes another request to it. */
  renew(): void
}

export const deadlineSlot = new Slot<CallDeadline>('deadline')

/** Lets the call continue when its client disconnects or its session ends; absent where no client can be lost. */
export const retainSlot = new Slot<() => void>('retain')

/** Whether the answer to a request reaches its client, as far as its transport can see. */
export interface AnswerDelivery {
  /** Whether the client cancelled the request, or its connection ended before the answer was written to it. */
  isLost(): boolean
  /** Calls a listener when the answer is lost; more than once if the client comes back and is lost again. */
  onLost(listener: () => void): void
}

/** What becomes of the answer to a `tools/call`; absent where no client waits for it. */
export const deliverySlot = new Slot<AnswerDelivery>('delivery')

/** Gives back what is reserved for a call, because another one is made in its place; absent if nothing is reserved. */
export const reservationSlot = new Slot<() => Promise<void>>('reservation')

/** Whether the call has no request any more, so that its server may be silent; set where calls can become tasks. */
export const detachedSlot = new Slot<() => boolean>('detached')

/** Called with the id of the approval on a page that the call is about to wait for; set where calls can outlive their process. */
export const awaitsApprovalSlot = new Slot<(approval: string) => void>('awaits approval')

/** What the call passed on its way; absent where calls are not logged. */
export const trailSlot = new Slot<Trail>('trail')

/** Whether a server may answer the call with a task: a layer above follows it. */
export const acceptsTaskSlot = new Slot<true>('accepts task')

/** Set where a server that cannot be reached is answered for with what it listed last. It is not asked then. */
export const lastKnownSlot = new Slot<true>('last known')

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

/** What a server keeps in memory for those who use one process or session of it. */
export interface ServerContext {
  /** Identifies it, until it ends. */
  readonly id: string
  /** When it began, in milliseconds since 1970. */
  readonly since: number
}

/** What a call needs of the context of its server, on a connection that it shares with others. */
export interface ContextWatch {
  /** The context that the call relies on. */
  readonly expected?: ServerContext
  /** Whether the call may run in another one; otherwise it fails with `CONFLICT`, unsent. */
  readonly mayReplace: boolean
  /** Called with the context in which it ran, if its server keeps any. */
  onUse(context: ServerContext): void
}

/** Set on calls of sessions that set something up on their server. */
export const contextSlot = new Slot<ContextWatch>('context')

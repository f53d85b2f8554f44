/**
 * A dry run of a tool call: every gate decides, but the server is not called and nothing is kept. On its way to the end of
 * the chain the call collects what the gates found; the end makes the result of it.
 */
import type { Call } from './call.ts'
import type { Cost, Quota, Risk } from './descriptor.ts'
import { Slot } from './slot.ts'

/** What the gates found so far. A gate that is off, or has nothing to say about the call, leaves its member out. */
export interface DryRun {
  /** Who wants it: the caller, for this call, or the configuration, for all writes to the server. */
  readonly by: 'caller' | 'sandbox'
  /** The scopes that the call needs. */
  readonly scopes?: readonly string[]
  readonly idempotency?: KeyForecast
  /** Writes are paused, so that the call would be refused. */
  readonly paused?: PauseForecast
  readonly transaction?: StepForecast
  readonly cost?: CostForecast
  readonly confirmation?: ConfirmationForecast
  readonly undo?: UndoForecast
}

/**
 * What becomes of a call with an idempotency key: it would run, or return the recorded outcome, or wait for the same call
 * that runs now, or first find out by a read whether a lost one took effect.
 */
export interface KeyForecast {
  readonly outcome: 'would_run' | 'would_replay' | 'would_wait' | 'would_verify'
  /** Absent if the gateway derives the key from the call. */
  readonly key?: string
  /** When the first call with the key began, in milliseconds since 1970; absent if there was none. */
  readonly since?: number
}

/** Since when writes are paused, and until when if that is known, in milliseconds since 1970. */
export interface PauseForecast {
  readonly since: number
  readonly until?: number
}

/** The step of a transaction that a call would be. */
export interface StepForecast {
  readonly id: string
  readonly step: string
  /** A read is not undone with the transaction, and a pivot cannot be. */
  readonly kind: 'read' | 'write' | 'pivot'
}

/** What a call costs, and what its caller has left before it; without a budget, only the cost. */
export interface CostForecast extends Cost {
  readonly left?: Quota
}

/** Whether a person has to confirm a call. */
export interface ConfirmationForecast {
  readonly isRequired: boolean
  /** It is not required if the state before the call can be kept, so that the call can be undone exactly. */
  readonly unless?: 'exact_undo'
  /** The question to the person. */
  readonly message?: string
  readonly risk?: Risk
  /** Who decides: the user of the client, or other people. */
  readonly by?: 'user' | 'others'
  /** How they are asked: by a form of the client, on a page or by a command of the gateway, or by a token of the client's host. */
  readonly via?: 'form' | 'page' | 'token'
  /** How many other people have to agree, and who may. */
  readonly needed?: number
  readonly approvers?: readonly string[]
  /** The permission is already there: the same call would not ask. */
  readonly isGranted?: true
}

/** How a call would be undone. */
export interface UndoForecast {
  /** `nothing`: there is nothing to undo. */
  readonly how: 'exact' | 'approximate' | 'none' | 'nothing'
  /** The rule, as it is written in the configuration. */
  readonly rule?: string
  /** Why it cannot be undone. */
  readonly reason?: string
}

/** Set if the call is a dry run: what its gates found so far. */
export const dryRunSlot = new Slot<DryRun>('dry run')

/** The call with one more finding; unchanged if it is no dry run. */
export function withFinding(call: Call, finding: Partial<Omit<DryRun, 'by'>>): Call {
  const found = dryRunSlot.of(call)
  return found ? dryRunSlot.set(call, { ...found, ...finding }) : call
}

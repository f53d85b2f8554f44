import type { Call, Outcome } from '../../core/call.ts'
import type { Deps } from '../feature.ts'
import type { createGates } from './gate.ts'

/** What guards need besides their target. */
export interface Context extends Pick<Deps, 'entry' | 'listed'> {
  readonly gates: ReturnType<typeof createGates>
  /** Whether nothing is guarded here. */
  readonly isOff: boolean
  /** Where people ask for more rights. */
  readonly elevateUrl: string | undefined
  /** Whether what a caller may not use is left out of lists. */
  readonly isHiding: boolean
}

/** What is done about the calls of one target. */
export interface Guard {
  /** Whether also callers whom no scopes limit must be looked at. */
  readonly isForAll: boolean
  /** The call as it may go on. @throws SCOPE_INSUFFICIENT, PERMISSION_DENIED, UNKNOWN_TOOL, INVALID_INPUT */
  admit?(call: Call): Call | Promise<Call>
  /** What the caller gets to see of the result. */
  show?(call: Call, outcome: Outcome): Outcome
}

import type { Call } from '../../core/call.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import type { Approvals } from '../../records/approvals.ts'
import type { Deps } from '../feature.ts'
import type { ApprovalCache } from './memory.ts'
import type { Rule } from './rules.ts'
import type { Settings } from './settings.ts'
import type { Grant } from './slot.ts'
import type { Waiting } from './waiting.ts'

/** What the gate of one tool is made of. */
export interface ConfirmContext {
  readonly rule: Rule
  readonly settings: Settings
  readonly server: UpstreamSettings
  readonly deps: Deps
  readonly approvals: Approvals
  readonly memory: ApprovalCache
  readonly waiting: Waiting
}

/** What its two members are called among the values for features. */
export const FLAG = 'user_confirmed'
export const TOKEN = 'confirmation_token'

/** What the client's host says of confirmation. */
export interface HostWord {
  readonly isConfirmed: boolean | undefined
  readonly token: string | undefined
}

/** A call that may run. */
export interface Confirmed {
  readonly grant: Grant
  /** It was granted just now, and not for an earlier round or call. */
  readonly isFresh: boolean
  /** The person chose that the answer holds for more calls of the tool. */
  readonly isChosen?: boolean
  /** The call as it goes on, where it waited. */
  readonly call?: Call
}

/** What the confirmation of one target's calls needs: settings, reserved values, services. */
import type { Call } from '../../core/call.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import type { Approvals } from '../../records/approvals.ts'
import type { Services } from '../feature.ts'
import type { Reserved } from '../offers.ts'
import type { ApprovalCache, Grant } from './grant.ts'
import { type Rule, needsConfirmation, ruleOf } from './rules.ts'
import type { ConfirmSettings } from './settings.ts'
import type { Waiting } from './waiting.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'identity' | 'pages' | 'features' | 'gateway'>

/** The dependencies of one tool's confirmation policy. */
export interface ConfirmContext {
  readonly rule: Rule
  readonly settings: ConfirmSettings
  readonly server: UpstreamSettings
  readonly deps: Deps
  readonly approvals: Approvals
  readonly memory: ApprovalCache
  readonly waiting: Waiting
}

/** The names of the values that hosts and models may send. */
export const FLAG = 'user_confirmed'
export const TOKEN = 'confirmation_token'

/** What the client's host sent about the confirmation. */
export interface HostConfirmation {
  readonly isConfirmed: boolean | undefined
  readonly token: string | undefined
}

/** A call that may run. */
export interface Confirmed {
  readonly grant: Grant
  /** The grant was given for this call, not remembered from an earlier round or call. */
  readonly isFresh: boolean
  /** The person chose that the decision applies to further calls of the tool. */
  readonly isChosen?: boolean
  /** The call with which to continue, after a wait. */
  readonly call?: Call
}

/** The arguments by which models may confirm; none, unless the settings trust models. */
export function reservedArguments(
  settings: ConfirmSettings,
  upstream: string,
  deps: Deps,
): readonly Reserved[] {
  const token: Reserved = {
    argument: TOKEN_ARGUMENT,
    value: TOKEN,
    schema: {
      type: 'string',
      description:
        'Optional. The token from an earlier result of this tool, once the user has agreed to the call.',
    },
    isFor: (entry) => {
      const server = deps.servers.settings(upstream)
      const rule = server && ruleOf(entry.name, server, settings)
      const canUseToken = rule !== undefined && !rule.isOutOfBand && settings.fallback !== 'deny'
      return canUseToken && needsConfirmation(rule, entry)
    },
  }
  return [
    ...(settings.model_may_confirm ? [token] : []),
    // Not listed for models.
    ...(settings.accept_bare_flag ? [{ argument: FLAG, value: FLAG }] : []),
  ]
}

/** The argument with which a model confirms a call. */
export const TOKEN_ARGUMENT = `_${TOKEN}`

/** What the confirmation of one target's calls needs: settings, reserved values, services. */
import type { Call } from '../../core/call.ts'
import { rememberSchema } from '../../core/remember.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { durationSchema } from '../../core/time/units.ts'
import type { Approvals } from '../../records/approvals.ts'
import type { Reserved, Services } from '../feature.ts'
import type { ApprovalCache, Grant } from './grant.ts'
import { type Rule, needsConfirmation, ruleOf, type Settings } from './rules.ts'
import type { Waiting } from './waiting.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'identity' | 'pages' | 'features' | 'gateway'>

/** The dependencies of one tool's confirmation policy. */
export interface ConfirmContext {
  readonly rule: Rule
  readonly settings: Settings
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

/** The JSON Schema of the settings. */
export const settingsSchema = {
  type: 'object',
  default: {},
  properties: {
    level: {
      enum: ['destructive', 'reversible', 'all', 'none'],
      default: 'destructive',
      description: 'The lowest risk that requires confirmation, unless the tool has its own setting.',
    },
    unannotated: {
      enum: ['confirm', 'derive'],
      default: 'derive',
      description:
        'How tools without annotations are treated: always confirmed, or classified by name and description.',
    },
    fallback: {
      enum: ['page', 'two_step', 'deny'],
      description:
        'What happens if the client does not support elicitation: approval on a page or by a command of the gateway, a token with which the host repeats the call, or refusal. By default `page`, and `deny` in the corporate profile.',
      default: 'page',
    },
    ttl: {
      ...durationSchema,
      default: '5m',
      description: 'How long the caller has to confirm a call.',
    },
    approval_ttl: {
      ...durationSchema,
      default: '1h',
      description: 'How long others have to approve a call out of band.',
    },
    wait: {
      ...durationSchema,
      default: '45s',
      description:
        'How long a call waits for the approval of others before it has to be repeated; most clients time out after a minute.',
    },
    remember: {
      ...rememberSchema,
      default: { for: '1h', max: 100, offer: true },
      description:
        'Confirm several calls of a tool in one session at once: always, or with `offer: on` if the person chooses so. By default it is offered, and `off` in the corporate profile.',
    },
    rollbacks: {
      type: 'boolean',
      default: false,
      description: 'Whether undoing an action requires confirmation too.',
    },
    accept_bare_flag: {
      type: 'boolean',
      default: false,
      description:
        'Accept `user_confirmed: true` without a token as a confirmation, with `inject_arguments` also as an argument. Only for development: any program can send it.',
    },
    model_may_confirm: {
      type: 'boolean',
      default: false,
      description:
        'Whether models receive the token of a call and may confirm it with the argument `_confirmation_token`, with `inject_arguments`. Nothing then forces them to ask the user first.',
    },
    compat: {
      type: 'boolean',
      default: true,
      description: 'Whether confirmation members are also sent outside of `_meta`.',
    },
  },
}

/** The arguments by which models may confirm; none, unless the settings trust models. */
export function reservedArguments(settings: Settings, upstream: string, deps: Deps): readonly Reserved[] {
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

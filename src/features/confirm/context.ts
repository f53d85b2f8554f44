/** What confirming the calls of one target needs: settings, reserved values, services. */
import type { Call } from '../../core/call.ts'
import { rememberSchema } from '../../core/remember.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { durationSchema } from '../../core/time/units.ts'
import type { Approvals } from '../../records/approvals.ts'
import type { Reserved } from '../feature.ts'
import type { Services } from '../feature.ts'
import type { ApprovalCache } from './grant.ts'
import type { Grant } from './grant.ts'
import { type Rule, isAsked, ruleOf, type Settings } from './rules.ts'
import type { Waiting } from './waiting.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'identity' | 'pages' | 'features' | 'gateway'>

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

/** The JSON Schema of the settings. */
export const settingsSchema = {
  type: 'object',
  default: {},
  properties: {
    level: {
      enum: ['destructive', 'reversible', 'all', 'none'],
      default: 'destructive',
      description: 'From which risk on a person is asked, where a tool does not say it itself.',
    },
    unannotated: {
      enum: ['confirm', 'derive'],
      default: 'derive',
      description:
        'What becomes of tools whose server does not say whether they destroy: asked about, or known by their names.',
    },
    fallback: {
      enum: ['page', 'two_step', 'deny'],
      description:
        'What happens where the client cannot ask: a page and a command of the gateway to approve the call, a token the host repeats the call with, or nothing. By default `page`, and `deny` in the corporate profile.',
      default: 'page',
    },
    ttl: {
      ...durationSchema,
      default: '5m',
      description: 'How long the person who makes the call has to confirm it.',
    },
    approval_ttl: {
      ...durationSchema,
      default: '1h',
      description: 'How long others have to approve a call, out of band.',
    },
    wait: {
      ...durationSchema,
      default: '45s',
      description:
        'How long a call waits for others to approve it before it has to be made again; most clients give up after a minute.',
    },
    remember: {
      ...rememberSchema,
      default: { for: '1h', max: 100, offer: true },
      description:
        'Ask once for several calls of a tool in one session: always, or with `offer: on` where the person who is asked chooses so. By default it is offered, and `off` in the corporate profile.',
    },
    rollbacks: {
      type: 'boolean',
      default: false,
      description: 'Whether a person is also asked before something is undone.',
    },
    accept_bare_flag: {
      type: 'boolean',
      default: false,
      description:
        'Take `user_confirmed: true` without a token for an answer, with `inject_arguments` also among the arguments. Only for development: any program can write it.',
    },
    model_may_confirm: {
      type: 'boolean',
      default: false,
      description:
        'Whether models are told the token of a call, and may confirm it by `_confirmation_token` among the arguments, with `inject_arguments`: then nothing makes them ask the user first.',
    },
    compat: {
      type: 'boolean',
      default: true,
      description: 'Whether what is said of confirmation also stands outside of `_meta`.',
    },
  },
}

/** What models may say of confirmation among the arguments of tools: nothing, unless the settings trust them. */
export function reservedOf(settings: Settings, upstream: string, deps: Deps): readonly Reserved[] {
  const token: Reserved = {
    argument: TOKEN_ARGUMENT,
    value: TOKEN,
    schema: {
      type: 'string',
      description: 'Optional. The token an answer of this tool told you, once the user agreed to the call.',
    },
    isFor: (entry) => {
      const server = deps.servers.settings(upstream)
      const rule = server && ruleOf(entry.name, server, settings)
      const isOf = rule !== undefined && !rule.isOutOfBand && settings.fallback !== 'deny'
      return isOf && isAsked(rule, entry)
    },
  }
  return [
    ...(settings.model_may_confirm ? [token] : []),
    // It is not listed for models.
    ...(settings.accept_bare_flag ? [{ argument: FLAG, value: FLAG }] : []),
  ]
}

/** The argument a model confirms a call by. */
export const TOKEN_ARGUMENT = `_${TOKEN}`

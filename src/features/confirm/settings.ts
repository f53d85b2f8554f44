/** How confirmations are configured: its settings with their schema and defaults, and where they are. */
import type { FeatureSchema, SettingsIn } from '../../core/settings.ts'
import { rememberSchema } from '../../core/remember.ts'
import { durationSchema } from '../../core/time/units.ts'

/** The schema of the settings. */
export const confirmSchema = {
  name: 'confirm',
  place: 'features',
  isLeftToGateway: true,
  schema: {
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
        'x-least': 0,
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
      approve_by_command: {
        enum: ['terminal', 'script'],
        default: 'terminal',
        'x-gateway': true,
        description:
          'Whether `gatehouse approvals approve` needs a terminal, in which it shows the call and a person types a code, or scripts may approve too. An agent that can run commands is a script.',
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
  },
} as const satisfies FeatureSchema

/** The settings of confirmations. Durations are milliseconds. */
export type ConfirmSettings = SettingsIn<typeof confirmSchema>

/** How confirmations are configured: its settings with their schema and defaults, and where they are. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings, flag, setting } from '../../core/setting-schemas.ts'
import { rememberSchema } from '../../core/remember.ts'
import { durationSchema } from '../../core/time/units.ts'

/** The schema of the settings. */
export const confirmSchema = defineSettings({
  name: 'confirm',
  description: 'Which calls a person confirms, and how the person is asked.',
  isLeftToGateway: true,
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
    ttl: setting(durationSchema, '5m', 'How long the caller has to confirm a call.'),
    approval_ttl: setting(durationSchema, '1h', 'How long others have to approve a call out of band.'),
    wait: setting(
      { ...durationSchema, 'x-least': 0 },
      '45s',
      'How long a call waits for the approval of others before it has to be repeated; most clients time out after a minute.',
    ),
    remember: setting(
      rememberSchema,
      { for: '1h', max: 100, offer: true },
      'Confirm several calls of a tool in one session at once: always, or with `offer: on` if the person chooses so. By default it is offered, and `off` in the corporate profile.',
    ),
    rollbacks: flag(false, 'Whether undoing an action requires confirmation too.'),
    accept_bare_flag: flag(
      false,
      'Accept `user_confirmed: true` without a token as a confirmation, with `inject_arguments` also as an argument. Only for development: any program can send it.',
    ),
    approve_by_command: {
      enum: ['terminal', 'script'],
      default: 'terminal',
      'x-gateway': true,
      description:
        'Whether `gatehouse approvals approve` needs a terminal, in which it shows the call and a person types a code, or scripts may approve too. An agent that can run commands is a script.',
    },
    model_may_confirm: flag(
      false,
      'Whether models receive the token of a call and may confirm it with the argument `_confirmation_token`, with `inject_arguments`. Nothing then forces them to ask the user first.',
    ),
    compat: flag(
      true,
      'Whether confirmation members are also sent outside of `_meta`. See [Descriptions](descriptions.md).',
    ),
  },
})

/** The settings of confirmations. Durations are milliseconds. */
export type ConfirmSettings = SettingsIn<typeof confirmSchema>

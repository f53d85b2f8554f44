/** How session state is configured: its settings with their schema and defaults, and where they are. */
import type { SettingsIn } from '../../core/settings.ts'
import { compatSetting, defineSettings, flag, setting } from '../../core/setting-schemas.ts'
import { durationSchema, sizeSchema } from '../../core/time/units.ts'

const argument = {
  type: 'string',
  minLength: 1,
  'x-names': 'argument',
  errorMessage: 'must be the name of an argument',
} as const

/** The JSON Schema of remembered arguments. */
const rememberedArguments = {
  type: ['array', 'object'],
  items: argument,
  propertyNames: { 'x-names': 'tool' },
  additionalProperties: {
    type: 'array',
    items: argument,
    errorMessage: 'must be a list of arguments',
  },
  default: [],
  errorMessage: 'must be a list of arguments, or lists of arguments by tool',
  description:
    'Arguments whose last value in a session applies to calls that leave them out: a list, or lists by the name or glob of tools. For destructive tools only in a list under the name of the tool.',
} as const

/** The schema of the settings. */
export const stateSchema = defineSettings({
  name: 'state',
  description: 'What connects the calls of clients without sessions. See [Session state](session-state.md).',
  isLeftToGateway: true,
  properties: {
    ttl: setting(durationSchema, '24h', 'How long a session state lasts after it was last renewed.'),
    max: setting(
      sizeSchema,
      '64KB',
      'The longest token. A state that is larger is kept in the store, and its token is a short handle.',
    ),
    connection: {
      enum: ['auto', 'on', 'off'],
      default: 'auto',
      description:
        'Which clients get their own connection to the server, which their token selects again: those that ask for a session state (`auto`, except for servers with `isolation: shared`), all that have no session (`on`), or none (`off`).',
    },
    remember: rememberedArguments,
    transaction: flag(
      false,
      'Whether calls with the token of a call that named its transaction are steps of this transaction, while it is active.',
    ),
    compat: compatSetting(
      'Whether the state is also sent at `session_state` and `state_changed` of results; with `always`, every result of a tool has one.',
    ),
  },
})

/** The settings of session state. Durations in milliseconds, sizes in bytes. */
export type StateSettings = SettingsIn<typeof stateSchema>

/** Names of arguments: for all tools, or by the name or glob of tools. */
export type RememberSetting = StateSettings['remember']

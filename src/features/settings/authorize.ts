/** The settings of the features of the stage authorize: how they are configured, without what they do. */
import type { SettingsIn } from '../../core/settings.ts'
import { compatSetting, defineSettings, flag, setting } from '../../core/setting-schemas.ts'
import { scopeNameSchema } from '../../core/principal.ts'
import { durationSchema, sizeSchema } from '../../core/time/units.ts'

/** The settings of misplaced values. */
export const misplacedValuesSchema = defineSettings({
  name: 'misplaced_values',
  isLeftToGateway: true,
  default: 'on',
  description:
    'Whether calls are refused that contain a value for the gateway, such as `transaction_id`, among the arguments of a tool without such an argument, where it would have no effect. Tools whose schema leaves the arguments open are not checked.',
})

/** The settings of checks against schemas, and where they are. */
export const validateSchema = defineSettings({
  name: 'validate',
  description: 'Validation of arguments and results against the schemas of tools.',
  isLeftToGateway: true,
  properties: {
    input: {
      enum: ['off', 'warn', 'strict'],
      default: 'warn',
      description:
        'What happens to a call whose arguments do not match the input schema of its tool: the server judges it alone, with a log entry for each tool, or the gateway refuses it. Calls that a rule about such an argument would have to judge are refused in any case. By default `warn`, and `strict` in the corporate profile. See [Validation](guard.md#validation).',
    },
    output: {
      enum: ['off', 'warn', 'strict'],
      default: 'warn',
      description:
        'What happens if a result does not match the output schema of its tool: nothing, a log entry, or an error.',
    },
  },
})

/** The settings of checks against the schemas of tools. */
export type ValidateSettings = SettingsIn<typeof validateSchema>

/** The settings of media, and where they are. */
export const multimodalSchema = defineSettings({
  name: 'multimodal',
  isLeftToGateway: true,
  description:
    'Whether accepted and returned media types of tools are described, and media in calls are checked.',
  properties: {
    compat: compatSetting(
      'Whether `input_types`, `output_types`, `max_input_size_bytes` and `binary_transport` are also members of the entries of a list, for clients that request it. `always`: for all of them.',
    ),
  },
})

/** The settings of media. */
export type MultimodalSettings = SettingsIn<typeof multimodalSchema>

/** The settings of permissions, and where they are. */
export const permissionsSchema = defineSettings({
  name: 'permissions',
  description: 'Scopes, `allow` and `deny`.',
  default: {},
  properties: {
    hide_unpermitted: flag(
      false,
      'Hide entries that a caller may not use from its lists; otherwise lists are complete and name missing scopes.',
    ),
    elevate_url: {
      type: 'string',
      pattern: '^https?://',
      errorMessage: 'must be a URL such as https://idp.example.com/request-access',
      description: 'Where people request more rights, instead of `auth.elevate_url`.',
    },
    approval: {
      type: 'object',
      default: {},
      propertyNames: { ...scopeNameSchema, 'x-names': 'scope' },
      errorMessage: 'must be a mapping of scopes to auto, ask or never',
      additionalProperties: { enum: ['auto', 'ask', 'never'] },
      description:
        'Whether a session gets a scope that its caller has, by scope or glob: `auto` immediately, `ask` after an approval, `never` not at all.',
      examples: [{ 'admin:*': 'never' }],
    },
  },
})

/** The settings of permissions. */
export type PermissionSettings = SettingsIn<typeof permissionsSchema>

/** The settings of accepted tools, and where they are. */
export const pinSchema = defineSettings({
  name: 'pin',
  place: 'top',
  choice: 'mode',
  default: 'off',
  description:
    'What becomes of tools whose definition is not as in `gatehouse.lock` beside this file: nothing, `warn` logs them, and `hold` neither lists nor calls them until `gatehouse accept`. See [Tools that change](operating.md#tools-that-change).',
  properties: { mode: { enum: ['warn', 'hold'] } },
})

/** The settings of accepted tools. */
export type PinSettings = SettingsIn<typeof pinSchema>

/** The settings of intents, and where they are. */
export const intentSchema = defineSettings({
  name: 'intent',
  description: 'The tool that fits the stated intent of a caller.',
  isLeftToGateway: true,
  properties: {
    mode: {
      enum: ['advise', 'redirect'],
      default: 'advise',
      description:
        'What happens if another tool fits the intent of a call better: `advise` makes the call and suggests the other tool, `redirect` only suggests it.',
    },
    margin: setting(
      { type: 'number', minimum: 1, maximum: 100, errorMessage: 'must be a number from 1' },
      1.5,
      'How many times better another tool must match to be suggested.',
    ),
    forward: flag(false, 'Whether the server sees the stated intent.'),
    log_intent: flag(false, 'Whether intents are logged; they may contain personal data.'),
    across: flag(false, 'Whether tools of other servers may be suggested at the combined endpoint.'),
    compat: flag(true, 'Whether a suggestion is also sent at `suggestion` of a result.'),
  },
})

/** The settings of intents. */
export type IntentSettings = SettingsIn<typeof intentSchema>

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

/** The settings of session state, and where they are. */
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

/** The schema of a tool and its argument; the description says by which name the tool is meant. */
function importTarget(description: string) {
  return {
    type: 'object',
    additionalProperties: false,
    properties: {
      tool: { type: 'string', minLength: 1, description },
      argument: { type: 'string', minLength: 1, description: 'Its argument that gets the data.' },
    },
    required: ['tool', 'argument'],
  } as const
}

/** The settings of references, and where they are. */
export const referencesSchema = defineSettings({
  name: 'references',
  isLeftToGateway: true,
  default: 'off',
  description:
    'Whether large results are kept in the gateway. Clients get references to them, which they can read in parts and send as arguments of tools. See [References](references.md).',
  properties: {
    over: setting(
      sizeSchema,
      '64KB',
      'The size from which a result is kept. Callers can have smaller ones kept too.',
    ),
    ttl: setting(durationSchema, '15m', 'How long data is kept.'),
    argument: setting(
      { ...sizeSchema, 'x-least': 1 },
      '64MB',
      'The maximum size of the data that the references in the arguments of a call stand for.',
    ),
    total: setting(
      { ...sizeSchema, 'x-least': 1, 'x-gateway': true },
      '4GB',
      'The maximum size of all kept data, for all servers. One caller may use a quarter of it, if callers are authenticated.',
    ),
    folder: {
      type: 'string',
      pattern: '^(?:/|[A-Za-z]:[\\\\/])',
      errorMessage: 'must be an absolute path',
      description:
        'Where data is put as files, for servers on this machine whose tools take a path: a folder that only the gateway writes to. By default one among the temporary files. Set it to a folder in which the servers may read. See [Paths](references.md#paths).',
    },
    imports: {
      type: 'object',
      'x-gateway': true,
      additionalProperties: importTarget('The tool, by its name at `/mcp`.'),
      description:
        'The tools to which `import_from_ref` gives data, by the `target_format` that a caller names, with the name of the tool at /mcp.',
    },
    import: {
      ...importTarget('The tool, by the name that the server lists.'),
      description:
        'The tool of a server to which `import_from_ref` gives data if a caller names neither a tool nor a format, with the name that the server lists.',
    },
    allow_hosts: {
      type: 'array',
      items: { type: 'string', pattern: '^[A-Za-z0-9]([A-Za-z0-9.-]*[A-Za-z0-9])?$' },
      'x-gateway': true,
      description:
        'The hosts from which `import_from_ref` may download data of servers that are not behind the gateway, over https. None by default.',
    },
    urls: {
      type: 'boolean',
      default: false,
      'x-gateway': true,
      description:
        'Whether clients get a URL with each reference, at which whoever has it can read the data for a short time.',
    },
    url_ttl: setting({ ...durationSchema, 'x-gateway': true }, '5m', 'How long such a URL works.'),
    upload: setting(
      { ...sizeSchema, 'x-least': 1, 'x-gateway': true },
      '100MB',
      'The maximum size of a file that callers or people send.',
    ),
    listed: flag(
      true,
      'Whether the tools for references are in lists, so that models find them. They can be called without. By default `on`, and `off` with `compat: proposals`.',
    ),
    file_hosts: {
      type: 'array',
      items: { type: 'string', pattern: '^[a-z0-9.-]+$', errorMessage: 'must be a host name' },
      default: [],
      description:
        'Hosts, besides that of the server, at which a server with the draft extension `files` may have clients transfer files.',
    },
  },
})

/** The settings of references. Sizes are in bytes, times in milliseconds. */
export type ReferenceSettings = SettingsIn<typeof referencesSchema>

/** A tool that imports, by its name at the address of all servers or at its own, and the argument that gets the data. */
export type ImportTarget = NonNullable<ReferenceSettings['import']>

/** The settings of imports. */
export type ImportSettings = Pick<ReferenceSettings, 'imports' | 'import' | 'allow_hosts'>

/** What applies to the gateway as a whole, also where references are on for single servers only. */
export function gatewayWide(
  settings: ReferenceSettings | false,
): Pick<ReferenceSettings, 'total' | 'ttl' | 'upload'> {
  return settings || { total: 4 * 1024 ** 3, ttl: 900_000, upload: 100 * 1024 ** 2 }
}

/** The settings of the small features of the stage authorize: how they are configured, without what they do. */
import type { SettingsIn } from '../../core/settings.ts'
import { compatSetting, defineSettings } from '../../core/setting-schemas.ts'

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

/** How stamps and receipts are configured: their settings with schema and defaults, and where they are. */
import type { FeatureSchema, SettingsIn } from '../../core/settings.ts'
import { compatSetting } from '../../core/compat.ts'

/** The schema of the settings of stamps. */
export const provenanceSchema = {
  name: 'provenance',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    properties: {
      always: {
        type: 'boolean',
        default: false,
        description:
          'Whether every result is stamped, not only results with more to report than server and time, or for clients that request it.',
      },
      hash: {
        type: 'boolean',
        default: false,
        description: 'Whether every result is stamped, with a hash of its content. Receipts always have one.',
      },
      compat: compatSetting(
        'Whether the stamp is also sent at `provenance` of a tool’s result, where the server has none: with the setting `always` or for clients that request it (`on`), or in every result, which then has its content at `result` too (`always`).',
      ),
    },
  },
} as const satisfies FeatureSchema

/** The settings of stamps. */
export type ProvenanceSettings = SettingsIn<typeof provenanceSchema>

/** The schema of the settings of receipts. */
export const receiptsSchema = {
  name: 'receipts',
  place: 'features',
  isLeftToGateway: true,
  schema: {
    type: 'object',
    description: 'Whether callers get a signed receipt of a result on request; `gatehouse verify` checks it.',
    properties: {},
  },
} as const satisfies FeatureSchema

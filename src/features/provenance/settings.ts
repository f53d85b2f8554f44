/** How stamps and receipts are configured: their settings with schema and defaults, and where they are. */
import type { SettingsIn } from '../../core/settings.ts'
import { compatSetting, defineSettings, flag } from '../../core/setting-schemas.ts'

/** The schema of the settings of stamps. */
export const provenanceSchema = defineSettings({
  name: 'provenance',
  isLeftToGateway: true,
  properties: {
    always: flag(
      false,
      'Whether every result is stamped, not only results with more to report than server and time, or for clients that request it.',
    ),
    hash: flag(
      false,
      'Whether every result is stamped, with a hash of its content. Receipts always have one.',
    ),
    compat: compatSetting(
      'Whether the stamp is also sent at `provenance` of a tool’s result, where the server has none: with the setting `always` or for clients that request it (`on`), or in every result, which then has its content at `result` too (`always`).',
    ),
  },
})

/** The settings of stamps. */
export type ProvenanceSettings = SettingsIn<typeof provenanceSchema>

/** The schema of the settings of receipts. */
export const receiptsSchema = defineSettings({
  name: 'receipts',
  isLeftToGateway: true,
  description: 'Whether callers get a signed receipt of a result on request; `gatehouse verify` checks it.',
})

/** How stamps and receipts are configured: their settings with schema and defaults, and where they are. */
import type { SettingsIn } from '../../core/settings.ts'
import { compatSetting, defineSettings, flag } from '../../core/setting-schemas.ts'

/** The schema of the settings of stamps. */
export const provenanceSchema = defineSettings({
  name: 'provenance',
  description: 'Where results come from, when they were received, and whether they were changed.',
  isLeftToGateway: true,
  properties: {
    always: flag(
      false,
      'Whether every result is stamped, not only results with more to report than server and time, or for clients that request it. See [Where results come from](descriptions.md#where-results-come-from).',
    ),
    hash: flag(false, 'Every result has a SHA-256 of its content. Receipts always have one.'),
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

/** The suite: all checks, and the document that describes them in the form of the proposal. */
import { latestModern } from '../../protocol/revisions.ts'
import type { Check } from './check.ts'
import { confirmationChecks } from './confirmation.ts'
import { errorChecks } from './errors.ts'
import { eventChecks } from './events.ts'
import { idempotencyChecks } from './idempotency.ts'
import { manifestChecks } from './manifest.ts'
import { permissionChecks } from './permissions.ts'
import { referenceChecks } from './references.ts'
import { serverChecks } from './server-calls.ts'
import { stateChecks } from './session-state.ts'
import { streamingChecks } from './streaming.ts'
import { transactionChecks } from './transactions.ts'

/** Changes with every added, removed or changed check. */
export const SUITE_VERSION = '1.0.0'

/** All checks, in the order in which they run. */
export const checks: readonly Check[] = [
  ...manifestChecks,
  ...errorChecks,
  ...idempotencyChecks,
  ...permissionChecks,
  ...confirmationChecks,
  ...stateChecks,
  ...transactionChecks,
  ...streamingChecks,
  ...referenceChecks,
  ...eventChecks,
  ...serverChecks,
]

/** The suite as a document: what each check is about. */
export function suiteDocument() {
  return {
    metadata: {
      suite_version: SUITE_VERSION,
      mcp_spec_version: latestModern.name,
      total_tests: checks.length,
    },
    tests: checks.map(({ test_id, proposal_ref, description, category }) => {
      return { test_id, proposal_ref, description, category }
    }),
  }
}

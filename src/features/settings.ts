/**
 * The settings of all features, for the configuration: what it reads, without what the features do. They have the order of
 * `index.ts`, in which the JSON Schema of the file describes them.
 *
 * Invariant: nothing that is imported here imports behaviour (`scripts/walls.ts`).
 */
import type { FeatureSchema } from '../core/settings.ts'
import {
  confirmSchema,
  argumentLimitsSchema,
  contextSchema,
  costSchema,
  idempotencySchema,
  pauseWritesSchema,
  transactionsSchema,
  eventsSchema,
} from './settings/effect.ts'
import {
  quotaSchema,
  manifestSchema,
  dashdashSchema,
  helpSchema,
  skillsSchema,
  agentProfileSchema,
  conformanceSchema,
  gatewayProofSchema,
} from './settings/describe.ts'
import {
  usageSchema,
  errorsSchema,
  receiptsSchema,
  dryRunSchema,
  limitsSchema,
  injectArgumentsSchema,
  contractSchema,
  concurrencySchema,
  streamSchema,
  rateLimitSchema,
  progressSchema,
} from './settings/admit.ts'
import {
  discoverySchema,
  maskSchema,
  provenanceSchema,
  resultLimitSchema,
  structuredTextSchema,
  undoSchema,
  retrySchema,
  completeSchema,
  breakerSchema,
} from './settings/upstream.ts'
import {
  intentSchema,
  permissionsSchema,
  pinSchema,
  misplacedValuesSchema,
  validateSchema,
  multimodalSchema,
  stateSchema,
  referencesSchema,
} from './settings/authorize.ts'

/** How each feature is configured. */
export const featureSchemas: readonly FeatureSchema[] = [
  quotaSchema,
  manifestSchema,
  dashdashSchema,
  helpSchema,
  skillsSchema,
  agentProfileSchema,
  conformanceSchema,
  gatewayProofSchema,
  dryRunSchema,
  progressSchema,
  limitsSchema,
  errorsSchema,
  injectArgumentsSchema,
  contractSchema,
  concurrencySchema,
  receiptsSchema,
  usageSchema,
  streamSchema,
  rateLimitSchema,
  stateSchema,
  referencesSchema,
  permissionsSchema,
  pinSchema,
  intentSchema,
  misplacedValuesSchema,
  validateSchema,
  multimodalSchema,
  idempotencySchema,
  pauseWritesSchema,
  transactionsSchema,
  costSchema,
  argumentLimitsSchema,
  contextSchema,
  confirmSchema,
  eventsSchema,
  provenanceSchema,
  resultLimitSchema,
  structuredTextSchema,
  maskSchema,
  undoSchema,
  retrySchema,
  completeSchema,
  breakerSchema,
  discoverySchema,
]

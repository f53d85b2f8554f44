/**
 * The settings of all features, for the configuration: what it reads, without what the features do. They have the order of
 * `index.ts`, in which the JSON Schema of the file describes them.
 *
 * Invariant: nothing that is imported here imports behaviour (`scripts/walls.ts`).
 */
import type { FeatureSchema } from '../core/settings.ts'
import { confirmSchema } from './confirm/settings.ts'
import { quotaSchema, usageSchema, costSchema } from './cost/settings.ts'
import { discoverySchema } from './discovery/settings.ts'
import { errorsSchema } from './errors/settings.ts'
import { eventsSchema } from './events/settings.ts'
import { idempotencySchema } from './idempotency/settings.ts'
import { intentSchema } from './intent/settings.ts'
import { maskSchema } from './mask/settings.ts'
import { permissionsSchema } from './permissions/settings.ts'
import { progressSchema } from './progress/settings.ts'
import { receiptsSchema, provenanceSchema } from './provenance/settings.ts'
import { referencesSchema } from './references/settings.ts'
import {
  dryRunSchema,
  limitsSchema,
  injectArgumentsSchema,
  contractSchema,
  concurrencySchema,
  streamSchema,
  rateLimitSchema,
} from './settings/admit.ts'
import { misplacedValuesSchema, validateSchema, multimodalSchema } from './settings/authorize.ts'
import {
  manifestSchema,
  dashdashSchema,
  helpSchema,
  skillsSchema,
  agentProfileSchema,
  conformanceSchema,
  gatewayProofSchema,
} from './settings/describe.ts'
import {
  resultLimitSchema,
  structuredTextSchema,
  undoSchema,
  retrySchema,
  completeSchema,
  breakerSchema,
} from './settings/upstream.ts'
import { stateSchema } from './state/settings.ts'
import { transactionsSchema } from './transactions/settings.ts'

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
  intentSchema,
  misplacedValuesSchema,
  validateSchema,
  multimodalSchema,
  idempotencySchema,
  transactionsSchema,
  costSchema,
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

import { expect, it } from 'vitest'
import { loadSettings } from '../../../../src/config/load.ts'
import { activeFeatures } from '../../../../src/gateway/features.ts'
import { everythingOn } from '../../../support/everything-on.ts'
import { featureDeps } from '../../../support/feature-deps.ts'
import { objectAt } from '../../../support/server/json.ts'

const config = JSON.stringify({
  ...everythingOn,
  features: { ...objectAt(everythingOn, 'features'), references: 'on' },
  inject_arguments: 'on',
  upstreams: { files: 'node files.js' },
})
const { settings } = loadSettings(config, { file: 'gateway.config.yaml', env: {} })
const active = activeFeatures(settings, featureDeps({ server: () => settings.upstreams[0] }))

/** `own` is middleware for dry runs. What is not named has no layer around calls. `references` has two places in the chain. */
const roles = [
  ['dry_run', 'absent'],
  ['progress', 'own'],
  ['limits', 'same'],
  ['errors', 'same'],
  ['inject_arguments', 'same'],
  ['contract', 'same'],
  ['concurrency', 'same'],
  ['receipts', 'same'],
  ['usage', 'absent'],
  ['stream', 'own'],
  ['rate_limit', 'same'],
  ['state', 'own'],
  ['references', 'own'],
  ['permissions', 'own'],
  ['intent', 'same'],
  ['misplaced_values', 'same'],
  ['validate', 'same'],
  ['multimodal', 'same'],
  ['idempotency', 'own'],
  ['pause_writes', 'own'],
  ['transactions', 'own'],
  ['cost', 'own'],
  ['argument_limits', 'own'],
  ['context', 'absent'],
  ['confirm', 'own'],
  ['events', 'absent'],
  ['provenance', 'absent'],
  ['result_limit', 'absent'],
  ['references', 'absent'],
  ['structured_text', 'absent'],
  ['mask', 'absent'],
  ['undo', 'own'],
  ['retry', 'absent'],
  ['complete', 'absent'],
  ['breaker', 'own'],
]

it('what each feature does in a dry run, in the order of the chain', () => {
  const found = active.flatMap(({ name, instance: { calls } }) =>
    calls ? [[name, typeof calls.dryRun === 'string' ? calls.dryRun : 'own']] : [],
  )
  expect(found).toEqual(roles)
})

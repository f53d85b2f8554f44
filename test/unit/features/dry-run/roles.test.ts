import { describe, expect, it } from 'vitest'
import { loadSettings } from '../../../../src/config/load.ts'
import { dryRunRoles } from '../../../../src/features/dry-run/roles.ts'
import { features } from '../../../../src/features/index.ts'
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

// `references` has two places in the chain.
const names = [...new Set(features.map(({ name }) => name))]

describe('the roles of features in dry runs', () => {
  it('name every feature, in the order of the chain, and no other', () => {
    expect(Object.keys(dryRunRoles)).toEqual(names)
  })

  it.each(names)('of %s is what the feature has', (name) => {
    const found = active.filter((each) => each.name === name)
    expect(found.length).toBeGreaterThan(0)
    const hasOwn = found.some(({ instance }) => instance.dryRun !== undefined)
    expect(hasOwn).toBe(dryRunRoles[name] === 'own')
  })
})

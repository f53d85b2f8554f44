import { expect, it } from 'vitest'
import { loadSettings } from '../../../src/config/load.ts'
import type { FeatureInstance } from '../../../src/features/feature.ts'
import { features } from '../../../src/features/index.ts'
import { isProtocolMethod } from '../../../src/protocol/methods.ts'
import { featureDeps } from '../../support/feature-deps.ts'

const { settings } = loadSettings('upstreams: { it: { command: x } }', { file: 'f.yaml', env: {} })

const contributions: readonly (readonly [string, FeatureInstance])[] = features.map((feature) => {
  const own = settings.features[feature.name]
  return [feature.name, feature.create((() => own?.common) as never, featureDeps())]
})
const speaking = contributions.filter(([, { methods: own = {} }]) => Object.keys(own).length > 0)

it('C099 every feature with methods is also available as a tool', () => {
  expect(speaking.length).toBeGreaterThan(0)
  for (const [name, { methods: own = {}, tools = [] }] of speaking) {
    // Hosts know the methods of the protocol and of its extensions.
    const invented = Object.keys(own).filter((method) => !/^(?:skills|tasks|events|files)\//.test(method))
    if (invented.length > 0) expect([name, tools.length]).toEqual([name, invented.length])
  }
})

it('C099 no method of a feature has the name of a protocol method, except for tasks', () => {
  const named = speaking.flatMap(([, { methods: own = {} }]) => Object.keys(own).filter(isProtocolMethod))
  expect(named.filter((name) => !name.startsWith('tasks/'))).toEqual([])
  expect(named).toContain('tasks/get')
})

import { expect, it } from 'vitest'
import { ownNames } from '../../../src/catalog/own-names.ts'
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
const speaking = contributions.filter(
  ([, { builtins: { methods: own = {} } = {} }]) => Object.keys(own).length > 0,
)

/** What `GET /permissions` answers; models have the lists of tools. */
const OVER_HTTP = 'permissions/list'

it('C099 every method of a feature is also available as a tool, with the names that clients know it by', () => {
  const rows: string[] = []
  for (const [, { builtins: { methods: own = {}, tools = [] } = {} }] of speaking) {
    // Hosts know the methods of the protocol and of its extensions.
    const invented = Object.keys(own).filter((method) => !/^(?:skills|tasks|events|files)\//.test(method))
    const names = tools.map(({ definition }) => definition.name)
    for (const method of invented.filter((each) => !names.includes(each) && each !== OVER_HTTP)) {
      const row = ownNames.find((each) => each.method === method)
      expect([method, ...names]).toContain(row?.tool)
      rows.push(method)
    }
  }
  expect(rows.toSorted()).toEqual(ownNames.map(({ method }) => method).toSorted())
})

it('no two tools or methods have the same other name', () => {
  const others = ownNames.flatMap(({ tool, others: names = [] }) => [tool, ...names])
  expect(new Set(others).size).toBe(others.length)
})

it('C099 no method of a feature has the name of a protocol method, except for tasks', () => {
  const named = speaking.flatMap(([, { builtins: { methods: own = {} } = {} }]) =>
    Object.keys(own).filter(isProtocolMethod),
  )
  expect(named.filter((name) => !name.startsWith('tasks/'))).toEqual([])
  expect(named).toContain('tasks/get')
})

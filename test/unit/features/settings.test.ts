import { expect, it } from 'vitest'
import { features } from '../../../src/features/index.ts'
import { featureSchemas } from '../../../src/features/settings.ts'

it('the configuration reads the settings of every feature, in the order of the features', () => {
  const names = features.map(({ name }) => name)
  expect(featureSchemas.map(({ name }) => name)).toEqual([...new Set(names)])
})

it.each(features.map((feature) => [feature.name, feature] as const))(
  'the configuration reads %s by the schema that the feature relies on',
  (name, { create: _create, ...own }) => {
    expect(own).toEqual(featureSchemas.find((schema) => schema.name === name))
  },
)

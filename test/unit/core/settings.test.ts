import { expect, test } from 'vitest'
import { featureSettings } from '../../../src/core/settings.ts'

const features = { limits: { common: { rate: 1 }, upstreams: { one: { rate: 2 }, off: false } } }

test.each([
  ['limits', undefined, { rate: 1 }],
  ['limits', 'one', { rate: 2 }],
  ['limits', 'off', false],
  ['limits', 'other', { rate: 1 }],
  ['limits', 'constructor', { rate: 1 }],
  ['absent', 'one', false],
])('the settings of %s for %s are %j', (feature, upstream, settings) => {
  expect(featureSettings({ features }, feature, upstream)).toEqual(settings)
})

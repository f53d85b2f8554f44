import { durationSchema, sizeSchema } from '../../../src/core/time/units.ts'
import type { FeatureSchema } from '../../../src/core/settings.ts'

/** Features for tests of the configuration, one of each kind. */
export const features: readonly FeatureSchema[] = [
  {
    name: 'limits',
    place: 'limits',
    schema: {
      type: 'object',
      properties: {
        timeout: { ...durationSchema, default: '30s' },
        result: { ...sizeSchema, default: '10MB' },
        concurrency: { type: 'integer', minimum: 1, default: 8 },
      },
    },
  },
  {
    name: 'confirm',
    place: 'features',
    schema: {
      type: 'object',
      properties: {
        level: { enum: ['all', 'destructive'], default: 'destructive' },
        ttl: { ...durationSchema, default: '5m' },
        remember: { type: 'boolean', default: false },
        key: { type: 'string', 'x-secret': true },
        after: {
          anyOf: [
            { const: 'never' },
            {
              type: 'object',
              properties: { calls: { type: 'integer', default: 3 } },
              additionalProperties: false,
            },
          ],
          default: 'never',
        },
      },
      additionalProperties: false,
    },
  },
  {
    name: 'hints',
    place: 'features',
    schema: { type: 'object', default: 'off', properties: { words: { type: 'integer', default: 5 } } },
  },
]

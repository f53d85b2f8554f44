import { expect, it } from 'vitest'
import { complete } from '../../../../src/config/schema-lookup.ts'
import type { FromSchema } from '../../../../src/core/schema/from-schema.ts'
import { Secret } from '../../../../src/core/text/secret.ts'
import { durationSchema, sizeSchema } from '../../../../src/core/time/units.ts'

const schema = {
  type: 'object',
  properties: {
    mode: { enum: ['one', 'two'], default: 'one' },
    compat: { type: ['boolean', 'string'], enum: [true, false, 'on', 'off', 'always'], default: 'on' },
    ttl: { ...durationSchema, pattern: `^off$|${durationSchema.pattern}`, default: '1s' },
    max: { ...sizeSchema, default: '1KB' },
    calls: { type: ['integer', 'string'], pattern: '^off$', default: 8 },
    remember: { type: ['boolean', 'string'], pattern: '^(off|false)$', not: { const: true }, default: 'off' },
    names: { type: ['string', 'array'], items: { type: 'string' } },
    rules: {
      type: 'array',
      default: [{ path: 'a' }],
      items: { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] },
    },
    key: { type: 'string', 'x-secret': true, default: 'a-key' },
    byName: { type: 'object', additionalProperties: { type: 'number' }, default: {} },
  },
} as const

type Settings = FromSchema<typeof schema>

it('the type of a schema is that of the settings which the configuration passes on', () => {
  const settings: Settings = {
    mode: 'one',
    compat: true,
    ttl: 1000,
    max: 1024,
    calls: 8,
    remember: false,
    rules: [{ path: 'a' }],
    key: new Secret('a-key'),
    byName: {},
  }
  expect(complete({}, schema)).toEqual(settings)
})

it('other values are no settings', () => {
  const { ttl, calls, compat, remember, names }: Settings = {
    ...(complete({ ttl: 'off', calls: 'off', compat: 'always', names: ['a'] }, schema) as Settings),
  }
  const known: [
    'off' | number,
    'off' | number,
    boolean | 'always',
    false,
    string | readonly string[] | undefined,
  ] = [ttl, calls, compat, remember, names]
  expect(known).toEqual(['off', 'off', 'always', false, ['a']])
  // @ts-expect-error A duration is a number then.
  const written: Settings['ttl'] = '1s'
  // @ts-expect-error A switch is a boolean then.
  const on: Settings['compat'] = 'on'
  // @ts-expect-error It has a default.
  const absent: Settings['mode'] = undefined
  expect([written, on, absent]).toEqual(['1s', 'on', undefined])
})

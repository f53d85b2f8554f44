import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parametersOf } from '../../../../src/descriptions/model/parameters.ts'

test.each([
  [{ type: 'string' }, 'string'],
  [{ type: ['string', 'null'] }, 'string or null'],
  [{ type: 'array', items: { type: 'integer' } }, 'array of integer'],
  [{ type: 'array', items: { $ref: '#/$defs/point' } }, 'array of object'],
  [{ $ref: '#/$defs/point' }, 'object'],
  [{ anyOf: [{ type: 'string' }, { type: 'number' }] }, 'string or number'],
  [{ enum: [1, 2] }, 'number'],
  [{ const: 'x' }, 'string'],
  [{ properties: {} }, 'object'],
  [{ $ref: '#/nowhere' }, 'any'],
  [true, 'any'],
])('the type of parameter %j is %s', (schema, type) => {
  const $defs = { point: { type: 'object', properties: { x: { type: 'number' } } } }
  expect(parametersOf({ properties: { it: schema }, $defs })).toMatchObject([
    { name: 'it', type, isRequired: false },
  ])
})

test('members of a referenced schema are described', () => {
  const $defs = {
    point: { type: 'object', properties: { x: { type: 'number', exclusiveMinimum: 0 } }, required: ['x'] },
  }
  const points = { type: 'array', items: { $ref: '#/$defs/point' }, minItems: 1, maxItems: 1 }
  expect(parametersOf({ properties: { points }, required: ['points'], $defs })).toEqual([
    {
      name: 'points',
      type: 'array of object',
      isRequired: true,
      limits: ['1 to 1 items'],
      fields: [{ name: 'x', type: 'number', isRequired: true, limits: ['more than 0'] }],
    },
  ])
})

test('a self-referencing schema is described in finite time', () => {
  const schema = {
    properties: {
      self: { $ref: '#' },
      other: { $ref: '#/properties/other' },
      many: { type: 'array', items: { $ref: '#' } },
    },
  }
  expect(parametersOf(schema, 3).map(({ name }) => name)).toEqual(['self', 'other', 'many'])
})

test('any JSON is accepted in place of a schema', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(Array.isArray(parametersOf(value, 2))).toBe(true)
      expect(
        Array.isArray(
          parametersOf({ properties: { a: value, b: { items: value, enum: [value], default: value } } }),
        ),
      ).toBe(true)
    }),
  )
})

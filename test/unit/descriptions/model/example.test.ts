import fc from 'fast-check'
import { expect, test } from 'vitest'
import { validator } from '../../../../src/core/schema/schema.ts'
import { examplesOf, inputFor } from '../../../../src/descriptions/model/parameters.ts'
import { describedTool } from '../../../support/described-server.ts'

type Schema = Record<string, unknown>

const small = fc.integer({ min: 0, max: 8 })
const leaf = fc.oneof<fc.Arbitrary<Schema>[]>(
  fc.record({ type: fc.constant('string'), minLength: small, maxLength: small }, { requiredKeys: ['type'] }),
  fc.record(
    {
      type: fc.constantFrom('integer', 'number'),
      minimum: fc.integer({ min: -9, max: 9 }),
      maximum: fc.integer({ min: -9, max: 9 }),
      multipleOf: fc.constantFrom(1, 3),
      exclusiveMinimum: small,
    },
    { requiredKeys: ['type'] },
  ),
  fc.constantFrom<Schema>(
    { type: 'boolean' },
    { type: ['null', 'string'] },
    { const: 7 },
    { enum: ['a', 'b'] },
    { type: 'string', pattern: '^x' },
    { type: 'string', format: 'date' },
    { $ref: '#/$defs/none' },
    {},
  ),
)
const schema = fc.letrec<{ any: Schema; object: Schema }>((tie) => ({
  any: fc.oneof(
    { depthSize: 'small' },
    leaf,
    tie('object'),
    fc.record(
      { type: fc.constant('array'), items: tie('any'), minItems: fc.constantFrom(0, 1, 2), maxItems: small },
      { requiredKeys: ['type'] },
    ),
    fc.record({ anyOf: fc.array(tie('any'), { minLength: 1, maxLength: 3 }) }),
    fc.record({ oneOf: fc.array(tie('any'), { minLength: 1, maxLength: 3 }) }),
  ),
  object: fc
    .record({
      properties: fc.dictionary(fc.constantFrom('a', 'b', 'c', 'long_name'), tie('any'), { maxKeys: 4 }),
      isWhole: fc.boolean(),
    })
    .map(({ properties, isWhole }) => ({
      type: 'object',
      properties,
      required: Object.keys(properties),
      ...(isWhole && { additionalProperties: false }),
    })),
}))

test('an example is valid for its schema', () => {
  fc.assert(
    fc.property(schema.object, (plain) => {
      const made = { ...plain, $defs: { none: { type: 'string', minLength: 50 } } }
      const input = inputFor(made)
      if (input) expect(validator(made)(input)).toEqual([])
    }),
    { numRuns: 150 },
  )
}, 30_000)

test.each([
  [{ minimum: 1, maximum: 0 }, undefined],
  [{ minimum: 1 }, 1],
  [{ maximum: 0 }, 0],
  [{ minimum: -3 }, 1],
  [{ minimum: 2, maximum: 2 }, 2],
])('the example number in the range %j is %j', (range, expected) => {
  const properties = { n: { type: 'integer', ...range } }
  const found = inputFor({ type: 'object', properties, required: ['n'] })
  expect(found?.['n']).toBe(expected)
})

test('required arguments are filled in, preferably from defaults and enums', () => {
  const input = {
    type: 'object',
    properties: {
      path: { type: 'string' },
      kind: { enum: ['file', 'folder'] },
      depth: { type: 'integer', minimum: 2 },
      url: { type: 'string', format: 'uri' },
      sort: { type: 'string', default: 'name' },
      edits: {
        type: 'array',
        items: { type: 'object', properties: { text: { type: 'string' } }, required: ['text'] },
      },
      unasked: { type: 'string' },
    },
    required: ['path', 'kind', 'depth', 'url', 'sort', 'edits'],
  }
  expect(inputFor(input)).toEqual({
    path: '<path>',
    kind: 'file',
    depth: 2,
    url: 'https://example.com/',
    sort: 'name',
    edits: [{ text: '<text>' }],
  })
})

test('no example is made for a value that must match a pattern', () => {
  const id = { type: 'string', pattern: '^[A-Z]{3}-\\d+$' }
  expect(inputFor({ type: 'object', properties: { id }, required: ['id'] })).toBeUndefined()
})

test('configured examples replace generated ones, including outputs', () => {
  const tool = describedTool(
    { name: 'get_issue', inputSchema: { type: 'object' } },
    {},
    {
      settings: {
        tools: {
          get_issue: { examples: [{ description: 'One issue', input: { id: 1 }, output: { title: 'x' } }] },
        },
      },
    },
  )
  expect(examplesOf(tool)).toEqual([{ description: 'One issue', input: { id: 1 }, output: { title: 'x' } }])
})

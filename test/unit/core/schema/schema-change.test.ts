import fc from 'fast-check'
import { describe, expect, it, test } from 'vitest'
import { schemaChanges } from '../../../../src/core/schema/schema-change.ts'
import { validator } from '../../../../src/core/schema/schema.ts'
import { canonical } from '../../../../src/core/json/json.ts'
import { parseJson } from '../../../../src/core/json/read.ts'

const object = (more: object = {}) => ({ type: 'object', ...more })
const text = { type: 'string' }

function told(before: unknown, after: unknown, side: 'input' | 'output'): string[] {
  return schemaChanges(before, after, side).map(({ level, path, text: what }) => `${level} ${path} ${what}`)
}

test('a limit that differs in the last of many digits is a change', () => {
  const limit = (text: string) => parseJson(`{"properties":{"id":{"maximum":${text}}}}`)
  expect(told(limit('725653563933458433'), limit('725653563933458434'), 'input')).toHaveLength(1)
})

describe('changes of an input schema', () => {
  it.each([
    [
      'a removed argument',
      object({ properties: { a: text } }),
      object({ properties: {} }),
      'major a was removed',
    ],
    [
      'an additional optional argument',
      object({ properties: {} }),
      object({ properties: { a: text } }),
      'minor a was added',
    ],
    ['an argument that becomes required', object(), object({ required: ['a'] }), 'major a is required'],
    [
      'an argument that becomes optional',
      object({ required: ['a'] }),
      object(),
      'minor a is no longer required',
    ],
    ['a removed type', { type: ['string', 'null'] }, text, 'major  type: fewer than before'],
    ['an additional type', text, { type: ['string', 'null'] }, 'minor  type: more than before'],
    ['integer instead of number', { type: 'number' }, { type: 'integer' }, 'major  type: fewer than before'],
    ['a different type', text, { type: 'number' }, 'major  type: some were added, some removed'],
    ['a removed enum value', { enum: ['a', 'b'] }, { enum: ['a'] }, 'major  values: fewer than before'],
    ['an additional enum value', { enum: ['a'] }, { enum: ['a', 'b'] }, 'minor  values: more than before'],
    ['a tighter bound', { maximum: 5 }, { maximum: 4 }, 'major  maximum is tighter'],
    ['a looser bound', { minLength: 5 }, { minLength: 4 }, 'minor  minLength is looser'],
    ['a pattern', {}, { pattern: 'a' }, 'major  has a new pattern'],
    ['a different pattern', { pattern: 'b' }, { pattern: 'a' }, 'major  has a different pattern'],
    [
      'additional properties that become forbidden',
      object(),
      object({ additionalProperties: false }),
      'major  accepts fewer additional members',
    ],
    [
      'additional properties of a type that become allowed',
      object({ additionalProperties: false }),
      object({ additionalProperties: text }),
      'minor  may have additional members',
    ],
    ['a different default', { default: 1 }, { default: 2 }, 'major  has another default'],
    ['an unknown keyword', {}, { if: { const: 1 } }, 'major  has a different if'],
    [
      'items of a different type',
      { items: text },
      { items: { type: 'null' } },
      'major [] type: some were added, some removed',
    ],
    [
      'an additional alternative',
      { anyOf: [text] },
      { anyOf: [text, { type: 'null' }] },
      'minor  has more alternatives',
    ],
    ['a different description', { description: 'a' }, { description: 'b' }, 'patch  has a new description'],
    [
      'an argument named like a schema keyword',
      object({ properties: { description: text } }),
      object({ properties: {} }),
      'major description was removed',
    ],
  ])('the change is reported: %s', (_name, before, after, line) => {
    expect(told(before, after, 'input')).toEqual([line])
  })
})

describe('changes of an output schema', () => {
  it.each([
    [
      'a removed member',
      object({ properties: { a: text } }),
      object({ properties: {} }),
      'major a was removed',
    ],
    [
      'an additional member',
      object({ properties: {} }),
      object({ properties: { a: text } }),
      'minor a was added',
    ],
    ['a member that becomes optional', object({ required: ['a'] }), object(), 'major a may be missing'],
    ['an additional type', text, { type: ['string', 'null'] }, 'major  type: more than before'],
    ['an additional enum value', { enum: ['a'] }, { enum: ['a', 'b'] }, 'major  values: more than before'],
    ['a removed enum value', { enum: ['a', 'b'] }, { enum: ['a'] }, 'minor  values: fewer than before'],
    [
      'undescribed members',
      object({ additionalProperties: false }),
      object(),
      'minor  has a different additionalProperties',
    ],
  ])('the change is reported: %s', (_name, before, after, line) => {
    expect(told(before, after, 'output')).toEqual([line])
  })
})

const leaf = fc.oneof(
  fc.record({ type: fc.constantFrom('string', 'integer', 'number', 'boolean') }),
  fc.record({ enum: fc.uniqueArray(fc.constantFrom('a', 'b', 1, 2), { minLength: 1 }) }),
  fc.record({ type: fc.constant('integer'), minimum: fc.integer({ min: 0, max: 3 }) }),
  fc.record({ type: fc.constant('string'), maxLength: fc.integer({ min: 0, max: 2 }) }),
  fc.record({ type: fc.constant('string'), description: fc.string() }),
  fc.constant({ type: ['string', 'null'] }),
)
const schema = fc.record(
  {
    type: fc.constant('object'),
    properties: fc.dictionary(fc.constantFrom('a', 'b'), leaf),
    required: fc.uniqueArray(fc.constantFrom('a', 'b')),
    additionalProperties: fc.boolean(),
    description: fc.string(),
  },
  { requiredKeys: ['type'] },
)
const parts: readonly unknown[] = ['', 'a', 'ab', 'abc', 0, 1, 2, 4, 0.5, true, null]
const values = [
  {},
  ...parts.flatMap((part) => [{ a: part }, { b: part }, { c: part }, { a: 'a', b: part }, { a: part, b: 1 }]),
]

type Schema = Readonly<Record<string, unknown>>

/** The values that are valid for one of two schemas and not for the other. */
function between(one: Schema, other: Schema): readonly Schema[] {
  const [fits, misfits] = [validator(one), validator(other)]
  return values.filter((each) => fits(each).length === 0 && misfits(each).length > 0)
}

test.each(['input', 'output'] as const)(
  'every change of an %s schema is reported and nothing else',
  (side) => {
    fc.assert(
      fc.property(schema, schema, (before, after) => {
        expect(schemaChanges(before, before, side)).toEqual([])
        const isSame = canonical(before) === canonical(after)
        expect(schemaChanges(before, after, side).length === 0).toBe(isSame)
      }),
    )
  },
)

test.each(['input', 'output'] as const)(
  'a value that no longer fits an %s schema is a breaking change, unless its name was free',
  (side) => {
    fc.assert(
      fc.property(schema, schema, (before, after) => {
        const broken = side === 'input' ? between(before, after) : between(after, before)
        const levels = schemaChanges(before, after, side).map(({ level }) => level)
        const known = new Set(Object.keys(before.properties ?? {}))
        const isKnown = broken.some((each) => Object.keys(each).every((name) => known.has(name)))
        if (isKnown) expect(levels).toContain('major')
        else if (broken.length > 0) expect(levels.filter((level) => level !== 'patch')).not.toEqual([])
      }),
      { numRuns: 60 },
    )
  },
)

test('hostile schemas are compared in bounded time', () => {
  let deep: unknown = text
  for (let depth = 0; depth < 500; depth++) deep = { items: deep }
  expect(told(deep, { items: deep }, 'input')).toEqual([expect.stringMatching(/^major/)])
  const named = JSON.parse('{"properties":{"__proto__":{"type":"string"}}}')
  expect(told(named, { properties: {} }, 'input')).toEqual(['major __proto__ was removed'])
})

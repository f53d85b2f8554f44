import { describe, expect, test } from 'vitest'
import { parseJson } from '../../../../src/core/json/read.ts'
import {
  type JsonSchema,
  uncheckedPatterns,
  UnusableSchema,
  withCompilablePatterns,
  validator,
} from '../../../../src/core/schema/schema.ts'

const person = {
  type: 'object',
  properties: { name: { type: 'string' }, 'a/b~c': { type: 'integer' } },
  required: ['name'],
}

describe('validator', () => {
  test('a valid value has no problems', () => {
    expect(validator(person)({ name: 'Ada' })).toEqual([])
  })

  test('every problem is listed with its path in the value', () => {
    const problems = validator(person)({ 'a/b~c': 'x' })
    expect(problems.map(({ path, keyword }) => [path, keyword])).toEqual([
      [[], 'required'],
      [['a/b~c'], 'type'],
    ])
  })

  test('at most one hundred problems are listed', () => {
    const values = Array.from({ length: 500 }, () => 'x')
    expect(validator({ items: { type: 'number' } })(values)).toHaveLength(100)
  })

  test('schemas with the same text share one compiled check', () => {
    expect(validator({ ...person })).toBe(validator({ ...person }))
  })

  test('the default dialect is 2020-12', () => {
    const tuple = { prefixItems: [{ type: 'string' }] }
    expect(validator(tuple)([1])).toHaveLength(1)
  })

  test.each(['draft-04', 'draft-06', 'draft-07'])(
    'a %s schema is validated by the rules of its draft',
    (draft) => {
      const schema = { $schema: `http://json-schema.org/${draft}/schema#`, items: [{ type: 'string' }] }
      expect(validator(schema)([1])).toHaveLength(1)
    },
  )

  test('two schemas may have the same $id', () => {
    const id = 'https://example.com/input'
    expect(validator({ $id: id, type: 'string' })(1)).toHaveLength(1)
    expect(validator({ $id: id, type: 'number' })(1)).toEqual([])
  })

  test('patterns that are valid only outside Unicode mode are accepted', () => {
    expect(validator({ type: 'string', pattern: '^a\\-b$' })('a-b')).toEqual([])
  })

  test('a schema with $async is validated synchronously', () => {
    expect(validator({ $async: true, type: 'string' })(1)).toHaveLength(1)
  })

  test.each([
    ['an unknown type', { type: 'strnig' }],
    ['a reference to another document', { $ref: 'https://example.com/other' }],
    ['a keyword of the wrong type', { required: 'name' }],
  ])('a schema with %s throws at every use', (_what, schema) => {
    const check = validator(schema)
    expect(() => check('x')).toThrow(UnusableSchema)
    expect(() => check('x')).toThrow(UnusableSchema)
  })

  test('evicted schemas are still checked correctly', () => {
    const first = validator({ const: -1 })
    for (let number = 0; number < 1200; number += 1) validator({ const: number }, { trusted: true })(number)
    expect(first(0)).toHaveLength(1)
    expect(validator({ const: -1 })).not.toBe(first)
  })
})

describe('validator with an untrusted schema', () => {
  test('an untrusted schema does not share the check of an equal trusted schema', () => {
    const schema = { pattern: '(?=a)b' }
    expect(validator(schema, { trusted: true })('b')).toHaveLength(1)
    // A pattern that cannot be matched in linear time is skipped.
    expect(validator(schema)('b')).toEqual([])
  })

  test('a pattern with catastrophic backtracking is matched in linear time', () => {
    const start = performance.now()
    expect(validator({ pattern: '(a+)+$' })(`${'a'.repeat(50_000)}!`)).toHaveLength(1)
    expect(validator({ patternProperties: { '^(x+x+)+y$': false } })({ ['x'.repeat(5000)]: 1 })).toEqual([])
    expect(performance.now() - start).toBeLessThan(2000)
  })

  const strange = [
    '^(?=a)b$',
    '(?<=a)b',
    '(a)\\1',
    '(?<a>a)\\k<a>',
    '(?s:.)',
    '(?i-m:^a$)',
    'a++',
    '(?>a)',
    '(',
    '^a\\Z',
    'a\\h',
    '[a-z&&[^b]]',
    '[a-z&&\\d]',
  ]
  const stranger = [
    '[[:alpha:]]',
    '\\A',
    '\\pL',
    '\\p{IsGreek}',
    '(?i)a',
    'a{,3}',
    '(?P<n>a)',
    '\\Qa\\E',
    'a{1,4000}',
  ]

  test.each([...strange, ...stranger, 'a'.repeat(1001)])(
    'the pattern %s is not checked, and nothing else that it could decide is',
    (pattern) => {
      const text = { type: 'string', pattern }
      const parts: readonly (readonly [JsonSchema, unknown])[] = [
        [text, 'x'],
        [{ properties: { a: text } }, { a: 'x' }],
        [{ not: text }, 'x'],
        [{ if: text, else: false }, 'x'],
        [{ if: text, then: false }, 'x'],
        [{ oneOf: [text, { const: 'x' }] }, 'x'],
        [{ oneOf: [text, { type: 'number' }] }, 'x'],
        [{ contains: text }, ['x']],
        [{ contains: text, maxContains: 0, minContains: 0 }, ['x']],
        [{ propertyNames: { pattern } }, { x: 1 }],
        [{ patternProperties: { [pattern]: { type: 'number' } } }, { x: 'y' }],
        [{ patternProperties: { [pattern]: {} }, additionalProperties: false }, { x: 1 }],
        [{ patternProperties: { [pattern]: {} }, unevaluatedProperties: false }, { x: 1 }],
        [{ $ref: '#/$defs/a', $defs: { a: { not: text } } }, 'x'],
        [{ $schema: 'http://json-schema.org/draft-07/schema#', not: text }, 'x'],
      ]
      for (const [schema, value] of parts) {
        expect([schema, validator(schema)(value)]).toEqual([schema, []])
        expect(uncheckedPatterns(schema)).toMatchObject([{ pattern }])
      }
      const others = { type: 'object', properties: { a: text, b: { type: 'number' } }, required: ['b'] }
      expect(validator(others)({ a: 'x' })).toMatchObject([{ keyword: 'required' }])
      expect(validator(others)({ a: 1, b: 'x' })).toHaveLength(2)
    },
  )

  test.each<[JsonSchema, unknown]>([
    [{ not: { pattern: '(?i)^x' } }, { type: 'string' }],
    [{ oneOf: [{ pattern: '(?i)^x' }, { minLength: 1 }] }, 'y'],
    [{ if: { pattern: '(?i)^x' }, then: false }, 'y'],
  ])('%j without its pattern permits no less', (schema, value) => {
    expect(validator(withCompilablePatterns(schema))(value)).toEqual([])
    expect(JSON.stringify(withCompilablePatterns(schema))).not.toContain('(?i)')
  })

  test('patterns that are not checked are found by their place, and why', () => {
    const schema = {
      properties: { a: { items: { anyOf: [{ pattern: '^\\Z' }] } }, pattern: { const: { pattern: '(' } } },
      patternProperties: { '(?=b)': { pattern: '^ok$' } },
      default: { pattern: '(' },
    }
    expect(uncheckedPatterns(schema)).toEqual([
      { at: 'properties.a.items.anyOf.0.pattern', pattern: '^\\Z', reason: 'syntax' },
      { at: 'patternProperties', pattern: '(?=b)', reason: 'time' },
    ])
    expect(uncheckedPatterns(nested(100))).toEqual([])
  })

  test('several patterns are applied independently', () => {
    const check = validator({ properties: { a: { pattern: '^a$' }, b: { pattern: '^b$' } } })
    expect(check({ a: 'a', b: 'b' })).toEqual([])
    expect(check({ a: 'b', b: 'a' })).toHaveLength(2)
  })

  test('duplicates are found without quadratic comparison', () => {
    const check = validator({ uniqueItems: true })
    const items = Array.from({ length: 50_000 }, (_none, index) => ({ index }))
    expect(check(items)).toEqual([])
    expect(check([...items, { index: 7 }])).toHaveLength(1)
    expect(validator({ uniqueItems: false })([1, 1])).toEqual([])
  })

  test.each([
    ['nested without bound', nested(100)],
    ['made of nested lists', { const: JSON.parse('['.repeat(100) + ']'.repeat(100)) }],
    ['too long', { enum: Array.from({ length: 30_000 }, (_none, index) => index) }],
    ['full of keywords', { description: 'x'.repeat(600_000) }],
    ['only a reference to itself', { $ref: '#' }],
    ['an exponential expansion of references', laughs(30)],
  ])('a schema is unusable if it is %s', (_what, schema) => {
    const start = performance.now()
    expect(() => validator(schema)({})).toThrow(UnusableSchema)
    expect(performance.now() - start).toBeLessThan(2000)
  })

  test('a schema is unusable for a value whose validation would be exponential', () => {
    const again = { $ref: '#/$defs/node' }
    const schema = { ...again, $defs: { node: { properties: { next: { anyOf: [again, again, again] } } } } }
    const check = validator(schema)
    expect(check({ next: { next: {} } })).toEqual([])
    const deep = Array.from({ length: 40 }).reduce<object>((next) => ({ next }), { next: {} })
    expect(() => check(deep)).toThrow(UnusableSchema)
  })

  test('a property may be named like one that every object inherits', () => {
    const check = validator({ properties: { constructor: { type: 'string' } }, required: ['valueOf'] })
    expect(check({ valueOf: 1 })).toEqual([])
    expect(check({})).toMatchObject([{ keyword: 'required' }])
  })

  test('properties may be named like keywords', () => {
    const schema = {
      properties: { $ref: { type: 'string' }, enum: { $ref: '#/$defs/n' } },
      $defs: { n: { type: 'number' } },
    }
    expect(validator(schema)({ $ref: 'a', enum: 1 })).toEqual([])
    expect(validator(schema)({ $ref: 1, enum: 'a' })).toHaveLength(2)
  })

  test.each([
    [
      '{"anyOf":[{"type":"integer","exclusiveMaximum":18446744073709551616},{"type":"null"}]}',
      '18446744073709551615',
    ],
    ['{"anyOf":[{"type":"integer","multipleOf":3},{"type":"null"}]}', '725653563933458433'],
    ['{"oneOf":[{"const":725653563933458433},{"const":725653563933458434}]}', '725653563933458433'],
    ['{"not":{"const":725653563933458434}}', '725653563933458433'],
    ['{"if":{"const":725653563933458434},"then":{"type":"string"}}', '725653563933458433'],
    ['{"contains":{"multipleOf":3}}', '[725653563933458433]'],
    ['{"exclusiveMaximum":725653563933458433}', '725653563933458432'],
    [
      '{"$ref":"#/$defs/id","$defs":{"id":{"oneOf":[{"$ref":"#/$defs/n"},{"type":"null"}]},"n":{"multipleOf":3}}}',
      '725653563933458433',
    ],
  ])('%s takes %s, although a double would not fit', (schema, value) => {
    expect(validator(parseJson(schema) as JsonSchema)(parseJson(value))).toEqual([])
  })

  test.each([
    ['{"anyOf":[{"type":"string"},{"type":"null"}]}', '725653563933458433'],
    ['{"oneOf":[{"const":725653563933458433},{"const":7}]}', '925653563933458433'],
    ['{"enum":[725653563933458433]}', '825653563933458433'],
    ['{"properties":{"not":{"type":"string"}}}', '{"not":725653563933458433}'],
    ['{"required":["name"]}', '{"id":725653563933458433}'],
    ['{"enum":["oneOf"],"properties":{"oneOf":{}}}', '{"oneOf":725653563933458433}'],
  ])('%s refuses %s, whatever its digits', (schema, value) => {
    expect(validator(parseJson(schema) as JsonSchema)(parseJson(value))).not.toEqual([])
  })

  test.each([
    [0.01, [19.99, 4.35, 1.13, 0.29, -7.77, 0, 1e21], [19.995, 0.001]],
    [0.1, [0.3, 0.7, 2.3, 1e300], [0.25, 1e-7]],
    [1e-8, [3e-8, 0.00000123, 5], [1e-9, 3.5e-8]],
    [3, [9, -3, 0, 3e20], [10, 1e20]],
    [2.5, [5, 7.5], [6]],
  ])('decimals are multiples of %d by their digits', (multipleOf, taken, refused) => {
    const check = validator({ multipleOf })
    for (const each of taken) expect(check(each)).toEqual([])
    for (const each of refused)
      expect(check(each)).toMatchObject([
        { keyword: 'multipleOf', message: `must be multiple of ${multipleOf}` },
      ])
  })

  test('a schema may be recursive', () => {
    const tree = { type: 'object', properties: { children: { type: 'array', items: { $ref: '#' } } } }
    expect(validator(tree)({ children: [{ children: [] }] })).toEqual([])
    expect(validator(tree)({ children: [{ children: 1 }] })).toHaveLength(1)
  })
})

function nested(depth: number): JsonSchema {
  return Array.from({ length: depth }).reduce<JsonSchema>((inner) => ({ properties: { a: inner } }), {})
}

/** Thirty small definitions that expand to 2 ** 30. */
function laughs(count: number): JsonSchema {
  const names = Array.from({ length: count }, (_none, index) => `d${index}`)
  const defs = names.map((name, index) => {
    const next = { $ref: `#/$defs/d${index + 1}` }
    return [name, { allOf: [next, next] }]
  })
  return { $ref: '#/$defs/d0', $defs: { ...Object.fromEntries(defs), [`d${count}`]: { type: 'object' } } }
}

import { describe, expect, test } from 'vitest'
import { UnusableSchema, validator } from '../../../src/core/schema.ts'

const person = {
  type: 'object',
  properties: { name: { type: 'string' }, 'a/b~c': { type: 'integer' } },
  required: ['name'],
}

describe('validator', () => {
  test('gives no problems for a value that fits', () => {
    expect(validator(person)({ name: 'Ada' })).toEqual([])
  })

  test('lists every problem with its path in the value', () => {
    const problems = validator(person)({ 'a/b~c': 'x' })
    expect(problems.map(({ path, keyword }) => [path, keyword])).toEqual([
      [[], 'required'],
      [['a/b~c'], 'type'],
    ])
  })

  test('lists no more than a hundred problems', () => {
    const values = Array.from({ length: 500 }, () => 'x')
    expect(validator({ items: { type: 'number' } })(values)).toHaveLength(100)
  })

  test('shares one check between schemas with the same text', () => {
    expect(validator({ ...person })).toBe(validator({ ...person }))
  })

  test('reads a schema as 2020-12 unless it says otherwise', () => {
    const tuple = { prefixItems: [{ type: 'string' }] }
    expect(validator(tuple)([1])).toHaveLength(1)
  })

  test.each(['draft-04', 'draft-06', 'draft-07'])('reads a %s schema by the older rules', (draft) => {
    const schema = { $schema: `http://json-schema.org/${draft}/schema#`, items: [{ type: 'string' }] }
    expect(validator(schema)([1])).toHaveLength(1)
  })

  test('lets two schemas have the same $id', () => {
    const id = 'https://example.com/input'
    expect(validator({ $id: id, type: 'string' })(1)).toHaveLength(1)
    expect(validator({ $id: id, type: 'number' })(1)).toEqual([])
  })

  test('takes patterns that are valid outside Unicode mode only', () => {
    expect(validator({ type: 'string', pattern: '^a\\-b$' })('a-b')).toEqual([])
  })

  test('never answers with a promise', () => {
    expect(validator({ $async: true, type: 'string' })(1)).toHaveLength(1)
  })

  test.each([
    ['a type that does not exist', { type: 'strnig' }],
    ['a reference to another document', { $ref: 'https://example.com/other' }],
    ['a broken pattern', { pattern: '(' }],
    ['a keyword of the wrong kind', { required: 'name' }],
  ])('throws when the schema has %s, at every use', (_what, schema) => {
    const check = validator(schema)
    expect(() => check('x')).toThrow(UnusableSchema)
    expect(() => check('x')).toThrow(UnusableSchema)
  })

  test('keeps checking after far more schemas than it remembers', () => {
    const first = validator({ const: -1 })
    for (let number = 0; number < 1200; number += 1) validator({ const: number }, { trusted: true })(number)
    expect(first(0)).toHaveLength(1)
    expect(validator({ const: -1 })).not.toBe(first)
  })
})

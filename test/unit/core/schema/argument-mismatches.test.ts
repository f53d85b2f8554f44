import { describe, expect, test } from 'vitest'
import { parseJson } from '../../../../src/core/json/read.ts'
import { parseExpression } from '../../../../src/core/undo/expression.ts'
import { argumentMismatches, pathMismatch } from '../../../../src/core/schema/argument-mismatches.ts'

const schema = {
  type: 'object',
  properties: {
    id: { type: 'integer' },
    title: { type: 'string' },
    state: { enum: ['open', 'closed'] },
    labels: { type: 'array' },
    nested: { type: 'object', properties: { a: {} } },
  },
  required: ['id'],
}

describe('argument mismatches of a call expression', () => {
  test.each([
    ['f(id=1)', []],
    ['f(id=$.result.id, state="closed", labels=[1], nested={"a": 1})', []],
    ['f(title="x")', ['f requires id, which is missing']],
    ['f(id=1, titl="x")', ['f takes no titl; did you mean title?']],
    ['f(id=1, elsewhere=2)', ['f takes no elsewhere; there are id, title, state, labels, nested']],
    ['f(id="1")', ['id of f must be integer']],
    ['f(id=1.5)', ['id of f must be integer']],
    ['f(id=1, labels={})', ['labels of f must be array']],
    ['f(id=1, state="shut")', ['state of f must be one of "open", "closed"']],
    ['f(id=1, constructor=1)', ['f takes no constructor; there are id, title, state, labels, nested']],
  ])('%s is checked against the input schema of its tool', (text, expected) => {
    expect(argumentMismatches(parseExpression(text), schema)).toEqual(expected)
  })

  test('long numbers of a schema are compared by all digits', () => {
    const long = parseJson(
      '{"properties":{"id":{"const":725653563933458433},"of":{"enum":[725653563933458433]}}}',
    )
    const of = (text: string) => argumentMismatches(parseExpression(text), long)
    expect(of('f(id=725653563933458433, of=725653563933458433)')).toEqual([])
    expect(of('f(id=725653563933458434)')).toEqual(['id of f must be 725653563933458433'])
    expect(of('f(of=725653563933458434)')).toEqual(['of of f must be one of 725653563933458433'])
  })

  const record = {
    type: 'object',
    properties: {
      id: { type: 'integer' },
      key: { type: 'string' },
      ids: { type: 'array', items: { type: 'integer' } },
      rows: { type: 'array', items: { type: 'object', properties: { id: { type: 'integer' } } } },
      any: {},
    },
  }
  const sources = {
    args: [['make', record]],
    result: [['make', record]],
    snapshot: [['read', record]],
  } as const

  test.each([
    ['f(id=$.result.id, title=$.args.key)', []],
    ['f(id=$.result.any)', []],
    ['f(id=$.result.key)', ['id of f must be integer, but $.result.key of make is string']],
    ['f(id=1, title=$.args.ids)', ['title of f must be string, but $.args.ids of make is array of integer']],
    ['f(id=1, labels=$.result.key)', ['labels of f must be array, but $.result.key of make is string']],
    ['f(id=1, title=$.snapshot)', ['title of f must be string, but $.snapshot of read is object']],
    ['f(id=$.result.rows[0].id)', []],
    [
      'f(id=$.result.rows[*].id)',
      ['id of f must be integer, but $.result.rows[*].id of make is array of integer'],
    ],
    [
      'f(id=1, names=$.result.rows[*].id)',
      ['names of f must be array of string, but $.result.rows[*].id of make is array of integer'],
    ],
    ['f(id=1, names=[$.args.key])', []],
    [
      'f(id=1, names=[$.args.id])',
      ['names of f has a part that must be string, but $.args.id of make is integer'],
    ],
    ['f(id=1, names=[1])', ['names of f has a part that must be string']],
    [
      'f(id=1, nested={"b": $.args.id})',
      ['nested of f has a part that must be string, but $.args.id of make is integer'],
    ],
  ])('%s is checked against the types its paths refer to', (text, expected) => {
    const wanted = {
      ...schema,
      properties: {
        ...schema.properties,
        names: { type: 'array', items: { type: 'string' } },
        nested: { type: 'object', properties: { b: { type: 'string' } } },
      },
    }
    expect(argumentMismatches(parseExpression(text), wanted, sources)).toEqual(expected)
    // Undeclared types are not compared.
    const unsaid = { args: [['make', {}]], result: [['make', undefined]], snapshot: [] } as const
    const found = argumentMismatches(parseExpression(text), wanted, unsaid)
    expect(found.filter((each) => each.includes('$.'))).toEqual([])
  })

  test.each([
    [{ type: 'object' }],
    [{ type: 'object', properties: { a: {} }, additionalProperties: true }],
    [{ type: 'object', properties: { a: {} }, patternProperties: { '^x': {} } }],
    [{ properties: { a: {} }, allOf: [{ properties: { anything: {} } }] }],
    ['no schema'],
  ])('any argument is accepted where %j leaves the arguments open', (open) => {
    expect(argumentMismatches(parseExpression('f(anything=1)'), open)).toEqual([])
  })

  test('no argument is accepted where the schema forbids all', () => {
    expect(
      argumentMismatches(parseExpression('f(a=1)'), { type: 'object', additionalProperties: false }),
    ).toEqual(['f takes no a'])
  })
})

describe('paths against a schema', () => {
  const pathOf = (text: string) => {
    const { find } = parseExpression(`f() -> ${text}`)
    if (!find) throw new Error('there is no path')
    return find
  }
  const described = {
    properties: { items: { type: 'array', items: { properties: { id: {} } } }, open: {} },
  }
  test.each([
    ['$.result.items[0].id', undefined],
    ['$.result.open.anything', undefined],
    ['$.result', undefined],
    ['$.result.item', 'f has no $.result.item; did you mean items?'],
    ['$.result.items[0].number', 'f has no $.result.items[0].number; there is id'],
  ])('%s is held against a schema', (text, expected) => {
    expect(pathMismatch(pathOf(text), described, 'f')).toBe(expected)
  })
})

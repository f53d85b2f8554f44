import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  evaluate,
  type Expression,
  parseExpression,
  resultValue,
  uses,
  type Value,
  printExpression,
} from '../../../../src/core/undo/expression.ts'
import { find, type Path, type Root } from '../../../../src/core/json/path.ts'
import { Payload } from '../../../../src/core/payload.ts'

const scope = {
  args: {
    path: 'a.txt',
    owner: 'me',
    'odd key': [1, { deep: true }],
    many: [
      { name: 'one', parts: [1] },
      { name: 'two', parts: [] },
    ],
  },
  result: { items: [{ id: 7 }], none: null },
  snapshot: { content: 'before' },
}

function evaluated(text: string): unknown {
  return evaluate(parseExpression(text), scope)
}

describe('a call expression', () => {
  test.each([
    ['delete_issue(id=$.result.items[0].id)', { id: 7 }],
    ['f(a=$.args.path, b=$.snapshot.content)', { a: 'a.txt', b: 'before' }],
    ['f(a=$.args["odd key"][1].deep)', { a: true }],
    ['f(a=$.args)', { a: scope.args }],
    ['f(a=$.args.many[*].name)', { a: ['one', 'two'] }],
    ['f(a=$.args.many[*].parts[*])', { a: [[1], []] }],
    ['f(a=$.result.none)', { a: null }],
    ['f()', {}],
    [' f ( a = 1 , b = [ ] ) ', { a: 1, b: [] }],
    [
      'f(a="x\\"y\\u0041", b=-1.5e2, c=true, d=false, e=null)',
      { a: 'x"yA', b: -150, c: true, d: false, e: null },
    ],
    ['f(a=[$.args.owner, {"b": $.result.items[0].id, "c": [1]}])', { a: ['me', { b: 7, c: [1] }] }],
    ['f("odd name"=1)', { 'odd name': 1 }],
  ])('%s evaluates to its arguments', (text, expected) => {
    expect(evaluated(text)).toEqual(expected)
  })

  test.each([
    'f(a=$.args.missing)',
    'f(a=$.result.items[1])',
    'f(a=$.result.items.length)',
    'f(a=$.args.constructor)',
    'f(a=$.args.__proto__)',
    'f(a=$.args.path.length)',
    'f(a=$.args.path[0])',
    'f(a=[$.snapshot.other])',
  ])('%s fails on a path that does not exist', (text) => {
    expect(() => evaluated(text)).toThrow(/^there is no \$\./)
  })

  test('__proto__ and constructor are ordinary names', () => {
    const given = evaluate(parseExpression('f(__proto__=1, constructor={"__proto__": 2})'), scope)
    expect(Object.keys(given)).toEqual(['__proto__', 'constructor'])
    expect(JSON.stringify(given)).toBe('{"__proto__":1,"constructor":{"__proto__":2}}')
    expect(Object.getPrototypeOf({})).toBe(Object.prototype)
  })

  test('an expression lists the roots it uses', () => {
    expect(uses(parseExpression('f(a=[{"x": $.result.a}], b=$.args.b) -> $.snapshot.x'))).toEqual(
      new Set(['result', 'args']),
    )
  })

  test('the path after the arrow evaluates to a value or undefined', () => {
    const { find: path } = parseExpression('list() -> $.result.items[0]')
    expect(path && find(path, scope)).toEqual({ id: 7 })
    expect(path && find(path, { args: {}, result: { items: [] } })).toBeUndefined()
  })
})

test.each(['12345678901234567890', '0.12345678901234567890', '1e999'])(
  'the number %s is written as it stands in the expression',
  (digits) => {
    const expression = parseExpression(`f(a=${digits})`)
    expect(printExpression(expression)).toBe(`f(a=${digits})`)
    expect(JSON.stringify(evaluate(expression, { args: {} }))).toBe(`{"a":${digits}}`)
  },
)

describe('syntax errors of expressions', () => {
  test.each([
    ['', 'expected the name of a tool at character 1; it ends there'],
    ['none', 'expected "(" after the name of the tool at character 5; it ends there'],
    ['f(', 'expected the name of an argument at character 3; it ends there'],
    ['f(a', 'expected "=" behind "a" at character 4; it ends there'],
    ['f(a=)', 'expected a value: JSON, or a path that begins with $ at character 5; there is ")"'],
    ["f(a='x')", 'expected a text in double quotes at character 5; there is "\'x\')"'],
    [
      'f(a=$.arg.x)',
      'expected a path that begins with $.args, $.result or $.snapshot at character 5; there is "$.arg.x)"',
    ],
    [
      'f(a=$.argsx)',
      'expected a path that begins with $.args, $.result or $.snapshot at character 5; there is "$.argsx)"',
    ],
    ['f(a=$.args.)', 'expected the name of a member at character 12; there is ")"'],
    ['f(a=$.args[x])', 'expected a number, *, or a name in double quotes at character 12; there is "x])"'],
    ['f(a=1, a=2)', '"a" is given twice at character 8'],
    ['f(a=1', 'expected "," or ")" at character 6; it ends there'],
    ['f(a=1) more', 'expected the end, or "->" and a path at character 8; there is "more"'],
    ['f(a=01)', 'expected a value: JSON, or a path that begins with $ at character 5; there is "01)"'],
    ['f(a="x)', 'the text at character 5 is not a JSON string in double quotes'],
    [`f(a=${'['.repeat(33)}`, 'values are nested more than 32 levels deep'],
    [`f(a=$.args${'.b'.repeat(65)})`, 'a path has more than 64 steps'],
    [`f(a="${'x'.repeat(4000)}")`, 'it is longer than 4000 characters'],
  ])('%s: the error names the position and what was expected', (text, message) => {
    expect(() => parseExpression(text)).toThrow(new TypeError(message))
  })

  test('every syntax error is a TypeError', () => {
    const alphabet = fc.constantFrom(...'f(a=$.args[0]"\\,{}:->x1-e \n'.split(''), '$.result', '->', 'true')
    const texts = fc.oneof(
      fc.string(),
      fc.array(alphabet, { maxLength: 60 }).map((parts) => parts.join('')),
    )
    fc.assert(
      fc.property(texts, (text) => {
        try {
          parseExpression(text)
        } catch (error) {
          expect(error).toBeInstanceOf(TypeError)
        }
      }),
      { numRuns: 3000 },
    )
  })
})

const root = fc.constantFrom<Root>('args', 'result', 'snapshot')
const path: fc.Arbitrary<Path> = fc.record({
  root,
  steps: fc.array(fc.oneof(fc.string(), fc.integer({ min: 0, max: 999_999_999 }), fc.constant(null)), {
    maxLength: 6,
  }),
})
const literal = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.boolean(),
  fc.constant(null),
  fc.integer(),
  fc
    .double({ noNaN: true, noDefaultInfinity: true, maxExcluded: true })
    .filter((each) => Math.abs(each) < 1e15),
)
const { value } = fc.letrec<{ value: Value }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    literal.map((each): Value => ({ kind: 'literal', value: each === 0 ? 0 : each })),
    path.map((each): Value => ({ kind: 'path', path: each })),
    fc.array(tie('value'), { maxLength: 3 }).map((items): Value => ({ kind: 'list', items })),
    fc.array(fc.tuple(fc.string(), tie('value')), { maxLength: 3 }).map((members): Value => {
      return { kind: 'object', members: new Map(members) }
    }),
  ),
}))
const expression: fc.Arbitrary<Expression> = fc
  .record({
    tool: fc.oneof(fc.constant('delete_issue'), fc.string({ minLength: 1 })),
    given: fc.array(fc.tuple(fc.string(), value), { maxLength: 4 }),
    found: fc.option(path, { nil: undefined }),
  })
  .map(({ tool, given, found }) => ({ tool, arguments: new Map(given), ...(found && { find: found }) }))

test('a printed expression parses to the same expression', () => {
  fc.assert(
    fc.property(expression, (each) => {
      const text = printExpression(each)
      fc.pre(text.length <= 4000)
      expect(parseExpression(text)).toEqual(each)
    }),
    { numRuns: 500 },
  )
})

describe('$.result', () => {
  const text = (each: string) => ({ type: 'text', text: each })
  test.each([
    ['the structured content', { structuredContent: { id: 1 }, content: [text('{"id":2}')] }, { id: 1 }],
    ['the JSON of the only text', { content: [text('{"id":2}')] }, { id: 2 }],
    ['the only text, which is not JSON', { content: [text('made it')] }, 'made it'],
    ['several texts, joined', { content: [text('1'), text('2')] }, '1\n2'],
    ['nothing without text', { content: [{ type: 'image', data: '' }] }, undefined],
    ['nothing without content', {}, undefined],
  ])('$.result is %s', (_what, result, expected) => {
    expect(resultValue(Payload.of(result))).toEqual(expected)
  })
})

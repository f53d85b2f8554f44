import { expect, it } from 'vitest'
import { Payload } from '../../../src/core/payload.ts'
import { common } from '../../../src/protocol/dialects.ts'
import { repairedTool } from '../../../src/protocol/schema-repair.ts'
import { checkedPage } from '../../../src/protocol/server-shapes.ts'
import { refusalsOf, refusedSchemas } from '../../support/refused-schemas.ts'

const GOOD =
  '{"name":"good","inputSchema":{"type":"object","properties":{"n":{"type":"integer","minimum":1.0}}}}'

it.each(Object.entries(refusedSchemas))(
  'of a list with %s, all other tools stay',
  (_name, { schema, at, leftOut }) => {
    const page = Payload.text(`{"tools":[${JSON.stringify({ name: 'bad', inputSchema: schema })},${GOOD}]}`)
    const { payload, found } = checkedPage(page, 'tools', { dialect: common })
    const listed = (payload.at('tools')?.items ?? []).map((each) => repairedTool(each).tool)
    expect(listed.at(-1)?.text).toBe(GOOD)
    expect(listed.map(({ fields }) => fields.name)).toEqual(leftOut ? ['good'] : ['bad', 'good'])
    expect(found).toHaveLength(1)
    expect(found[0]).toMatchObject({ entry: 'bad' })
    if (leftOut) expect(found[0]).toMatchObject({ pointer: at })
    else expect(found[0]?.problem).toContain(`${at} `)
    for (const { fields } of listed) expect(refusalsOf(fields.inputSchema)).toEqual([])
  },
)

const repaired = (inputSchema: object): unknown =>
  repairedTool(Payload.of({ name: 'a', inputSchema })).tool.fields.inputSchema

it.each([
  [
    'a required argument that a pattern is about stays free of the rule for all others',
    {
      type: 'object',
      patternProperties: { '^x-': { type: 'string' } },
      additionalProperties: { type: 'number' },
      required: ['x-a'],
    },
    expect.objectContaining({ properties: { 'x-a': {} } }),
  ],
  [
    'alternatives say which arguments belong together',
    {
      type: 'object',
      properties: { a: {}, b: {}, c: {} },
      anyOf: [{ required: ['a'] }, { required: ['b', 'c'] }],
    },
    { type: 'object', properties: { a: {}, b: {}, c: {} }, description: 'Give "a", or "b" and "c".' },
  ],
  [
    'closed alternatives stay closed, and their constants become an enum',
    {
      type: 'object',
      oneOf: [
        { type: 'object', properties: { k: { const: 'x' } }, required: ['k'], additionalProperties: false },
        { type: 'object', properties: { k: { const: 'y' } }, required: ['k'], additionalProperties: false },
      ],
    },
    { type: 'object', properties: { k: { enum: ['x', 'y'] } }, required: ['k'], additionalProperties: false },
  ],
  [
    'an argument that another open alternative does not name may be anything, and keeps its type for models',
    { type: 'object', anyOf: [{ properties: { a: { type: 'string' } } }, { properties: { b: {} } }] },
    { type: 'object', properties: { a: { anyOf: [{ type: 'string' }, {}] }, b: {} } },
  ],
  [
    'a bound of draft 4 is a number',
    { type: 'object', properties: { a: { type: 'integer', minimum: 0, exclusiveMinimum: true } } },
    { type: 'object', properties: { a: { type: 'integer', exclusiveMinimum: 0 } } },
  ],
  [
    'a reference keeps what is said beside it',
    {
      type: 'object',
      properties: { a: { $ref: '#/$defs/A', description: 'mine' } },
      $defs: { A: { type: 'string' } },
    },
    { type: 'object', properties: { a: { type: 'string', description: 'mine' } } },
  ],
  [
    'an argument with a name that providers refuse is described',
    {
      type: 'object',
      properties: { $top: { type: 'integer', description: 'How many' } },
      required: ['$top'],
      additionalProperties: false,
    },
    { type: 'object', properties: {}, description: 'Also takes "$top" (integer; required; How many).' },
  ],
  [
    'what decides about others is kept as it is or removed',
    { type: 'object', properties: { a: { not: { type: 'array' } }, b: { not: { type: 'any' } } } },
    { type: 'object', properties: { a: { not: { type: 'array', items: {} } }, b: {} } },
  ],
])('%s', (_title, given, listed) => {
  expect(repaired(given)).toEqual(listed)
})

it('numbers keep their digits', () => {
  const schema = '{"type":"object","properties":{"a":{"maximum":12345678901234567890},"b":{"type":"array"}}}'
  const { tool } = repairedTool(Payload.text(`{"name":"a","inputSchema":${schema}}`))
  expect(tool.text).toContain('"maximum":12345678901234567890')
})

it('a description that is longer than all limits is cut', () => {
  const given = Payload.of({ name: 'a', description: 'x'.repeat(40_000), inputSchema: { type: 'object' } })
  const { tool, changes } = repairedTool(given)
  expect(String(tool.fields.description)).toHaveLength(32_768)
  expect(changes).toEqual([expect.objectContaining({ pointer: '/description' })])
})

it('schemas that are written out in place of references are limited', () => {
  const $defs = Object.fromEntries(
    Array.from({ length: 30 }, (_each, index) => [
      `D${index}`,
      {
        type: 'object',
        properties: Object.fromEntries(
          Array.from({ length: 4 }, (_other, at) => [
            `p${at}`,
            { $ref: `#/$defs/D${(index * 4 + at + 1) % 30}` },
          ]),
        ),
      },
    ]),
  )
  const given = { type: 'object', properties: { a: { $ref: '#/$defs/D0' } }, $defs }
  expect(JSON.stringify(repaired(given)).length).toBeLessThan(200_000)
  expect(refusalsOf(repaired(given))).toEqual([])
})

it('without the check for providers only what clients refuse is found', () => {
  const page = Payload.of({
    tools: [{ name: 'a', inputSchema: { type: 'object', oneOf: [{ type: 'string' }] } }],
  })
  expect(checkedPage(page, 'tools')).toEqual({ payload: page, found: [] })
})

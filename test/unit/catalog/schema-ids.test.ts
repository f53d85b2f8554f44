import { AjvJsonSchemaValidator } from '@modelcontextprotocol/sdk/validation/ajv'
import { expect, it } from 'vitest'
import { withDistinctIds } from '../../../src/catalog/aggregate.ts'
import { Payload } from '../../../src/core/payload.ts'

type Schema = Readonly<Record<string, unknown>>

function object(key: string, schema: Schema, more: Schema = {}): Schema {
  return { type: 'object', properties: { [key]: schema }, required: [key], ...more }
}

const text = { type: 'string' }
const outer = object('a', text, { $id: 'Out' })

/** Output schemas of two tools, and a value that fits the second one. */
const pairs: readonly (readonly [Schema, Schema, Schema])[] = [
  [outer, object('b', text, { $id: 'Out' }), { b: 'x' }],
  [outer, object('b', text, { $id: 'Out#' }), { b: 'x' }],
  [outer, object('b', { $id: 'Out', type: 'number' }), { b: 1 }],
  [object('b', { $id: 'Out', type: 'number' }), outer, { a: 'x' }],
  [
    object('b', { $ref: '#/$defs/c' }, { $id: 'Out', $defs: { c: { type: 'number' } } }),
    object('b', { $ref: '#/$defs/c' }, { $id: 'Out', $defs: { c: text } }),
    { b: 'x' },
  ],
  [
    object('b', { $id: 'Item', type: 'number' }, { $id: 'https://x.example/' }),
    object('b', text, { $id: 'https://x.example/Item' }),
    { b: 'x' },
  ],
  [outer, object('b', { $ref: 'Out' }, { $id: 'Out', required: [] }), { b: {} }],
]

it.each(pairs)(
  'clients read the results of two tools whose schemas share an id: %j, %j',
  (one, other, value) => {
    const engine = new AjvJsonSchemaValidator()
    const [first, second] = withDistinctIds([one, other].map((outputSchema) => Payload.of({ outputSchema })))
    const validators = [first, second].map((tool) => {
      const { outputSchema } = JSON.parse(tool?.text ?? '')
      return outputSchema === undefined ? undefined : engine.getValidator(outputSchema)
    })
    expect(validators[1]?.(value).valid).not.toBe(false)
  },
)

it('ids that are in one schema alone, or in the same schema of several tools, are kept', () => {
  const tools = [outer, outer, object('a', text, { $id: 'https://x.example/a' }), object('a', text)].map(
    (outputSchema) => Payload.of({ outputSchema }),
  )
  expect(withDistinctIds(tools)).toEqual(tools)
})

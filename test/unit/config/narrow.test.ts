import fc from 'fast-check'
import { expect, test } from 'vitest'
import { narrowed } from '../../../src/config/schema-lookup.ts'
import { fileSchema } from '../../../src/config/schema.ts'
import { validator, type JsonSchema } from '../../../src/core/schema/schema.ts'
import { features } from '../../../src/features/index.ts'

const whole = fileSchema(features)

/** Names that occur in the schema, so that random files can break its rules. */
const names = [...new Set(JSON.stringify(whole).match(/(?<=")[a-z_]+(?=":)/g))]
const leaf = fc.oneof(
  fc.constantFrom<unknown>('on', 'off', '10m', '1MB', 'https://h/mcp', 'x y', 0, 1, -1, true, null),
  fc.string({ maxLength: 3 }),
)
const { tree } = fc.letrec<{ tree: unknown }>((tie) => ({
  tree: fc.oneof(
    { maxDepth: 5, withCrossShrink: true },
    leaf,
    fc.array(tie('tree'), { maxLength: 2 }),
    fc.dictionary(fc.oneof(fc.constantFrom(...names), fc.constantFrom('a', 'b')), tie('tree'), {
      maxKeys: 4,
    }),
  ),
}))
const file = fc.record(
  {
    listen: tree,
    auth: tree,
    limits: tree,
    observe: tree,
    store: tree,
    features: tree,
    upstreams: fc.dictionary(fc.constantFrom('a', 'b', 'Bad'), tree, { maxKeys: 2 }),
    other: leaf,
  },
  { requiredKeys: [] },
)

test('the narrowed schema finds the same problems as the whole schema', () => {
  const check = validator(whole, { trusted: true })
  fc.assert(
    fc.property(file, (value) => {
      expect(validator(narrowed(whole, value), { trusted: true })(value)).toEqual(check(value))
    }),
    { numRuns: 60 },
  )
})

test('the narrowed schema has no rules for absent keys', () => {
  const size = (schema: JsonSchema): number => JSON.stringify({ ...schema, $defs: {} }).length
  const value = { upstreams: { files: { command: 'x' } } }
  expect(size(narrowed(whole, value))).toBeLessThan(size(whole) / 3)
})

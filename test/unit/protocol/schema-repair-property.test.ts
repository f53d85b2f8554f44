import { Ajv } from 'ajv'
import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { isObject } from '../../../src/core/json/json.ts'
import { Payload } from '../../../src/core/payload.ts'
import { common, dialects } from '../../../src/protocol/dialects.ts'
import { repairedTool } from '../../../src/protocol/schema-repair.ts'
import { subsetRefusals } from '../../support/refused-schemas.ts'
import { repetitions } from '../../support/soak.ts'

type Json = Readonly<Record<string, unknown>>

const OLD = 'http://json-schema.org/draft-07/schema#'
const names = fc.constantFrom('a', 'b', 'c', 'd[e]')
const scalars = fc.constantFrom<unknown>(null, true, 0, 1, 2.5, 'x', 'yy', '')
const { value } = fc.letrec<{ value: unknown }>((tie) => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    scalars,
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(names, tie('value'), { maxKeys: 3 }),
  ),
}))

/** Schemas with everything that is repaired, and much that stays. */
const { schema } = fc.letrec<{ schema: unknown }>((tie) => {
  const some = tie('schema')
  const rules: Readonly<Record<string, fc.Arbitrary<unknown>>> = {
    type: fc.oneof(
      fc.constantFrom('object', 'array', 'string', 'integer', 'number', 'null'),
      fc.constantFrom(['object', 'null'], ['array', 'string'], ['object', 'array', 'integer']),
    ),
    properties: fc.dictionary(names, some, { maxKeys: 3 }),
    required: fc.uniqueArray(names, { maxLength: 2 }),
    additionalProperties: fc.oneof(fc.boolean(), some),
    patternProperties: fc.dictionary(fc.constantFrom('^a', 'b', '.'), some, { maxKeys: 1 }),
    propertyNames: fc.constantFrom({ maxLength: 1 }, true, { pattern: '^[a-c]' }),
    dependentRequired: fc.constantFrom({ a: ['b'] }, { c: ['a', 'b'] }),
    items: some,
    prefixItems: fc.array(some, { minLength: 1, maxLength: 2 }),
    contains: some,
    maxContains: fc.constantFrom(1, 2),
    minItems: fc.constantFrom(0, 1),
    uniqueItems: fc.boolean(),
    minimum: fc.constantFrom(0, 1),
    maxLength: fc.constantFrom(1, 2),
    enum: fc.uniqueArray(scalars, { minLength: 1, maxLength: 3 }),
    const: scalars,
    anyOf: fc.array(some, { minLength: 1, maxLength: 3 }),
    oneOf: fc.array(some, { minLength: 1, maxLength: 3 }),
    allOf: fc.array(some, { minLength: 1, maxLength: 2 }),
    not: some,
    if: some,
    then: some,
    else: some,
    unevaluatedProperties: fc.boolean(),
    unevaluatedItems: fc.boolean(),
    $ref: fc.constantFrom('#/$defs/one', '#/$defs/two', '#/properties/a', '#'),
  }
  // Few rules each, so that values fit some of them.
  const few = fc
    .uniqueArray(fc.constantFrom(...Object.keys(rules)), { minLength: 1, maxLength: 4 })
    .chain((keys) => fc.record(Object.fromEntries(keys.map((key) => [key, rules[key] ?? some] as const))))
  return {
    schema: fc.oneof(
      { depthSize: 'small', withCrossShrink: true },
      fc.constantFrom({}, true, false),
      few,
      few,
    ),
  }
})

const root = fc
  .record({ rules: schema, one: schema, two: schema, isOld: fc.boolean() })
  .map(({ rules, one, two, isOld }): Json => {
    const given = isObject(rules) ? rules : {}
    return { ...given, type: 'object', $defs: { one, two }, ...(isOld && { $schema: OLD }) }
  })

const options = { strict: false, logger: false, validateFormats: false, addUsedSchema: false } as const
const modern = new Ajv2020(options)
const old = new Ajv(options)

function accepts(given: unknown): ((candidate: unknown) => boolean) | undefined {
  const { $schema, ...rules } = Object(given) as Json
  const ajv = $schema === undefined ? modern : old
  try {
    const validate = ajv.compile(rules)
    // References that never end are no schema.
    return (candidate) => {
      try {
        return validate(candidate)
      } catch {
        return false
      }
    }
  } catch {
    return undefined
  }
}

/** A schema in which `nullable` is an alternative, as OpenAPI reads it. */
function read(given: unknown): unknown {
  if (Array.isArray(given)) return given.map(read)
  if (!isObject(given)) return given
  const { nullable, ...rules } = Object.fromEntries(
    Object.entries(given).map(([key, each]) => [key, key === 'default' ? each : read(each)]),
  )
  return nullable === true ? { anyOf: [rules, { type: 'null' }] } : rules
}

it.each(Object.entries({ common, ...dialects }))(
  'a schema repaired for %s accepts all that the original accepts',
  { timeout: 300_000 },
  (provider, dialect) => {
    const seen = { accepted: 0, repaired: 0 }
    fc.assert(
      fc.property(
        root,
        fc.array(fc.dictionary(names, value, { maxKeys: 4 }), { minLength: 12, maxLength: 24 }),
        (given, values) => {
          const original = accepts(given)
          const { tool, unusable } = repairedTool(Payload.of({ name: 'a', inputSchema: given }), dialect)
          if (!original) return
          const accepted = values.filter(original)
          if (unusable) {
            expect(accepted).toEqual([])
            return
          }
          const { inputSchema } = tool.fields
          if (dialect.subset) expect(subsetRefusals(inputSchema, provider === 'any')).toEqual([])
          if (inputSchema === given) return
          const repaired = accepts(dialect.subset === 'nullable' ? read(inputSchema) : inputSchema)
          expect(repaired).toBeTypeOf('function')
          seen.accepted += accepted.length
          seen.repaired++
          for (const each of accepted) expect(repaired?.(each)).toBe(true)
        },
      ),
      { numRuns: repetitions(200, 20_000), endOnFailure: true },
    )
    // The schemas are not so odd that nothing fits them.
    expect(seen.accepted).toBeGreaterThan(seen.repaired)
  },
)

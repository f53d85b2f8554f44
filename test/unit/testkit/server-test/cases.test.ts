import { Ajv2020 } from 'ajv/dist/2020.js'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Case, casesOf } from '../../../../src/testkit/server-test/cases.ts'

const options = { seed: 1, examples: [], most: 200 }
const schema = {
  type: 'object',
  properties: {
    city: { type: 'string', minLength: 2, maxLength: 50 },
    days: { type: 'integer', minimum: 1, maximum: 7 },
    unit: { enum: ['celsius', 'fahrenheit'] },
    tags: { type: 'array', items: { type: 'string' }, maxItems: 3 },
    at: { type: 'object', properties: { lat: { type: 'number' } }, required: ['lat'] },
  },
  required: ['city', 'at'],
  additionalProperties: false,
}

function ids(given: object, more: Partial<typeof options> = {}): string[] {
  return casesOf({ name: 'tool', inputSchema: given }, { ...options, ...more }).cases.map(({ id }) => id)
}

describe('casesOf', () => {
  it('makes a case for each constraint of a schema, named by what it changes', () => {
    expect(ids(schema)).toEqual(
      expect.arrayContaining([
        'valid/required',
        'valid/all',
        'valid/unit=fahrenheit',
        'missing/city',
        'missing/at.lat',
        'wrong-type/arguments',
        'wrong-type/city',
        'wrong-type/at.lat',
        'wrong-type/tags/item',
        'boundary/city/min-length',
        'boundary/city/too-short',
        'boundary/city/too-long',
        'boundary/days/below-minimum',
        'boundary/days/above-maximum',
        'boundary/days/fraction',
        'boundary/unit/not-in-enum',
        'boundary/tags/too-many',
        'extra/argument',
        'hostile/city/sql',
        'hostile/prototype',
      ]),
    )
  })

  it('calls a case broken exactly if an independent validator refuses its arguments', () => {
    const validate = new Ajv2020({ strict: false }).compile(schema)
    const { cases } = casesOf({ name: 'tool', inputSchema: schema }, options)
    expect(cases.filter(({ broken }) => broken !== undefined).length).toBeGreaterThan(15)
    const differing = cases.filter((each) => validate(each.arguments) === (each.broken !== undefined))
    expect(differing).toEqual([])
  })

  it('makes valid arguments for what the type does not allow to guess', () => {
    const of = (member: object, more: object = {}): unknown =>
      casesOf(
        {
          name: 'tool',
          inputSchema: { type: 'object', properties: { a: member }, required: ['a'], ...more },
        },
        options,
      ).cases.find(({ id }) => id === 'valid/required')?.arguments
    expect(of({ $ref: '#/$defs/b' }, { $defs: { b: { const: 'x' } } })).toEqual({ a: 'x' })
    expect(of({ anyOf: [{ type: 'null' }, { type: 'integer', minimum: 5, multipleOf: 4 }] })).toEqual({
      a: 8,
    })
    expect(of({ allOf: [{ type: 'string' }, { minLength: 6 }] })).toEqual({ a: 'textte' })
    expect(of({ type: 'string', pattern: '^\\d{4}-\\d\\d-\\d\\d$' })).toEqual({ a: '2026-01-02' })
    expect(of({ type: 'string', format: 'uuid' })).toEqual({ a: '123e4567-e89b-42d3-a456-426614174000' })
    expect(of({ type: ['null', 'boolean'] })).toEqual({ a: true })
    expect(of({ type: 'array', minItems: 2, items: { type: 'number' } })).toEqual({ a: [1, 1] })
  })

  it('says why it makes no valid call', () => {
    const of = (inputSchema: unknown) => casesOf({ name: 'tool', inputSchema }, options).problem
    expect(
      of({ type: 'object', properties: { a: { type: 'string', pattern: '^x{3}-q$' } }, required: ['a'] }),
    ).toBe('no valid arguments can be made from its input schema')
    expect(of({ type: 'object', properties: { a: { type: 'words' } } })).toContain('cannot be used')
    expect(of(null)).toBe('its input schema is no object')
    const endless = { type: 'object', properties: { a: { $ref: '#' } }, required: ['a'] }
    expect(of(endless)).toBe('no valid arguments can be made from its input schema')
  })

  it('uses the examples of the owner first, and for the other cases', () => {
    const { cases } = casesOf(
      { name: 'tool', inputSchema: schema },
      { ...options, examples: [{ city: 'Oslo', at: { lat: 3 } }] },
    )
    expect(argumentsOf(cases, 'valid/example-1')).toEqual({ city: 'Oslo', at: { lat: 3 } })
    expect(argumentsOf(cases, 'missing/city')).toEqual({ at: { lat: 3 } })
  })

  it('keeps every kind when there are too many cases, and is the same for the same seed', () => {
    const few = ids(schema, { most: 12 })
    expect(few).toHaveLength(12)
    expect(new Set(few.map((id) => id.split('/')[0]))).toEqual(
      new Set(['valid', 'missing', 'wrong-type', 'boundary', 'extra', 'hostile']),
    )
    expect(ids(schema, { most: 12 })).toEqual(few)
    const others = Array.from({ length: 5 }, (_, seed) => ids(schema, { most: 12, seed: seed + 2 }))
    expect(others.some((each) => each.join() !== few.join())).toBe(true)
  })

  it('ends for any schema, within its bound, with JSON', () => {
    fc.assert(
      fc.property(fc.jsonValue({ maxDepth: 4 }), fc.integer({ min: 8, max: 40 }), (value, most) => {
        const properties = { a: value }
        const { cases } = casesOf(
          { name: 'tool', inputSchema: { type: 'object', properties } },
          { ...options, most },
        )
        expect(cases.length).toBeLessThanOrEqual(most)
        expect(new Set(cases.map(({ id }) => id)).size).toBe(cases.length)
      }),
    )
  })
})

function argumentsOf(cases: readonly Case[], id: string): unknown {
  return cases.find((each) => each.id === id)?.arguments
}

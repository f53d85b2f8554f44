import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseJson } from '../../../../src/core/json/read.ts'
import {
  fieldsHtml,
  readForm,
  readWhole,
  type SchemaField,
  schemaFields,
  typedFor,
} from '../../../../src/downstream/pages/schema-form.ts'

const schema = {
  type: 'object',
  required: ['name', 'count'],
  properties: {
    name: { type: 'string', title: 'Its name', description: 'What it is called.' },
    count: { type: 'integer' },
    force: { type: 'boolean', default: false },
    colour: { enum: ['red', 'green', 3] },
    tags: { type: 'array', items: { type: 'string' } },
    maybe: { type: ['string', 'null'] },
    either: { anyOf: [{ type: 'string' }, { type: 'number' }] },
  },
}

function fieldsOf(given: unknown): readonly SchemaField[] {
  const found = schemaFields(given)
  if (!found) throw new Error('no form fits')
  return found
}

describe('the fields of a schema', () => {
  it('have a kind by its type', () => {
    expect(fieldsOf(schema).map(({ name, kind, isRequired }) => [name, kind, isRequired])).toEqual([
      ['name', 'text', true],
      ['count', 'number', true],
      ['force', 'boolean', false],
      ['colour', 'choice', false],
      ['tags', 'json', false],
      ['maybe', 'text', false],
      ['either', 'json', false],
    ])
  })

  it.each([
    ['no object', { type: 'array' }],
    ['null', null],
    ['a boolean', true],
    ['alternatives', { type: 'object', properties: {}, anyOf: [] }],
    ['a reference', { $ref: '#/$defs/a' }],
    ['anything', { type: 'object' }],
    ['any members', { type: 'object', properties: {} }],
    ['properties that are none', { type: 'object', properties: [] }],
    ['a required member without a schema', { type: 'object', properties: { a: {} }, required: ['b'] }],
    ['a required name that is none', { type: 'object', properties: { a: {} }, required: [{}] }],
    ['a hidden character in a name', { type: 'object', properties: { 'a\u202e': {} } }],
    [
      'more members than a form has',
      {
        type: 'object',
        properties: Object.fromEntries(Array.from({ length: 61 }, (_, at) => [`a${at}`, {}])),
      },
    ],
  ])('are not made for %s', (_, odd) => {
    expect(schemaFields(odd)).toBeUndefined()
  })

  it('are none where no member is permitted', () => {
    expect(schemaFields({ type: 'object', additionalProperties: false })).toEqual([])
  })

  it('show the text of their schema without markup and hidden characters', () => {
    const hostile = '</textarea><script>alert(1)</script>\u202e"'
    const properties = {
      a: { type: 'string', title: hostile, description: hostile, default: hostile },
      b: { enum: [hostile] },
    }
    const text = String(fieldsHtml(fieldsOf({ type: 'object', properties }), { prefix: 'argument.' }))
    expect(text).not.toMatch(/<script|\u202e/)
    expect(text.match(/<\/textarea>/g)).toHaveLength(1)
  })
})

describe('what was typed', () => {
  it('becomes JSON with all digits of its numbers', () => {
    const typed = {
      name: 'a "b"\r\nc',
      count: '12345678901234567890',
      force: 'true',
      colour: '3',
      tags: '[1.10]',
    }
    expect(readForm(fieldsOf(schema), typed)).toEqual({
      text: '{"name":"a \\"b\\"\\nc","count":12345678901234567890,"force":true,"colour":3,"tags":[1.10]}',
    })
  })

  it('is refused where it does not fit its field', () => {
    const typed = {
      name: '',
      count: '1,5',
      force: 'yes',
      colour: '"blue"',
      tags: '{"a":1,"a":2}',
      either: '{',
    }
    expect(readForm(fieldsOf(schema), typed)).toEqual({
      problems: {
        name: 'is required.',
        count: 'must be a number, such as 12 or -0.5.',
        force: 'must be true or false.',
        colour: 'must be one of the choices.',
        tags: 'has "a" twice.',
        either: 'must be JSON, such as ["a", "b"] or {"a": 1}.',
      },
    })
  })

  it.each(['01', '+1', '0x10', 'NaN', 'Infinity', '1.', '.5', '1e', ' ', '1 2'])(
    '%s is no number',
    (count) => {
      expect(readForm(fieldsOf(schema), { name: 'a', count })).toHaveProperty('problems.count')
    },
  )

  it('a choice with hidden characters can be chosen', () => {
    const form = fieldsOf({ type: 'object', properties: { a: { enum: ['x\u202e'] } } })
    const [choice = ''] = form[0]?.choices ?? []
    const read = readForm(form, { a: choice })
    expect('text' in read && parseJson(read.text)).toEqual({ a: 'x\u202e' })
  })

  it('as one text has to be an object', () => {
    expect(readWhole('')).toEqual({ text: '{}' })
    expect(readWhole(' {"a": 1e400} ')).toEqual({ text: '{"a": 1e400}' })
    for (const odd of ['[]', '1', '{', '{"a":1,"a":1}']) expect(readWhole(odd)).toHaveProperty('problem')
  })

  it('is the same again after it was JSON', () => {
    const form = fieldsOf(schema)
    fc.assert(
      fc.property(fc.string({ minLength: 1 }), fc.bigInt({ min: 0n, max: 10n ** 30n }), (name, count) => {
        const read = readForm(form, { name, count: String(count), force: 'false' })
        expect('text' in read && typedFor(form, read.text)).toEqual({
          name: name.replaceAll('\r\n', '\n'),
          count: String(count),
          force: 'false',
        })
      }),
    )
    expect(typedFor(form, '{"other":1}')).toBeUndefined()
    expect(typedFor(form, '{"name":1}')).toBeUndefined()
  })
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  editableArguments,
  editableText,
  editProblems,
  readEdit,
  valuesOf,
} from '../../../src/records/edits.ts'
import { parseJson } from '../../../src/core/json/read.ts'

const schema = {
  type: 'object',
  required: ['missing'],
  properties: {
    id: { type: 'integer', maximum: 10 },
    of: { type: 'object', properties: { n: { type: 'number' } } },
  },
}

describe('arguments that an approver changes', () => {
  it.each([
    ['a', 'b', '"b"'],
    ['a', 'a', undefined],
    ['a\nb', 'a\r\nb', undefined],
    ['a', '', '""'],
    [7, ' 9007199254740993 ', '9007199254740993'],
    [7, '7', undefined],
    [null, 'null', undefined],
    [null, '{"a": [1.0]}', '{"a": [1.0]}'],
  ])('%j with the text %j is %j', (value, typed, json) => {
    expect(readEdit(typed, value)).toBe(json)
  })

  it.each([
    [7, 'seven'],
    [{}, '{"a":1,"a":2}'],
    [true, ''],
  ])('%j cannot have the text %j', (value, typed) => {
    expect(() => readEdit(typed, value)).toThrow(expect.objectContaining({ code: 'INVALID_INPUT' }))
  })

  it('what is shown is unchanged, whatever line ends a browser sends', () => {
    const property = fc.property(fc.jsonValue(), (value) => {
      const shown = editableText(value)
      const isShown = editableArguments({ value }, { value }).length > 0
      if (isShown) expect(readEdit(shown.replaceAll('\n', '\r\n'), value)).toBeUndefined()
    })
    fc.assert(property)
  })

  it('what is masked, long, or not seen cannot be changed', () => {
    const given = {
      plain: 'a',
      lines: 'a\n\tb',
      masked: 'secret',
      long: 'x'.repeat(5000),
      half: 'x'.repeat(3500),
      other: 'x'.repeat(3500),
      bidi: 'a\u202Eb',
      lone: '\uD800',
      ends: 'a\r\nb',
      number: parseJson('9007199254740993'),
    }
    const names = editableArguments(given, { ...given, masked: '***' })
    expect(names).toEqual(['plain', 'lines', 'half', 'number'])
    expect(editableText(given.number)).toBe('9007199254740993')
  })

  it('only the problems of changed arguments are reported', () => {
    const given = { id: 100, of: {} }
    expect(editProblems(schema, given, { of: '{"n":1}' })).toEqual({})
    expect(editProblems(schema, given, { id: '11', of: '{"n":"1"}' })).toEqual({
      id: expect.stringContaining('10'),
      of: expect.stringContaining('n must be number'),
    })
    expect(editProblems({ $ref: 'https://elsewhere.example' }, given, { id: '1' })).toEqual({})
    expect(editProblems(undefined, given, { id: '1' })).toEqual({})
    expect(valuesOf({ id: '1', of: '{}' })).toEqual({ id: 1, of: {} })
  })
})

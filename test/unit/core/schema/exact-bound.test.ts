import { expect, test } from 'vitest'
import { isObject } from '../../../../src/core/json/json.ts'
import { parseJson } from '../../../../src/core/json/read.ts'
import { longIntegerFor } from '../../../../src/core/schema/schema.ts'
import { inputFor } from '../../../../src/descriptions/model/parameters.ts'

test.each([
  ['{"minimum":9007199254740993}', '9007199254740993'],
  ['{"exclusiveMinimum":725653563933458433}', '725653563933458434'],
  ['{"maximum":-725653563933458433}', '-725653563933458433'],
  ['{"exclusiveMaximum":-725653563933458433}', '-725653563933458434'],
  ['{"multipleOf":725653563933458433}', '725653563933458433'],
  ['{"minimum":0,"maximum":18446744073709551615}', undefined],
  ['{"minimum":12345678901234567890.5}', undefined],
  ['{"minimum":5}', undefined],
])('the integer that fits %s is %s', (schema, wanted) => {
  const value = parseJson(schema)
  expect(longIntegerFor(isObject(value) ? value : {})?.toString()).toBe(wanted)
})

test('an example call is within bounds that a double cannot hold', () => {
  const id = '{"type":"integer","minimum":9007199254740993}'
  const input = inputFor(parseJson(`{"properties":{"id":${id}},"required":["id"]}`))
  expect(JSON.stringify(input)).toBe('{"id":9007199254740993}')
})

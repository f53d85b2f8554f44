import { describe, expect, it } from 'vitest'
import { ExactNumber, numberOf, plainDigits } from '../../../../src/core/json/exact-number.ts'
import { canonical, exactly, isObject, isSame } from '../../../../src/core/json/json.ts'
import { duplicateKey, parseJson, withDoubles } from '../../../../src/core/json/read.ts'
import { type Seeded, seeded } from '../../../simulate/random.ts'

describe('parseJson', () => {
  it.each([
    '725653563933458433',
    '-9007199254740993',
    '12345678901234567.89',
    '0.12345678901234567890',
    '99999999.123456789',
    '1e400',
    '-1.5E-400',
    '1e999999999999999999999',
    '18446744073709551615',
  ])('keeps %s as it came', (text) => {
    expect(JSON.stringify(parseJson(text))).toBe(text)
    const inside = `{"a":[{"id":${text}}]}`
    expect(JSON.stringify(parseJson(inside))).toBe(inside)
    expect(`${String(numberOf(text))}`).toBe(text)
  })

  it.each([
    ['1.0', 1],
    ['1e2', 100],
    ['-0', -0],
    ['9007199254740992', 9007199254740992],
    ['0.30000000000000004', 0.30000000000000004],
    ['123456789.12345678', 123456789.12345678],
    ['100000000000000000000', 1e20],
    ['1.50000000000000000000000', 1.5],
    ['5e-324', 5e-324],
    ['0.0000000000000000000000', 0],
  ])('reads %s as a double', (text, value) => {
    expect(parseJson(text)).toBe(value)
  })

  it('keeps integers that a double would write with an exponent, as equal numbers', () => {
    const text = '{"id":1000000000000000000000000}'
    expect(JSON.stringify(parseJson(text))).toBe(text)
    expect(isSame(parseJson(text), { id: 1e24 })).toBe(true)
    expect(exactly(parseJson(text))).toBe(exactly({ id: 1e24 }))
  })

  it.each([
    ['725653563933458433', '725653563933458433'],
    ['725653563933458433.0', '725653563933458433'],
    ['-7.25653563933458433e17', '-725653563933458433'],
    ['725653563933458433e2', '72565356393345843300'],
    ['0.12345678901234567890', '0.1234567890123456789'],
    ['1.2345678901234567890e-5', '0.000012345678901234567890'.slice(0, -1)],
    ['1e-8', '0.00000001'],
    ['1e21', '1000000000000000000000'],
    ['-0.0', '0'],
    [`5.${'0'.repeat(2000)}`, '5'],
    [`5${'0'.repeat(2000)}e-2000`, '5'],
    ['1e500', '1e500'],
  ])('writes %s in plain digits', (text, plain) => {
    expect(plainDigits(numberOf(text))).toBe(plain)
  })

  it('reads a key with an escape as it is, whatever was read before', () => {
    const poison = String.raw`{"a":1,"id\\":2}`
    for (let times = 0; times < 3; times++) parseJson(poison)
    expect(parseJson(String.raw`{"a":1,"id\n":2}`)).toEqual({ a: 1, 'id\n': 2 })
  })

  it('has own members of any name', () => {
    const value = parseJson('{"__proto__":{"id":725653563933458433},"constructor":1}')
    expect(isObject(value) && Object.keys(value)).toEqual(['__proto__', 'constructor'])
    expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
  })

  it('reads what is nested deeply', () => {
    const depth = 100_000
    const text = `${'['.repeat(depth)}725653563933458433${']'.repeat(depth)}`
    expect(() => parseJson(text)).not.toThrow()
  })

  it.each(['', '{', '[1,]', '{"a":725653563933458433', '01', '"\\x"', 'nul'])('refuses %j', (text) => {
    expect(() => parseJson(text)).toThrow(SyntaxError)
  })

  it('agrees with JSON.parse on texts of any form, apart from the digits', () => {
    const random = seeded(35)
    for (let times = 0; times < 500; times++) {
      const text = randomText(random)
      expect([text, JSON.stringify(withDoubles(parseJson(text)))]).toEqual([
        text,
        JSON.stringify(JSON.parse(text)),
      ])
      const value: unknown = parseJson(text)
      expect([text, isSame(parseJson(JSON.stringify(value)), value)]).toEqual([text, true])
    }
  })
})

describe('duplicateKey', () => {
  it.each([
    '{"a": {"b": [1, {"c": 1, "d": 2}]}, "e": "x"}',
    String.raw`{"a": "\":", "b": {"a": ":", "\u0062": {}}}`,
    '{ "a" : ":", "b" :[ ], "c": ":" }',
    '[]',
  ])('finds none in %s', (text) => {
    expect(duplicateKey(text, parseJson(text))).toBeUndefined()
  })

  it.each([
    ['{"path":"/precious","path":"/tmp/x"}', 'path'],
    ['{"a":{"b":[1,{"c":1,"d":2,"c":3}]}}', 'a.b[1].c'],
    [String.raw`{"id":1,"\u0069d":2}`, 'id'],
    ['{ "a" : 1 , "b" : {"a":1} }', undefined],
    ['[{"a":1},{"a":1}]', undefined],
    ['{"__proto__":1,"__proto__":2}', '__proto__'],
    ['{"a":"\\"a\\":1","b":1e5}', undefined],
    ['{"a":1e5,"a":1}', 'a'],
  ])('in %s is %s', (text, found) => {
    expect(duplicateKey(text, JSON.parse(text))).toBe(found)
  })
})

describe('exact numbers', () => {
  it('are equal by value, and differ in the last digit', () => {
    const [one, same, other] = ['725653563933458433', '7.25653563933458433e17', '725653563933458434'].map(
      numberOf,
    )
    expect(one).toBeInstanceOf(ExactNumber)
    expect(isSame({ id: one }, { id: same })).toBe(true)
    expect(isSame({ id: one }, { id: other })).toBe(false)
    expect(exactly([one])).not.toBe(exactly([other]))
    // Stored hashes are of doubles.
    expect(canonical([one])).toBe('[725653563933458400]')
  })

  it('are no objects', () => {
    expect(isObject(numberOf('725653563933458433'))).toBe(false)
  })
})

/** A JSON text with white space, escapes, duplicate keys and long numbers. */
function randomText(random: Seeded, depth = 0): string {
  const { pick, below } = random
  const space = (): string => pick(['', '', ' ', '\n\t'])
  // Without a backslash: JSON.parse would read other keys as one with a backslash.
  const key = (): string =>
    pick(['"id"', '"a\\n"', '"\\u0061"', '""', '"é\u2028"', '"__proto__"', '"\\ud800"', '"a\\"b"'])
  const text = (): string => pick([key(), '"\\\\"', '"\\""'])
  const digits = (count: number): string => Array.from({ length: count }, () => below(10)).join('')
  const number = (): string => {
    const exponent = `${pick(['e', 'E'])}${pick(['', '-', '+'])}${digits(1 + below(3))}`
    return [
      pick(['', '-']),
      pick(['0', `7${digits(below(20))}`]),
      pick(['', `.${digits(1 + below(20))}`]),
      pick(['', '', exponent]),
    ].join('')
  }
  const items = (item: () => string): string =>
    Array.from({ length: below(4) }, () => `${space()}${item()}${space()}`).join(',') || space()
  const inner = (): string => randomText(random, depth + 1)
  const scalars = [number, text, () => pick(['true', 'false', 'null'])] as const
  const value =
    depth > 4 || random.chance(0.5)
      ? pick(scalars)()
      : random.chance(0.5)
        ? `[${items(inner)}]`
        : `{${items(() => `${key()}${space()}:${inner()}`)}}`
  return `${space()}${value}${space()}`
}

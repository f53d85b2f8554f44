import fc from 'fast-check'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { toYaml } from '../../../../src/descriptions/formats/skill.ts'

const text = fc.oneof(
  fc.string({ unit: 'binary' }),
  fc.string(),
  fc.constantFrom(
    'true',
    'no',
    'null',
    '~',
    '1.0',
    '0x1f',
    '1999-12-31',
    '- a',
    '# b',
    'a: b',
    '&a',
    '*b',
    '!c',
    '{',
    '[',
    '|',
    '>',
  ),
  fc.constantFrom(
    '---',
    '...',
    "it's",
    '"',
    '\\',
    'https://example.com/a?b=c#d',
    '@scope/name',
    'read:files',
    ' a ',
    '',
  ),
  fc.lorem({ maxCount: 60 }),
)
const key = fc.oneof(fc.stringMatching(/^[a-z][a-z-]{0,20}$/), text).filter((each) => each !== '__proto__')
const value = fc.letrec<{ one: string | boolean | string[] | object }>((tie) => ({
  one: fc.oneof(
    { depthSize: 'small' },
    text,
    fc.boolean(),
    fc.array(text, { maxLength: 4 }),
    fc.dictionary(key, tie('one'), { maxKeys: 4 }),
  ),
})).one

test('the written YAML parses to the same value', () => {
  fc.assert(
    fc.property(fc.dictionary(key, value, { maxKeys: 6 }), (map) => {
      const wellFormed = JSON.parse(JSON.stringify(map).replaceAll(/\\ud[89a-f]../gi, 'x'))
      expect(parse(toYaml(wellFormed)) ?? {}).toEqual(wellFormed)
    }),
    { numRuns: 500 },
  )
})

test('a multi-line text parses to the same text', () => {
  fc.assert(
    fc.property(text, (description) => {
      fc.pre(!/[\uD800-\uDFFF]/.test(description))
      expect(parse(toYaml({ description, name: 'a' }, ['description']))).toEqual({ description, name: 'a' })
    }),
    { numRuns: 500 },
  )
})

test('plain words are unquoted, and ambiguous scalars are quoted', () => {
  expect(
    toYaml({ name: 'github', 'spec-version': '0.2.0', url: 'https://a.example/mcp', no: '1.0', yes: 'yes' }),
  ).toBe('name: github\nspec-version: 0.2.0\nurl: https://a.example/mcp\n"no": "1.0"\n"yes": "yes"\n')
})

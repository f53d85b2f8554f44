import { parseEnv } from 'node:util'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { variableLine } from '../../../../src/config/import/render.ts'

test.each([
  ['a plain value', 'sk-abc/1+2=', 'A=sk-abc/1+2='],
  ['blanks', ' a b ', "A=' a b '"],
  ['a comment sign', 'a#b', "A='a#b'"],
  ['a reference', '${B} $C', "A='${B} $C'"],
  ['single quotes', "it's", 'A="it\'s"'],
  ['two kinds of quotes', `'"`, 'A=`\'"`'],
  ['line breaks', 'a\nb', "A='a\nb'"],
  ['a backslash before n', 'a\\nb', "A='a\\nb'"],
])('%s is written as Node.js reads it', (_what, value, line) => {
  expect(variableLine('A', value)).toBe(line)
})

test('a value that no line can have is not written', () => {
  expect(variableLine('A', '\'"`\n')).toBeUndefined()
})

test('what is written is read as the same value, and changes no other line', () => {
  const text = fc.array(
    fc.constantFrom('a', ' ', '\n', '\r', '"', "'", '`', '#', '=', '\\', '\\n', '$', '${A}', 'ä', 'B=1\n'),
  )
  fc.assert(
    fc.property(text, (parts) => {
      const value = parts.join('')
      const line = variableLine('NAME', value)
      if (line !== undefined)
        expect(parseEnv(`BEFORE=1\n${line}\nAFTER=2`)).toEqual({ BEFORE: '1', NAME: value, AFTER: '2' })
    }),
  )
})

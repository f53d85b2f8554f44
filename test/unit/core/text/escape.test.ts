import fc from 'fast-check'
import { expect, it } from 'vitest'
import { codePointName, escapeHidden, splitHidden } from '../../../../src/core/text/escape.ts'

it.each([
  ['an override of direction', '\u202e', '\\u202e'],
  ['a zero width space', '\u200b', '\\u200b'],
  ['a joiner', '\u200d', '\\u200d'],
  ['an escape of terminals', '\u001b', '\\u001b'],
  ['a tag', '\u{e0041}', '\\udb40\\udc41'],
  ['a filler', '\u3164', '\\u3164'],
  ['a space that is none of the keyboard', '\u00a0', '\\u00a0'],
  ['half a character', '\ud800', '\\ud800'],
])('%s is written so that it can be seen', (_name, character, escaped) => {
  expect(escapeHidden(`a${character}b`)).toBe(`a${escaped}b`)
})

it('texts in any language, and lines, stay as they are', () => {
  const text = 'Grüße, 你好,\n😀 مرحبا'
  expect(escapeHidden(text)).toBe(text)
})

// Making texts of all characters takes its time.
it('nothing is lost when a text is cut, and no part that is shown can hide', { timeout: 30_000 }, () => {
  const text = fc.string({ unit: 'binary', maxLength: 40 })
  fc.assert(
    fc.property(text, (given) => {
      const parts = splitHidden(given)
      expect(parts.map((part) => part.text).join('')).toBe(given)
      expect(
        parts.filter(({ isHidden }) => !isHidden).some((part) => /[\p{Cf}\p{Cs}]/u.test(part.text)),
      ).toBe(false)
    }),
  )
})

it('JSON whose hidden characters are escaped is the same value', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(JSON.parse(escapeHidden(JSON.stringify(value)))).toEqual(JSON.parse(JSON.stringify(value)))
    }),
  )
})

it('characters are named by their numbers', () => {
  expect(codePointName('\u{e0041}')).toBe('U+E0041')
  expect(codePointName('\t')).toBe('U+0009')
})

import fc from 'fast-check'
import { expect, it } from 'vitest'
import { codePointName, escapeHidden, splitHidden } from '../../../../src/core/text/escape.ts'

it.each([
  ['a bidirectional override', '\u202e', '\\u202e'],
  ['a zero-width space', '\u200b', '\\u200b'],
  ['a joiner', '\u200d', '\\u200d'],
  ['a terminal escape', '\u001b', '\\u001b'],
  ['a tag character', '\u{e0041}', '\\udb40\\udc41'],
  ['a filler', '\u3164', '\\u3164'],
  ['a non-ASCII space', '\u00a0', '\\u00a0'],
  ['a lone surrogate', '\ud800', '\\ud800'],
])('%s is escaped visibly', (_name, character, escaped) => {
  expect(escapeHidden(`a${character}b`)).toBe(`a${escaped}b`)
})

it('text in any language and line breaks are unchanged', () => {
  const text = 'Grüße, 你好,\n😀 مرحبا'
  expect(escapeHidden(text)).toBe(text)
})

// Generating texts of all characters is slow.
it('splitting loses no text, and no visible part contains a hidden character', { timeout: 30_000 }, () => {
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

it('JSON with escaped hidden characters has the same value', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect(JSON.parse(escapeHidden(JSON.stringify(value)))).toEqual(JSON.parse(JSON.stringify(value)))
    }),
  )
})

it('escaped characters are named by their code points', () => {
  expect(codePointName('\u{e0041}')).toBe('U+E0041')
  expect(codePointName('\t')).toBe('U+0009')
})

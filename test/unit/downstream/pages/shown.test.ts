import fc from 'fast-check'
import { expect, it } from 'vitest'
import { displayJson, displayText } from '../../../../src/downstream/pages/approval-page.ts'

it('hidden characters are named', () => {
  expect(displayText('pay\u202e <b>')).toBe('pay<mark>U+202E</mark> &#60;b&#62;')
})

it('JSON is displayed without loss', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const html =
        /<pre[^>]*>(.*)<\/pre>/s.exec(displayJson(JSON.stringify(value, null, 2), 'Arguments'))?.[1] ?? ''
      const text = html
        .replaceAll(/<\/?bdi>/g, '')
        .replaceAll(/&#(\d+);/g, (_all, code: string) => String.fromCharCode(Number(code)))
      expect(JSON.parse(text)).toEqual(JSON.parse(JSON.stringify(value)))
    }),
  )
})

it('no value can inject HTML', () => {
  const hostile = fc.array(fc.constantFrom('<', '>', '"', "'", '&', '/', 'script', '\\', '\n', 'é'))
  fc.assert(
    fc.property(hostile, (parts) => {
      const text = parts.join('')
      const html = displayJson(JSON.stringify({ [text]: [text] }), text).replaceAll(
        /<\/?(?:bdi|p|pre)(?: [a-z-]+="[^"<>]*")*>/g,
        '',
      )
      expect(html).not.toMatch(/[<>]/)
    }),
  )
})

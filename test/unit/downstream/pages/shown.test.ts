import fc from 'fast-check'
import { expect, it } from 'vitest'
import { valueText } from '../../../../src/records/approvals.ts'
import { displayJson, displayText } from '../../../../src/downstream/pages/html.ts'

it('hidden characters are named', () => {
  expect(String(displayText('pay\u202e <b>'))).toBe('pay<mark>U+202E</mark> &#60;b&#62;')
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

it('text of several lines is shown by its lines, none of which can be taken for a member', () => {
  const lines = 'a\n  "path": "/other"\n\tb\u202e'
  expect(valueText({ path: '/a', content: lines, nested: [{ text: 'x\n' }], escaped: '\\n' })).toBe(`{
  "path": "/a",
  "content": 3 lines,
    | a
    |   "path": "/other"
    | \tb\u202e
  "nested": [
    {
      "text": 2 lines
        | x
        | ${''}
    }
  ],
  "escaped": "\\\\n"
}`)
  expect(String(displayJson(valueText({ content: lines }), 'Arguments'))).toContain(
    String.raw`    | <bdi>  &#34;path&#34;: &#34;/other&#34;</bdi>` +
      '\n    | <bdi>\tb' +
      String.raw`\u202e</bdi>`,
  )
})

it('no value can inject HTML', () => {
  const hostile = fc.array(fc.constantFrom('<', '>', '"', "'", '&', '/', 'script', '\\', '\n', 'é'))
  fc.assert(
    fc.property(hostile, (parts) => {
      const text = parts.join('')
      for (const shown of [JSON.stringify({ [text]: [text] }), valueText({ [text]: [text] })]) {
        const html = displayJson(shown, text).replaceAll(/<\/?(?:bdi|p|pre)(?: [a-z-]+="[^"<>]*")*>/g, '')
        expect(html).not.toMatch(/[<>]/)
      }
    }),
  )
})

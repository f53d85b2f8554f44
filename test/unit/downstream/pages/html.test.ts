import fc from 'fast-check'
import { expect, it } from 'vitest'
import { agoHtml, html, plainText, trusted } from '../../../../src/downstream/pages/html.ts'

it('text in an element shows hidden characters by name, and in an attribute as JSON escapes them', () => {
  const text = 'a\u202e<b>"'
  expect(String(html`<p title="${text}">${text}</p>`)).toBe(
    '<p title="a\\u202e&#60;b&#62;&#34;">a<mark>U+202E</mark>&#60;b&#62;&#34;</p>',
  )
})

it('HTML and lists of it stay, and what is false or undefined is nothing', () => {
  const items = ['<', trusted('<i>b</i>')].map((each) => html`<li>${each}</li>`)
  expect(String(html`<ul>${items}</ul>${false}${undefined}${3}`)).toBe(
    '<ul><li>&#60;</li><li><i>b</i></li></ul>3',
  )
})

it('the text of an element that has no others has no marks', () => {
  expect(String(html`<textarea>${plainText('a\u202e</textarea>')}</textarea>`)).toBe(
    '<textarea>a\\u202e&#60;/textarea&#62;</textarea>',
  )
})

it('an age has its time as title', () => {
  expect(String(agoHtml(0, 7_200_000))).toBe(
    '<time data-age datetime="1970-01-01T00:00:00.000Z" title="1970-01-01 00:00:00 UTC">2 hours ago</time>',
  )
})

it('no text opens a tag or ends an attribute', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary' }), (text) => {
      const made = String(html`<p title="${text}"><b>${text}</b></p>`)
      expect(made.match(/<(?!\/?mark>)[^>]*>/g)?.map((tag) => tag.replaceAll(/"[^"]*"/g, '""'))).toEqual([
        '<p title="">',
        '<b>',
        '</b>',
        '</p>',
      ])
      expect(made).not.toMatch(/\p{Bidi_Control}|(?![\t\n\r])\p{Cc}/u)
    }),
  )
})

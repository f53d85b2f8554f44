// The media type of an uploaded file: what its bytes say, and what its sender says.
import { describe, expect, it } from 'vitest'
import { isOneOf, mediaTypeOf } from '../../../../src/features/references/transfer/sent-file.ts'

const png = Buffer.from('89504e470d0a1a0a00', 'hex')
const zip = Buffer.from('504b030414000000', 'hex')
const program = Buffer.concat([
  Buffer.from('MZ'),
  Buffer.alloc(58),
  Buffer.from([64, 0, 0, 0]),
  Buffer.from('PE\0\0'),
])
const text = (value: string): Buffer => Buffer.from(value)

describe('the media type of a file', () => {
  it.each([
    ['the bytes of an image', png, {}, 'image/png'],
    ['the same, called otherwise', png, { type: 'image/jpeg' }, 'image/png'],
    ['the same, called a text', png, { type: 'text/plain' }, 'image/png'],
    ['a type with parameters', text('a,b'), { type: 'text/csv; charset=utf-8' }, 'text/csv; charset=utf-8'],
    [
      'an office document',
      zip,
      { type: 'application/vnd.openxmlformats-officedocument.wordprocessingml.document' },
      'application/vnd.openxmlformats-officedocument.wordprocessingml.document',
    ],
    ['an archive without a type', zip, { type: 'application/octet-stream' }, 'application/zip'],
    ['a program without a type', program, {}, 'application/vnd.microsoft.portable-executable'],
    [
      'a text that begins like a program',
      text(`MZ is a postal code${' of a place'.repeat(10)}`),
      { type: 'text/plain' },
      'text/plain',
    ],
    ['the source of a page', text('<!DOCTYPE html><p>'), { type: 'text/plain' }, 'text/plain'],
    ['a page', text(' <html>'), {}, 'text/html'],
    [
      'a page in XML',
      text('<?xml version="1.0"?><!-- x --><html xmlns="x">'),
      { type: 'application/xhtml+xml' },
      'application/xhtml+xml',
    ],
    ['a drawing', text('<svg xmlns="x">'), { type: 'image/svg+xml' }, 'image/svg+xml'],
    ['a text', text('hello'), { type: 'application/x-www-form-urlencoded' }, 'text/plain'],
    ['a text that ends in the middle of a character', text('é').subarray(0, 1), {}, 'text/plain'],
    ['a text, called a page', text('hello'), { name: 'a.html' }, 'text/plain'],
    ['a table, by its name', text('a,b'), { name: 'table.CSV' }, 'text/csv'],
    ['bytes that are nothing known', Buffer.from([1, 0, 2]), {}, 'application/octet-stream'],
    [
      'bytes that are no UTF-8',
      Buffer.from([0xff, 0xfe, 0x80, 0x80, 0x80, 65, 65, 65, 65]),
      {},
      'application/octet-stream',
    ],
    ['bytes that are no UTF-8 at their end', Buffer.from([65, 65, 0xff]), {}, 'application/octet-stream'],
    ['a type that is none', text('x'), { type: 'image/png\r\nx: y' }, 'text/plain'],
    ['a video', Buffer.from('0000001866747970', 'hex'), { type: 'audio/mp4' }, 'audio/mp4'],
  ])('is found for %s', (_what, bytes, declared, expected) => {
    expect(mediaTypeOf(bytes, declared)).toBe(expected)
  })

  it.each([
    ['a page', text('<html>'), 'image/png'],
    ['a page after a comment', text('<!-- x -->\n<script>'), 'application/json'],
    ['a drawing', text('<svg>'), 'image/png'],
    ['a program', program, 'application/pdf'],
    ['a Linux program', Buffer.from('7f454c46', 'hex'), 'text/csv'],
    ['an archive', zip, 'text/plain'],
    ['a compressed file', Buffer.from('1f8b08', 'hex'), 'application/json'],
  ])('is refused for %s under another name', (_what, bytes, type) => {
    const refused = expect.objectContaining({ code: 'INVALID_INPUT', message: expect.stringContaining(type) })
    expect(() => mediaTypeOf(bytes, { type })).toThrow(refused)
  })

  it('is looked for in bounded time', () => {
    const start = performance.now()
    for (const beginning of ['<!-- ', '<?xml ', ' \n', '<!---->'])
      mediaTypeOf(text(beginning.repeat(1_000_000 / beginning.length)), {})
    expect(performance.now() - start).toBeLessThan(1000)
  })
})

describe('a pattern of media types', () => {
  it.each([
    ['image/png', ['image/*'], true],
    ['image/png; q=1', ['IMAGE/PNG'], true],
    ['image/png', ['text/csv', '*/*'], true],
    ['imagex/png', ['image/*'], false],
    ['text/csv', ['image/*', 'text/plain'], false],
  ])('%s is one of %j: %s', (type, patterns, isOne) => {
    expect(isOneOf(type, patterns)).toBe(isOne)
  })
})

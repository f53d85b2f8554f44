// What others write comes out inert at each edge: terminals, logs, the audit log, HTML and Markdown.
import { PassThrough } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { print, printError, printJson } from '../../../../src/cli/io.ts'
import { tableLines } from '../../../../src/cli/output.ts'
import { escapeHtml } from '../../../../src/core/web.ts'
import { Redactor } from '../../../../src/core/text/redactor.ts'
import {
  clean,
  code,
  inlineText,
  jsonBlock,
  jsonCode,
  quotation,
} from '../../../../src/descriptions/model/text.ts'
import { encodeLine, readLine } from '../../../../src/observability/audit/file.ts'
import { openLog } from '../../../../src/observability/log.ts'

const hidden = [
  '\u001b[31m',
  '\u001b]8;;http://x\u0007',
  '\u009b31m',
  '\u0085',
  '\u007f',
  '\u0008\u0008',
  '\u202a\u202b\u202d\u202e\u202c',
  '\u2066\u2067\u2068\u2069',
  '\u200e\u200f\u061c',
  '\u2028\u2029',
  '\ud800',
  'x\udfff',
  '\u200b\u200c\u200d\u2060\ufeff',
  '\u{e0041}\u{e0042}',
]
/** None of these is in what an edge lets through. */
const active =
  /(?!\n)\p{Cc}|[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]|[\u{e0000}-\u{e007f}]|\p{Cs}/u
const readable = 'Größe, 山川, Привет, שלום, مرحبا, हिन्दी, ภาษาไทย, 한국어, 😀'

function printed(write: (io: { stdout: PassThrough; stderr: PassThrough }) => void): string {
  const stdout = new PassThrough()
  write({ stdout, stderr: stdout })
  return String(stdout.read())
}

function logged(isPretty: boolean, text: string): string {
  let lines = ''
  const log = openLog(undefined, { log: (line) => (lines += line), stderr: {} }, isPretty)
  log.info('call', { name: text, nested: { [text]: [text] } })
  // The colours are ours.
  return lines.replaceAll(new RegExp(`${String.fromCodePoint(27)}\\[\\d+m`, 'g'), (found) =>
    text.includes(found) ? found : '',
  )
}

const edges: readonly (readonly [string, (text: string) => string])[] = [
  ['a terminal', (text) => printed((io) => print(text, io))],
  ['an error on a terminal', (text) => printed((io) => printError(text, io))],
  ['JSON on a terminal', (text) => printed((io) => printJson({ [text]: text }, io))],
  ['a table', (text) => tableLines([[text, 'b']]).join('\n')],
  ['the log', (text) => logged(false, text)],
  ['the log on a terminal', (text) => logged(true, text)],
  ['the audit log', (text) => encodeLine({ seq: 0, hash: '' }, { tool: text }).line],
  ['HTML', escapeHtml],
  ['a paragraph of Markdown', inlineText],
  ['a quotation in Markdown', quotation],
  ['a name in Markdown', code],
  ['JSON in Markdown', (text) => `${jsonCode({ text })}${jsonBlock({ text })}`],
  ['front matter', clean],
]

describe.each(edges)('%s', (_edge, written) => {
  it.each(hidden.map((text) => [JSON.stringify(text), text]))('shows %s as inert text', (_shown, text) => {
    expect(written(`a${text}b`)).not.toMatch(active)
  })

  it('keeps text in any script readable', () => {
    expect(written(readable)).toContain(readable)
  })
})

describe('JSON at an edge', () => {
  const name = hidden.join(' ')

  it('has the same value', () => {
    expect(JSON.parse(printed((io) => printJson({ name }, io)))).toEqual({ name })
    expect(JSON.parse(logged(false, name))).toMatchObject({ name })
  })

  it('in the audit log keeps its chain', () => {
    const { line, head } = encodeLine({ seq: 0, hash: '' }, { name })
    expect(readLine(line.trimEnd())).toMatchObject({ isSound: true, hash: head.hash, fields: { name } })
  })
})

describe('Markdown of others', () => {
  const links = [
    '[x](javascript:alert(1))',
    '[x](JaVaScRiPt:alert(1))',
    '[x]( javascript:alert(1) "title")',
    '[x](<javascript:alert(1)>)',
    '[x](java\tscript:alert(1))',
    '[x](&#106;avascript:alert(1))',
    '[x](&#x6A;&#x61;vascript&colon;alert(1))',
    '[x](java&Tab;script:alert(1))',
    '[x](javascript%3Aalert(1))',
    '[x](java\u0000script:alert(1))',
    '[x](vbscript:msgbox(1))',
    '[x](data:text/html;base64,PHNjcmlwdD4=)',
    '![x](data:image/svg+xml,<svg onload=alert(1)>)',
    '[x]: javascript:alert(1)',
    '<javascript:alert(1)>',
  ]
  const scheme = /(?:\]\(|<|^(?:> )?\[x\]:)[^)\n]{0,40}(?:script|data)(?::|&colon;|%3A)/i

  it.each(links)('has no active link: %s', (link) => {
    // In code, only brackets with a destination could be taken for a link.
    for (const written of [code, (text: string) => jsonCode({ text })])
      expect(written(link)).not.toContain('](')
    for (const written of [clean, inlineText, quotation]) {
      if (written !== clean || !link.includes(']:')) expect(written(link)).not.toMatch(scheme)
      expect(written(`See ${link} there`)).not.toMatch(scheme)
      expect(written(`See ${link} there`)).toMatch(/^(?:> )?See .*there$/)
    }
  })

  it.each(['<img src=x onerror=alert(1)>', '![x](http://host/y.png)', '<script>alert(1)</script>'])(
    'has no HTML and no image: %s',
    (text) => {
      for (const written of [inlineText, quotation])
        expect(written(text)).not.toMatch(/(?<!\\)<[a-z/]|(?<!\\)!\[|\]\((?!#)/)
    },
  )

  it('keeps other links, and words before a colon', () => {
    const text = 'See [the data: a guide](https://example.com/data:1) (data: none)'
    expect(clean(text)).toBe(text)
  })
})

it('commands print no secret of the configuration', () => {
  const redactor = new Redactor()
  redactor.learn(['quoted "secret"'])
  const text = printed((io) =>
    printJson({ url: 'https://h/?k=quoted%20%22secret%22', a: 'quoted "secret"' }, { ...io, redactor }),
  )
  expect(JSON.parse(text)).toEqual({ url: 'https://h/?k=***', a: '***' })
})

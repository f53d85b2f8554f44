import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Markup, messageOf } from '../../../../src/features/notify/message.ts'
import type { ChannelSettings } from '../../../../src/features/settings/notify.ts'
import { Redactor } from '../../../../src/core/text/redactor.ts'
import type { Approval } from '../../../../src/records/approvals.ts'

const AT = Date.parse('2026-01-14T21:05:30Z')
const LINK = 'https://gate.example.com/confirm/abc'

const approval: Approval = {
  id: 'abc',
  kind: 'out_of_band',
  caller: 'user:anna',
  upstream: 'disks',
  tool: 'wipe',
  arguments: { disk: 'sda', password: 'hunter2', token: 'secret-of-the-gateway' },
  digest: 'd',
  risk: 'destructive',
  message: 'Run wipe on disks with disk: sda?',
  createdAt: AT,
  expiresAt: AT + 3_600_000,
  needed: 2,
  approvers: [],
  decisions: [],
  status: 'pending',
}

type Given = Partial<Pick<ChannelSettings, 'title' | 'text' | 'arguments'>>

function message(
  change: Partial<Approval> = {},
  settings: Given = {},
  { markup = 'plain', link = LINK }: { readonly markup?: Markup; readonly link?: string } = {},
) {
  const redactor = new Redactor()
  redactor.learn(['secret-of-the-gateway'])
  const page = link === '' ? undefined : link
  const subject = {
    id: 'n1',
    type: 'approval.pending',
    approval: { ...approval, ...change },
    link: page,
  } as const
  return messageOf(subject, { arguments: false, ...settings }, { markup, redactor })
}

describe('a message about a call that waits', () => {
  it('says who calls what, how harmful it is, since when and until when it waits, who decides, and where', () => {
    expect(message()).toMatchObject({
      title: 'Approval needed: wipe on disks',
      text: `user:anna wants to call wipe on disks (destructive), and waits since 2026-01-14 21:05 UTC.
Who decides: 2 of anyone but its caller, until 2026-01-14 22:05 UTC.
Decide here, after you have said who you are:
${LINK}`,
      link: LINK,
    })
  })

  it('has the same for programs, exactly', () => {
    expect(message({ tool: 'wipe\u202e' }).data).toEqual({
      approval: 'abc',
      server: 'disks',
      tool: 'wipe\u202e',
      caller: 'user:anna',
      risk: 'destructive',
      kind: 'out_of_band',
      status: 'pending',
      requested_at: '2026-01-14T21:05:30.000Z',
      expires_at: '2026-01-14T22:05:30.000Z',
      link: LINK,
    })
  })

  it('has no arguments unless the channel is for them, and then no secrets', () => {
    expect(JSON.stringify(message())).not.toContain('sda')
    const shown = message({}, { arguments: true })
    expect(shown.text).toContain('Arguments:\n{\n  "disk": "sda",\n  "password": "***"')
    expect(shown.data).toMatchObject({ arguments: { disk: 'sda', password: '***' } })
    expect(JSON.stringify(shown)).not.toMatch(/hunter2|secret-of-the-gateway/)
  })

  it('has no secret of the gateway, whoever wrote it', () => {
    const shown = message(
      {
        tool: 'secret-of-the-gateway',
        message: 'Use secret-of-the-gateway?',
        caller: 'secret-of-the-gateway',
      },
      { text: '{tool} {message} {caller}' },
    )
    expect(JSON.stringify(shown)).not.toContain('secret-of-the-gateway')
  })

  it('follows the templates of the channel', () => {
    const { title, text } = message(
      { approvers: ['user:ben', 'user:eve'] },
      {
        title: '🔔️ {server}: {tool}',
        text: '{message} {risk} {since} {expires} {deciders} {caller} {link} {other}',
      },
    )
    expect(title).toBe('🔔️ disks: wipe')
    expect(text).toBe(
      `Run wipe on disks with disk: sda? destructive 2026-01-14 21:05 UTC 2026-01-14 22:05 UTC 2 of user:ben, user:eve user:anna ${LINK} {other}`,
    )
  })

  it('without a page names the command', () => {
    expect(message({}, {}, { link: '' }).text).toContain('\ngatehouse approvals show abc')
  })

  it.each([
    [
      'approved',
      'Call approved: wipe on disks',
      'The call of wipe on disks by user:anna was approved by user:ben, user:eve.',
    ],
    [
      'used',
      'Call approved: wipe on disks',
      'The call of wipe on disks by user:anna was approved by user:ben, user:eve.',
    ],
    [
      'denied',
      'Call denied: wipe on disks',
      'The call of wipe on disks by user:anna was denied by user:kim.',
    ],
  ] as const)('about a decision says that it was %s, and by whom', (status, title, text) => {
    const decisions = [
      { by: 'user:ben', via: 'password', verdict: 'approved', at: AT },
      { by: 'user:eve', via: 'password', verdict: 'approved', at: AT },
      { by: 'user:kim', via: 'password', verdict: 'denied', at: AT },
    ] as const
    const type = 'approval.decided'
    const redactor = new Redactor()
    const subject = { id: 'n1', type, approval: { ...approval, status, decisions }, link: LINK } as const
    const settings = { title: 'own', text: 'own', arguments: true }
    const found = messageOf(subject, settings, { markup: 'plain', redactor })
    expect(found).toMatchObject({ title, text })
    expect(found.data).not.toHaveProperty('arguments')
  })
})

describe('texts of others in a message', () => {
  it.each([
    ['a line break', 'a\r\nBcc: all@example.com', String.raw`a\u000d\nBcc: all@example.com`],
    ['a terminal escape', 'a\u001b[31m', String.raw`a\u001b[31m`],
    ['a bidi control', 'a\u202eb', String.raw`a\u202eb`],
    ['a lone surrogate', 'a\ud800b', 'a\ufffdb'],
    ['a zero-width space', 'a\u200bb', String.raw`a\u200bb`],
    ['a URL', 'https://evil.example/x', 'https: //evil.example/x'],
    ['a host', 'see www.evil.example', 'see www. evil.example'],
    ['another placeholder', '{link}', '{link}'],
  ])('are plain: %s', (_title, tool, shown) => {
    const { title, text } = message({ tool }, { title: '{tool}', text: '{tool}' })
    expect([title, text]).toEqual([shown, shown])
  })

  it.each([
    ['a mention of everybody', '<!here> <!channel>', '&lt;!here&gt; &lt;!channel&gt;'],
    ['a mention by name', '@channel @all, @here', '@ channel @ all, @ here'],
    ['a mail address', 'anna@example.com', 'anna@example.com'],
    ['a link', '<https://evil.example|Approve>', '&lt;https: //evil.example|Approve&gt;'],
    ['a link of Markdown', '[Approve](https://evil.example)', '[Approve] (https: //evil.example)'],
    ['an image', '![x](//evil.example/x.png)', '![x] (//evil.example/x.png)'],
    ['a character reference', '&lt;!here&gt;', '&amp;lt;!here&amp;gt;'],
  ])('are no markup of a chat: %s', (_title, tool, shown) => {
    expect(message({ tool }, { text: '{tool}' }, { markup: 'slack' }).text).toBe(shown)
  })

  it('the link of the gateway is one in a chat', () => {
    const { text } = message(
      {},
      { text: '<!here> *{tool}*: {link}' },
      { markup: 'slack', link: `${LINK}?a=1&b=2` },
    )
    expect(text).toBe(`<!here> *wipe*: <${LINK}?a=1&amp;b=2>`)
  })

  it('are bounded, and never end in a part of a character reference', () => {
    fc.assert(
      fc.property(
        fc.uint16Array({ maxLength: 400 }),
        fc.array(fc.constantFrom('&', '<', '@', '\u202e', '`'), { maxLength: 400 }),
        fc.constantFrom('plain' as const, 'slack' as const),
        (units, marks, markup) => {
          const tool = String.fromCharCode(...units)
          const given = { tool, message: marks.join(''), arguments: { [tool]: marks.join('\n') } }
          const found = message(given, { text: '{tool}{message}{caller}', arguments: true }, { markup })
          expect(found.title.length).toBeLessThanOrEqual(200)
          expect(found.text.length).toBeLessThanOrEqual(2700)
          expect(found.title).not.toMatch(/\p{C}/u)
          expect(found.text.replaceAll(/[\n\t]/g, '')).not.toMatch(/\p{C}/u)
          if (markup === 'slack') expect(found.text).not.toMatch(/<|>|&(?!amp;|lt;|gt;)/)
        },
      ),
      { numRuns: 30 },
    )
  })

  it('of which a chat cuts a character reference off have none of it', () => {
    for (const before of ['', 'x', 'xx', 'xxx', 'xxxx']) {
      const given = { tool: before + '&'.repeat(300) }
      const { text } = message(given, { text: '{tool}' }, { markup: 'slack' })
      expect(text).toMatch(/^x*(?:&amp;)+…$/)
    }
  })

  it('many arguments are shortened, and the link stays', () => {
    const many = Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`argument-${n}`, 'x'.repeat(500)]))
    const { text } = message({ arguments: many }, { arguments: true })
    expect(text).toContain(LINK)
    expect(text.length).toBeLessThanOrEqual(2700)
    expect(text.split('\n').length).toBeLessThan(45)
  })

  it('numbers keep their digits', () => {
    const given = { arguments: { id: 9_007_199_254_740_992 }, sent: '{"id":9007199254740993}' }
    expect(message(given, { arguments: true }).text).toContain('9007199254740993')
  })
})

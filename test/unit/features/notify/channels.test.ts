import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { Webhook } from 'standardwebhooks'
import { describe, expect, it, onTestFinished } from 'vitest'
import { noProxy } from '../../../../src/core/proxy.ts'
import { Secret } from '../../../../src/core/text/secret.ts'
import { type Accepted, createChannels, headerText } from '../../../../src/features/notify/channels.ts'
import { sendMail } from '../../../../src/features/notify/email.ts'
import type { Message } from '../../../../src/features/notify/message.ts'
import type { ChannelSettings } from '../../../../src/features/settings/notify.ts'
import { until } from '../../../support/condition.ts'
import { httpSite, type SiteAnswer } from '../../../support/http-site.ts'
import { startMailServer } from '../../../support/mail-server.ts'
import { selfSigned } from '../../../support/self-signed.ts'
import { parse } from '../../../support/server/json.ts'

const secret = `whsec_${Buffer.alloc(32, 5).toString('base64')}`
const message: Message = {
  id: 'abc.ops',
  type: 'approval.pending',
  title: 'Approval needed: wipe on disks',
  text: 'user:anna wants to call wipe.\nhttps://gate.example.com/confirm/abc',
  link: 'https://gate.example.com/confirm/abc',
  data: { approval: 'abc', tool: 'wipe\u202e\u001b' },
}
const never = new AbortController().signal

function send(settings: Partial<ChannelSettings>, given = message, signal = never): Promise<Accepted> {
  const own = { arguments: false, decided: false, ...settings }
  const [channel] = createChannels({ ops: own }, noProxy)
  if (!channel) throw new Error('there is no channel')
  return channel.send(given, signal)
}

const url = (origin: string) => new Secret(`${origin}/hooks/a-token?key=1`)

describe('a webhook', () => {
  it('is JSON that is signed by Standard Webhooks', async () => {
    const { origin, requests } = await httpSite(() => ({ status: 204 }))
    const webhook = { url: url(origin), secret: new Secret(secret) }
    expect(await send({ webhook })).toEqual({ kind: 'done' })
    const [request] = requests
    const { body = '', headers = {} } = request ?? {}
    const signed = Object.fromEntries(Object.entries(headers).map(([name, value]) => [name, String(value)]))
    expect(new Webhook(secret).verify(body, signed)).toMatchObject({
      type: 'approval.pending',
      timestamp: expect.stringMatching(/^\d{4}-.*Z$/),
      data: { ...message.data, title: message.title, text: message.text },
    })
    expect(request).toMatchObject({ method: 'POST', path: '/hooks/a-token?key=1' })
    expect(headers).toMatchObject({ 'content-type': 'application/json', 'webhook-id': 'abc.ops' })
    // Whoever prints the body shows nothing that is not seen.
    expect(body).toMatch(/^[ -~]*$/)
  })

  it.each([
    [{ status: 200 }, { kind: 'done' }],
    [{ status: 500 }, { kind: 'later', failure: 'http_500' }],
    [{ status: 404 }, { kind: 'later', failure: 'http_404' }],
    [
      { status: 302, headers: { location: '/elsewhere' } },
      { kind: 'later', failure: 'http_302' },
    ],
    [
      { status: 429, headers: { 'retry-after': '7' } },
      { kind: 'later', failure: 'http_429', afterMs: 7000 },
    ],
    [{ status: 410 }, { kind: 'never', failure: 'http_410' }],
  ] satisfies [SiteAnswer, Accepted][])('that is answered with %j comes to %j', async (answer, sent) => {
    const { origin, requests } = await httpSite(() => answer)
    expect(await send({ webhook: { url: url(origin), secret: new Secret(secret) } })).toEqual(sent)
    expect(requests).toHaveLength(1)
  })

  it('to nobody, or to an address of metadata services, is a failure without the URL', async () => {
    const webhook = (to: string) => send({ webhook: { url: new Secret(to), secret: new Secret(secret) } })
    expect(await webhook('http://127.0.0.1:9/a-token')).toEqual({ kind: 'later', failure: 'connection' })
    expect(await webhook('http://169.254.169.254/a-token')).toEqual({ kind: 'later', failure: 'address' })
    expect(await webhook('http://nowhere.invalid/a-token')).toEqual({ kind: 'later', failure: 'dns' })
  })

  it('that is never answered ends with its signal', async () => {
    const { origin, requests } = await httpSite(() => new Promise(() => undefined))
    const controller = new AbortController()
    const sent = send(
      { webhook: { url: url(origin), secret: new Secret(secret) } },
      message,
      controller.signal,
    )
    await until(() => requests.length === 1, 'the request')
    controller.abort()
    expect(await sent).toEqual({ kind: 'later', failure: 'aborted' })
  })
})

it('a message for a chat is its text, and a block in which nothing becomes a link or a mention', async () => {
  const { origin, requests } = await httpSite(() => ({ body: 'ok', type: 'text/plain' }))
  expect(await send({ slack: { url: url(origin) } })).toEqual({ kind: 'done' })
  const text = `*${message.title}*\n${message.text}`
  expect(parse(requests[0]?.body ?? '')).toEqual({
    text,
    blocks: [{ type: 'section', text: { type: 'mrkdwn', text, verbatim: true } }],
  })
})

describe('a push message', () => {
  it('has its title, link, priority and token in headers', async () => {
    const { origin, requests } = await httpSite(() => ({ body: {} }))
    const ntfy = { url: new Secret(`${origin}/my-topic`), token: new Secret('tk_123'), priority: 5 }
    expect(await send({ ntfy })).toEqual({ kind: 'done' })
    expect(requests[0]).toMatchObject({
      method: 'POST',
      path: '/my-topic',
      body: message.text,
      headers: {
        title: message.title,
        click: message.link,
        priority: '5',
        authorization: 'Bearer tk_123',
      },
    })
  })

  it('has no further headers, whatever its title says, and a bounded text', async () => {
    const { origin, requests } = await httpSite(() => ({ body: {} }))
    const title = 'wipe\r\nX-Injected: yes\nClick: https://evil.example — ünïcödé'
    const ntfy = { url: new Secret(`${origin}/my-topic`), priority: 3 }
    expect(await send({ ntfy }, { ...message, title, text: 'ü€'.repeat(2000) })).toEqual({ kind: 'done' })
    const { headers = {}, body = '' } = requests[0] ?? {}
    expect(headers).not.toHaveProperty('x-injected')
    expect(headers['click']).toBe(message.link)
    expect(decoded(String(headers['title']))).toBe(
      'wipe X-Injected: yes Click: https://evil.example — ünïcödé',
    )
    expect(Buffer.byteLength(body)).toBeLessThanOrEqual(4096)
    expect(body).toMatch(/€…$|ü…$/)
  })

  it.each([
    ['ASCII', 'Approval needed: wipe', 'Approval needed: wipe'],
    ['a line break', 'a\r\nb', 'a b'],
    ['what looks like an encoded word', '=?UTF-8?B?YQ==?=', '=?UTF-8?B?PT9VVEYtOD9CP1lRPT0/PQ==?='],
    ['other letters', 'für', '=?UTF-8?B?ZsO8cg==?='],
  ])('has a header for %s', (_title, given, header) => expect(headerText(given)).toBe(header))

  it('has encoded words of at most 75 characters, which are whole characters each', () => {
    const title = '🧨 é'.repeat(60)
    const words = headerText(title).split(' ')
    expect(Math.max(...words.map(({ length }) => length))).toBeLessThanOrEqual(75)
    expect(words.map(decoded).join('')).toBe(title)
  })
})

/** Encoded words as text. */
function decoded(header: string): string {
  return header.replaceAll(/=\?UTF-8\?B\?([^?]*)\?= ?/g, (_all, text: string) =>
    Buffer.from(text, 'base64').toString(),
  )
}

describe('a mail', () => {
  const addresses = { from: 'gate@example.com', to: ['ops@example.com', 'boss@example.com'] }
  const mail = (port: number, more: Partial<NonNullable<ChannelSettings['email']>> = {}) => ({
    email: { host: '127.0.0.1', port, tls: 'off', ...addresses, ...more } as const,
  })

  it('arrives as plain text at every recipient, with one id for all attempts', async () => {
    const { port, mails } = await startMailServer()
    // Nobody listens at the first address of the name.
    const { email } = mail(port, { host: 'mail.test' })
    const resolve = async () => ['127.0.0.2', '127.0.0.1']
    const attempts = [send(mail(port)), sendMail(message, email, never, resolve)]
    expect(await Promise.all(attempts)).toEqual([{ kind: 'done' }, { kind: 'done' }])
    const expected = {
      from: addresses.from,
      to: addresses.to,
      headers: {
        subject: message.title,
        from: 'Gatehouse <gate@example.com>',
        'message-id': '<abc.ops@example.com>',
        'auto-submitted': 'auto-generated',
        'content-type': expect.stringContaining('text/plain'),
      },
      body: expect.stringContaining('user:anna wants to call wipe.\r\nhttps://gate.example.com/confirm/abc'),
    }
    expect(mails).toMatchObject([expected, expected])
  })

  it('has no further headers and recipients, whatever its subject and text say', async () => {
    const { port, mails } = await startMailServer()
    const title = 'wipe\r\nBcc: evil@example.com\r\n\r\n<h1>ünïcödé</h1>'
    const text = 'a\r\n.\r\nRCPT TO:<evil@example.com>\r\n\u202e<script>'
    expect(await send(mail(port), { ...message, title, text })).toEqual({ kind: 'done' })
    expect(mails).toHaveLength(1)
    expect(mails[0]?.to).toEqual(addresses.to)
    const { headers = {} } = mails[0] ?? {}
    expect(Object.keys(headers).toSorted()).toEqual([
      'auto-submitted',
      'content-transfer-encoding',
      'content-type',
      'date',
      'from',
      'message-id',
      'mime-version',
      'subject',
      'to',
    ])
    expect(headers['subject']).toMatch(/^=\?UTF-8\?/)
    expect(headers['content-type']).toContain('text/plain')
  })

  it('signs in with a name and a password', async () => {
    const { port, mails } = await startMailServer({ password: 'right' })
    const by = (password: string) => send(mail(port, { user: 'gateway', password: new Secret(password) }))
    expect(await Promise.all([by('right'), by('wrong')])).toEqual([
      { kind: 'done' },
      { kind: 'later', failure: 'smtp_535' },
    ])
    expect(mails).toMatchObject([{ user: 'gateway' }])
  })

  it('that is refused is sent again or not, as the server says', async () => {
    const [later, refusing] = await Promise.all([startMailServer(), startMailServer()])
    later.refuse(451)
    refusing.refuse(550)
    expect(await Promise.all([send(mail(later.port)), send(mail(refusing.port))])).toEqual([
      { kind: 'later', failure: 'smtp_451' },
      { kind: 'never', failure: 'smtp_550' },
    ])
  })

  it('is not sent in plain text where TLS is required, nor to a certificate that is not trusted', async () => {
    const disabledCommands = ['AUTH']
    const servers = await Promise.all([
      startMailServer(),
      startMailServer({ ...selfSigned, disabledCommands }),
      startMailServer({ ...selfSigned, disabledCommands, secure: true }),
    ])
    const ways = ['starttls', 'starttls', 'implicit'] as const
    const sent = servers.map(({ port }, index) => send(mail(port, { tls: ways[index] ?? 'starttls' })))
    const tls = { kind: 'later', failure: 'tls' }
    expect(await Promise.all(sent)).toEqual([tls, tls, tls])
    expect(servers.flatMap(({ mails }) => mails)).toEqual([])
  })

  it.each([
    ['nobody', '127.0.0.1', 'connection'],
    ['an address of metadata services', '169.254.169.254', 'address'],
    ['a name without an address', 'nowhere.invalid', 'dns'],
  ])('to %s is a failure', async (_title, host, failure) => {
    expect(await send(mail(9, { host }))).toEqual({ kind: 'later', failure })
  })

  it('to a server that never answers ends with its signal', async () => {
    let connections = 0
    const silent = createServer(() => void connections++).listen(0, '127.0.0.1')
    onTestFinished(() => void silent.close())
    await once(silent, 'listening')
    const controller = new AbortController()
    const { port } = silent.address() as AddressInfo
    const sent = send(mail(port), message, controller.signal)
    await until(() => connections === 1, 'the connection')
    controller.abort()
    expect(await sent).toMatchObject({ kind: 'later' })
  })
})

it('no outcome names the URL, or anything that a receiver wrote', async () => {
  const { origin } = await httpSite(() => ({ status: 500, body: 'private words' }))
  const outcomes = [
    await send({ slack: { url: url(origin) } }),
    await send({ ntfy: { url: url(origin), priority: 3 } }),
  ]
  expect(JSON.stringify(outcomes)).not.toMatch(/a-token|private/)
  expect(outcomes).toHaveLength(2)
})

import { describe, expect, test } from 'vitest'
import { loadChannels } from '../../../src/config/load-channels.ts'
import { loadSettings } from '../../../src/config/load.ts'
import { ConfigError } from '../../../src/config/problem.ts'
import { featureSettings } from '../../../src/core/settings.ts'
import { Redactor, secretsOf } from '../../../src/core/text/redactor.ts'

const upstreams = { files: 'files-server', github: 'github-server' }
const listen = { public_url: 'https://gate.example.com' }
const secret = `whsec_${Buffer.alloc(32, 3).toString('base64')}`
const slack = { slack: { url: 'https://chat.example.com/hooks/x' } }
const email = { host: 'mail.example.com', from: 'gate@example.com', to: 'ops@example.com' }

const load = (config: object, env: Record<string, string> = {}) =>
  loadSettings(JSON.stringify({ upstreams, listen, store: 'memory', ...config }), { file: 'f.yaml', env })

/** What is wrong with a configuration, without the name of the file. */
function problems(config: object): string {
  try {
    load(config)
    return ''
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
}

const ofChannel = (channel: object) => problems({ notify: { channels: { ops: channel } } })
const ofRest = (rest: object) => problems({ notify: { channels: { ops: slack, phone: slack }, ...rest } })

describe('channels', () => {
  test.each([
    ['no kind', {}, 'notify.channels.ops: needs one of `webhook`, `slack`, `email`, `ntfy`'],
    ['two kinds', { ...slack, email }, 'notify.channels.ops.email: `slack` is also set'],
    ['an unknown kind', { teams: {} }, 'notify.channels.ops.teams: unknown key'],
    ['no URL', { slack: {} }, 'notify.channels.ops.slack: needs `url`'],
    [
      'no URL with a protocol of the web',
      { slack: { url: 'mailto:ops@example.com' } },
      'notify.channels.ops.slack.url: must be a URL that starts with http:// or https://',
    ],
    [
      'a password in a URL',
      { ntfy: { url: 'https://me:secret@ntfy.sh/x' } },
      'notify.channels.ops.ntfy.url: must not contain a user and a password',
    ],
    ['no secret', { webhook: { url: 'https://x.example.com' } }, 'webhook: needs `secret`'],
    [
      'a secret of another form',
      { webhook: { url: 'https://x.example.com', secret: 'abc' } },
      'webhook.secret: must be whsec_ and 24 to 64 bytes in base64',
    ],
    [
      'a priority out of range',
      { ntfy: { url: 'https://ntfy.sh/x', priority: 6 } },
      'ntfy.priority: must be',
    ],
    [
      'a host with a port',
      { email: { ...email, host: 'mail.example.com/x' } },
      'email.host: must be the name',
    ],
    [
      'a recipient with a name',
      { email: { ...email, to: ['ops@example.com', 'Ops <ops@example.com>'] } },
      'email.to[1]: must be a mail address such as ops@example.com, without a name',
    ],
    [
      'several recipients in one text',
      { email: { ...email, to: 'a@example.com, b@example.com' } },
      'email.to: must be a mail address',
    ],
    [
      'a sender with a line break',
      { email: { ...email, from: 'a@example.com\r\nBcc: b@example.com' } },
      'email.from: must be a mail address',
    ],
    ['a user without a password', { email: { ...email, user: 'me' } }, 'email.user: needs `password`'],
    ['a password without a user', { email: { ...email, password: 'x' } }, 'has no effect without `user`'],
    [
      'a password without encryption',
      { email: { ...email, user: 'me', password: 'x', tls: 'off' } },
      'email.tls: would send the password in plain text',
    ],
    ['another condition', { ...slack, only: 'harmless' }, 'only: must be destructive, out_of_band'],
    [
      'an unknown server',
      { ...slack, servers: ['file'] },
      'servers[0]: no server has this name: did you mean files?',
    ],
    [
      'an unknown placeholder',
      { ...slack, title: '{tol} on {server}' },
      'notify.channels.ops.title: has an unknown placeholder; did you mean {tool}?',
    ],
    [
      'braces around something else',
      { ...slack, text: '{"a": 1}' },
      'notify.channels.ops.text: has an unknown placeholder: use {tool}, {server}, {caller}, {risk}, {since}, {expires}, {deciders}, {link}, {message}',
    ],
    ['an endless title', { ...slack, title: 'x'.repeat(201) }, 'notify.channels.ops.title: '],
  ])('with %s are refused, with the place and the fix', (_title, channel, message) => {
    expect(ofChannel(channel)).toContain(message)
  })

  test('the messages of mistakes contain no value', () => {
    const wrong = ofChannel({ webhook: { url: 'ftp://private.example/topic', secret: 'private-secret' } })
    expect(wrong).not.toMatch(/private|topic/)
  })

  test.each([
    ['a bad name', { notify: { channels: { Ops: slack } } }, 'must be lower-case letters'],
    ['none', { notify: 'on' }, 'notify: needs `channels`, the ways to people'],
    ['an empty mapping', { notify: { channels: {} } }, 'must be a mapping of names to channels'],
    [
      'none, for one server',
      { upstreams: { files: { command: 'x', notify: 'on' } } },
      'upstreams.files.notify: has no effect: name the `channels` under `notify` at the top level of the file',
    ],
    [
      'those of one server alone',
      { upstreams: { files: { command: 'x', notify: { channels: { ops: slack } } } } },
      'cannot differ between servers: write it as `notify.channels` at the top level of the file',
    ],
  ])('with %s are refused', (_title, config, message) => {
    expect(problems(config)).toContain(message)
  })
})

describe('quiet hours and escalation', () => {
  const night = { from: '22:00', to: '07:00', time_zone: 'Europe/Berlin' }

  test.each([
    ['no zone', { quiet: { from: '22:00', to: '07:00' } }, 'notify.quiet: needs `time_zone`'],
    [
      'an unknown zone',
      { quiet: { ...night, time_zone: 'Berlin' } },
      'notify.quiet.time_zone: is no time zone',
    ],
    [
      'an unknown zone in a list',
      { quiet: [night, { ...night, time_zone: 'Mars/Olympus' }] },
      'notify.quiet[1].time_zone: is no time zone',
    ],
    [
      'an hour that there is not',
      { quiet: { ...night, from: '24:01' } },
      'notify.quiet.from: must be a time such',
    ],
    [
      'a number',
      { quiet: { ...night, from: 1320 } },
      'notify.quiet.from: must be a time such as "22:00", in quotes',
    ],
    ['another day', { quiet: { ...night, days: ['someday'] } }, 'notify.quiet.days[0]: must be one of mon'],
    [
      'an unknown channel',
      { escalate: { after: '10m', to: 'phon' } },
      'escalate.to: no channel has this name: did you mean phone?',
    ],
    [
      'all channels',
      { escalate: { after: '10m', to: ['ops', 'phone'] } },
      'notify.escalate.to: names all channels, so that nobody would be told at first',
    ],
    ['no time', { escalate: { to: 'phone' } }, 'notify.escalate: needs `after`'],
  ])('with %s are refused, with the place and the fix', (_title, rest, message) => {
    expect(ofRest(rest)).toContain(message)
  })

  test('are read with their defaults', () => {
    const notify = {
      channels: { ops: slack, phone: slack },
      quiet: night,
      escalate: { after: '10m', to: 'phone' },
    }
    expect(featureSettings(load({ notify }).settings, 'notify')).toMatchObject({
      quiet: { ...night, pass: 'none' },
      escalate: { after: 600_000, to: 'phone' },
    })
  })
})

describe('the settings', () => {
  test('are off by default, and can be off for a server', () => {
    expect(featureSettings(load({}).settings, 'notify')).toBe(false)
    const { settings } = load({
      notify: { channels: { ops: slack } },
      upstreams: { ...upstreams, quiet: { command: 'x', notify: 'off' } },
    })
    expect(featureSettings(settings, 'notify', 'quiet')).toBe(false)
    expect(featureSettings(settings, 'notify', 'files')).toMatchObject({ channels: { ops: {} } })
  })

  test('have secrets, which are known and never printed', () => {
    const env = {
      HOOK: 'https://hook.example.com/9f8e7d',
      TOPIC: 'a-topic-to-guess',
      PASSWORD: 'password-of-mail',
      TOKEN: 'tk-of-ntfy-0123',
    }
    const { settings } = load(
      {
        notify: {
          channels: {
            hook: { webhook: { url: '${HOOK}', secret } },
            push: { ntfy: { url: 'https://ntfy.sh/${TOPIC}', token: '${TOKEN}' } },
            mail: { email: { ...email, user: 'me', password: '${PASSWORD}' } },
          },
        },
      },
      env,
    )
    const printed = JSON.stringify(settings)
    const redactor = new Redactor()
    redactor.learn(secretsOf(settings))
    for (const value of [...Object.values(env), secret]) {
      expect(printed).not.toContain(value)
      expect(redactor.text(`x ${value} x`)).toBe('x *** x')
    }
  })

  test('warn of secrets in the file, of URLs without encryption, and without a public URL', () => {
    const notify = {
      channels: {
        hook: { webhook: { url: 'http://hook.example.com/x', secret } },
        here: { slack: { url: 'http://127.0.0.1:9/x' } },
        mail: { email: { ...email, user: 'me', password: 'in-the-file' } },
      },
    }
    const found = load({ notify, listen: {} }).warnings.map(({ path, message }) => `${path}: ${message}`)
    expect(found).toEqual(
      expect.arrayContaining([
        expect.stringContaining('notify.channels.hook.webhook.secret: this looks like a secret'),
        expect.stringContaining('notify.channels.mail.email.password: this looks like a secret'),
        expect.stringContaining('notify.channels.hook.webhook.url: what is sent there can be read'),
        expect.stringContaining('notify: the links in messages lead to the address'),
      ]),
    )
    expect(found.join()).not.toContain('channels.here')
  })
})

describe('the channels of a command', () => {
  const read = (config: object, env = {}) => loadChannels(JSON.stringify(config), { file: 'f.yaml', env })

  test('are read, whatever is wrong with other sections', () => {
    const { channels, publicUrl } = read({
      upstreams: { It: { token: '${UNSET}' } },
      limits: { rate: 'often' },
      listen,
      notify: { channels: { ops: slack, phone: { ...slack, servers: 'files' } } },
    })
    expect([Object.keys(channels), publicUrl]).toEqual([['ops', 'phone'], listen.public_url])
  })

  test.each([
    ['is off', { notify: 'off' }],
    ['is not there', {}],
  ])('are none where the section %s', (_title, config) => {
    expect(read(config).channels).toEqual({})
  })

  test('are refused where they are wrong', () => {
    expect(() => read({ notify: { channels: { ops: {} } } })).toThrow('needs one of')
    expect(() => read({ notify: { channels: { ops: { slack: { url: '${UNSET}' } } } } })).toThrow('UNSET')
  })
})

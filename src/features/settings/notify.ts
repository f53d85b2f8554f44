/** The settings of the messages that tell people which calls wait for approval: how they are configured, without what they do. */
import type { SettingsIn } from '../../core/settings.ts'
import { defineSettings, flag, setting } from '../../core/setting-schemas.ts'
import { durationSchema } from '../../core/time/units.ts'

/** What a template may contain, in braces. */
export const placeholders = [
  'tool',
  'server',
  'caller',
  'risk',
  'since',
  'expires',
  'deciders',
  'link',
  'message',
] as const

/** A placeholder of a template. */
export type Placeholder = (typeof placeholders)[number]

/** Finds what is in braces in a template. */
export const PLACEHOLDER = /\{([^{}]*)\}/g

/** The kinds of channels, of which each channel has one. */
export const channelKinds = ['webhook', 'slack', 'email', 'ntfy'] as const

/** How people are reached by a channel. */
export type ChannelKind = (typeof channelKinds)[number]

const text = { type: 'string', minLength: 1, errorMessage: 'must be text: put it in quotes' } as const
const secret = { ...text, 'x-secret': true } as const
const names = { type: ['array', 'string'], minItems: 1, minLength: 1, items: text } as const
const time = {
  type: 'string',
  pattern: '^(?:(?:[01]\\d|2[0-3]):[0-5]\\d|24:00)$',
  errorMessage: 'must be a time such as "22:00", in quotes',
} as const

function url(what: string, description: string) {
  return { ...secret, errorMessage: `must be ${what}`, description } as const
}

/** One way to people. */
const channel = {
  type: 'object',
  additionalProperties: false,
  errorMessage: 'must be a mapping with `webhook:`, `slack:`, `email:` or `ntfy:`',
  properties: {
    webhook: {
      type: 'object',
      required: ['url', 'secret'],
      additionalProperties: false,
      errorMessage: 'must be a mapping such as { url: "${URL}", secret: "${SECRET}" }',
      description: 'JSON is posted to a URL, signed by Standard Webhooks.',
      properties: {
        url: url('the URL of a receiver', 'Where messages are posted.'),
        secret: {
          ...secret,
          errorMessage: 'must be whsec_ and 24 to 64 bytes in base64, as Standard Webhooks defines secrets',
          description: 'What messages are signed with: `whsec_` and 24 to 64 bytes in base64.',
        },
      },
    },
    slack: {
      type: 'object',
      required: ['url'],
      additionalProperties: false,
      errorMessage: 'must be a mapping such as { url: "${SLACK_URL}" }',
      description:
        'A message to an incoming webhook of Slack, Mattermost, or another service that accepts those.',
      properties: { url: url('the URL of an incoming webhook', 'The URL of the incoming webhook.') },
    },
    email: {
      type: 'object',
      required: ['host', 'from', 'to'],
      additionalProperties: false,
      errorMessage:
        'must be a mapping such as { host: smtp.example.com, from: a@example.com, to: b@example.com }',
      description: 'A mail in plain text, by SMTP.',
      properties: {
        host: {
          ...text,
          errorMessage: 'must be the name of a mail server',
          description: 'The mail server that accepts mails from this gateway.',
        },
        port: {
          type: 'integer',
          minimum: 1,
          maximum: 65_535,
          errorMessage: 'must be a port number',
          description: 'Its port. By default 587, with `tls: implicit` 465, and with `tls: off` 25.',
        },
        tls: {
          enum: ['starttls', 'implicit', 'off'],
          default: 'starttls',
          description:
            'Whether the connection becomes encrypted (`starttls`, without which nothing is sent), is so from the beginning (`implicit`), or never is (`off`, for a mail server on this machine).',
        },
        user: { ...text, description: 'The name with which the gateway signs in at the mail server.' },
        password: { ...secret, description: 'The password for `user`.' },
        from: { ...text, errorMessage: 'must be a mail address', description: 'The sender.' },
        to: {
          ...names,
          errorMessage: 'must be a mail address or a list of them',
          description: 'The recipients.',
        },
      },
    },
    ntfy: {
      type: 'object',
      required: ['url'],
      additionalProperties: false,
      errorMessage: 'must be a mapping such as { url: "https://ntfy.sh/${TOPIC}" }',
      description: 'A push message by ntfy.',
      properties: {
        url: url(
          'the URL of a topic such as https://ntfy.sh/topic',
          'The URL of the topic. Whoever knows it can read its messages, unless the server requires a token.',
        ),
        token: { ...secret, description: 'The access token for the topic.' },
        priority: setting(
          { type: 'integer', minimum: 1, maximum: 5, errorMessage: 'must be a number from 1 to 5' },
          3,
          'The priority of the messages: 1 is the lowest, and 5 the highest.',
        ),
      },
    },
    only: {
      type: ['string', 'array'],
      pattern: '^(destructive|out_of_band)$',
      minItems: 1,
      items: { enum: ['destructive', 'out_of_band'] },
      errorMessage: 'must be destructive, out_of_band, or a list of both',
      description:
        'Which calls it is for: `destructive` ones, and those that other people than the caller approve (`out_of_band`). With both, those to which both apply. All by default.',
      examples: ['out_of_band'],
    },
    servers: {
      ...names,
      errorMessage: 'must be the name of a server or a list of names',
      description: 'The servers whose calls it is for. All by default.',
      examples: [['github']],
    },
    title: {
      ...text,
      maxLength: 200,
      description:
        'The title of messages, or the subject of mails, in place of that of the gateway. See [Templates](notifications.md#templates).',
      examples: ['{tool} on {server} needs you'],
    },
    text: {
      ...text,
      maxLength: 2000,
      description:
        'The text of messages, in place of that of the gateway. See [Templates](notifications.md#templates).',
      examples: ['{caller} waits until {expires}: {link}'],
    },
    arguments: flag(
      false,
      'Whether messages also have the arguments of the call, without those that are secrets by their names or by the schema of the tool, and shortened.',
    ),
    decided: flag(
      false,
      'Whether another message says how the call was decided, to whoever was told that it waits.',
    ),
  },
} as const

const quietProperties = {
  from: { ...time, description: 'When they begin.', examples: ['22:00'] },
  to: {
    ...time,
    description: 'When they end, on the next day if it is not after `from`.',
    examples: ['07:00'],
  },
  time_zone: {
    ...text,
    errorMessage: 'must be the name of a time zone such as Europe/Berlin',
    description: 'The time zone of both, by its name in the IANA database.',
    examples: ['Europe/Berlin'],
  },
  days: {
    type: 'array',
    minItems: 1,
    items: { enum: ['mon', 'tue', 'wed', 'thu', 'fri', 'sat', 'sun'] },
    errorMessage: 'must be a list of days such as [sat, sun]',
    description: 'The days on which they begin. All by default.',
    examples: [['sat', 'sun']],
  },
  pass: {
    enum: ['none', 'destructive', 'escalated'],
    default: 'none',
    description:
      'Which messages are sent in these hours: none, those about `destructive` calls, or those that are `escalated`.',
  },
} as const

/** How people are told which calls wait for approval. */
export const notifySchema = defineSettings({
  name: 'notify',
  place: 'top',
  default: 'off',
  description:
    'Tells people which calls wait for their approval. For a server, `off` says nothing of its calls. See [Notifications](notifications.md).',
  properties: {
    channels: {
      type: 'object',
      'x-gateway': true,
      minProperties: 1,
      maxProperties: 20,
      errorMessage: 'must be a mapping of names to channels, of which there can be 20',
      propertyNames: {
        pattern: '^[a-z][a-z0-9-]{0,31}$',
        errorMessage: 'must be lower-case letters, digits and dashes, and start with a letter',
      },
      additionalProperties: channel,
      description: 'The ways to people, by name. Each has one of `webhook`, `slack`, `email` and `ntfy`.',
    },
    quiet: {
      type: ['object', 'array'],
      'x-gateway': true,
      minItems: 1,
      errorMessage:
        'must be a mapping such as { from: "22:00", to: "07:00", time_zone: Europe/Berlin }, or a list of those',
      required: ['from', 'to', 'time_zone'],
      additionalProperties: false,
      properties: quietProperties,
      items: {
        type: 'object',
        required: ['from', 'to', 'time_zone'],
        additionalProperties: false,
        errorMessage: 'must be a mapping such as { from: "22:00", to: "07:00", time_zone: Europe/Berlin }',
        properties: quietProperties,
      },
      description:
        'Hours in which nobody is disturbed. Messages wait until their end, and are sent if the call still waits then. See [Quiet hours](notifications.md#quiet-hours).',
    },
    escalate: {
      type: 'object',
      'x-gateway': true,
      required: ['after', 'to'],
      additionalProperties: false,
      errorMessage: 'must be a mapping such as { after: 10m, to: [phone] }',
      properties: {
        after: { ...durationSchema, description: 'How long people have to decide before others are told.' },
        to: {
          ...names,
          errorMessage: 'must be the name of a channel or a list of names',
          description: 'The channels of these others. They get no other messages.',
        },
      },
      description:
        'Who else is told if a call is not decided in time. See [Escalation](notifications.md#escalation).',
    },
  },
})

/** How people are told which calls wait for approval. Durations are milliseconds. */
export type NotifySettings = SettingsIn<typeof notifySchema>

/** One way to people. */
export type ChannelSettings = NonNullable<NotifySettings['channels']>[string]

/** Hours in which nobody is disturbed. */
export type QuietSettings = Exclude<NonNullable<NotifySettings['quiet']>, readonly unknown[]>

/**
 * The channels of a configuration: how a message is sent by a webhook, to a chat, as a push message, or by mail (`email.ts`).
 *
 * Their URLs are the operator's own choice, so they may use http, and be on this machine or in a private network. Requests go
 * through the proxy of the environment. As for all other URLs, none goes to an address of metadata services, and no redirect is
 * followed (`dialer.ts`).
 *
 * Invariant: what comes of an attempt says nothing that the receiver wrote, and nothing of the URL, which may be a secret.
 */
import type { FindProxy } from '../../core/proxy.ts'
import { signedHeaders } from '../../core/standard-webhooks.ts'
import { escapeHidden } from '../../core/text/escape.ts'
import type { Secret } from '../../core/text/secret.ts'
import { retryAfterSeconds } from '../../core/time/units.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { world } from '../../core/world.ts'
import type { Sent } from '../../durable/dispatcher.ts'
import { createDialer, type Dialer, type DialOutcome } from '../dialer.ts'
import { type ChannelKind, channelKinds, type ChannelSettings } from '../settings/notify.ts'
import type { Markup, Message } from './message.ts'

/** One way to people. */
export interface Channel {
  readonly name: string
  readonly kind: ChannelKind
  readonly settings: ChannelSettings
  readonly markup: Markup
  /** Makes an attempt, which takes a bounded time. Never throws. */
  send(message: Message, signal: AbortSignal): Promise<Accepted>
}

/** What came of an attempt; a failure is a category such as `timeout` or `http_503`. */
export type Accepted = Extract<Sent, { kind: 'done' | 'later' | 'never' }>

/** How long a request takes at most, in milliseconds. */
const TIMEOUT_MS = 10_000
/** The longest text of a push message, in bytes: ntfy makes a file of a longer one. */
const MAX_PUSH_BYTES = 4000
/** The longest part of a header in one encoded word, in bytes: a word has at most 75 characters (RFC 2047, section 2). */
const MAX_WORD_BYTES = 45

/** The channels of a configuration. */
export function createChannels(
  settings: Readonly<Record<string, ChannelSettings>>,
  proxies: FindProxy,
): readonly Channel[] {
  const urls = Object.values(settings).flatMap(({ webhook, slack, ntfy }) => webhook ?? slack ?? ntfy ?? [])
  const allow = urls.map(({ url }) => new URL(url.reveal()).origin)
  const dialer = createDialer({ allow, proxies })
  return Object.entries(settings).flatMap(([name, own]) => {
    const kind = channelKinds.find((each) => own[each] !== undefined)
    if (!kind) return []
    const markup = kind === 'slack' ? 'slack' : 'plain'
    return [{ name, kind, settings: own, markup, send: senderOf(own, dialer) }]
  })
}

function senderOf({ webhook, slack, ntfy, email }: ChannelSettings, dialer: Dialer): Channel['send'] {
  const post = async (url: Secret, request: Posted, signal: AbortSignal): Promise<Accepted> => {
    const outcome = await dialer.post({
      ...request,
      url: url.reveal(),
      timeoutMs: TIMEOUT_MS,
      maxResponseBytes: 0,
      signal,
    })
    return acceptedOf(outcome)
  }
  if (webhook) return (message, signal) => post(webhook.url, signedPost(message, webhook.secret), signal)
  if (slack) return (message, signal) => post(slack.url, chatPost(message), signal)
  if (ntfy) return (message, signal) => post(ntfy.url, pushPost(message, ntfy), signal)
  return async (message, signal) => {
    if (!email) return { kind: 'never', failure: 'no_channel' }
    // Gateways that send no mails do not load what sends them.
    const { sendMail } = await import('./email.ts')
    return sendMail(message, email, signal)
  }
}

interface Posted {
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

const json = { 'content-type': 'application/json' }

/** A message as JSON, signed by Standard Webhooks. */
function signedPost({ id, type, title, text, data }: Message, secret: Secret): Posted {
  const at = world.now()
  const content = { type, timestamp: isoTime(at), data: { ...data, title, text } }
  const body = escapeHidden(JSON.stringify(content))
  return { headers: { ...json, ...signedHeaders({ id, at, body }, [secret]) }, body }
}

/** A message for an incoming webhook. Slack shows the blocks, and the text in previews; Mattermost shows the text. */
function chatPost({ title, text }: Message): Posted {
  const whole = `*${title}*\n${text}`
  // Names and addresses in the text are no mentions and no links.
  const section = { type: 'section', text: { type: 'mrkdwn', text: whole, verbatim: true } }
  return { headers: json, body: escapeHidden(JSON.stringify({ text: whole, blocks: [section] })) }
}

/** A message to a topic of ntfy. */
function pushPost(
  { title, text, link }: Message,
  { token, priority }: NonNullable<ChannelSettings['ntfy']>,
): Posted {
  return {
    headers: {
      'content-type': 'text/plain; charset=utf-8',
      title: headerText(title),
      priority: String(priority),
      ...(link !== undefined && URL.canParse(link) && { click: new URL(link).href }),
      ...(token && { authorization: `Bearer ${token.reveal()}` }),
    },
    body: withinBytes(text, MAX_PUSH_BYTES),
  }
}

/** A text as the value of a header: on one line, and in encoded words unless it is ASCII (RFC 2047). */
export function headerText(text: string): string {
  const line = text
    .toWellFormed()
    .replaceAll(/\p{Cc}+/gu, ' ')
    .trim()
  if (/^[ -~]*$/.test(line) && !line.includes('=?')) return line
  const words: string[] = ['']
  for (const character of line) {
    const longer = `${words.at(-1)}${character}`
    if (Buffer.byteLength(longer) <= MAX_WORD_BYTES) words[words.length - 1] = longer
    else words.push(character)
  }
  return words.map((word) => `=?UTF-8?B?${Buffer.from(word).toString('base64')}?=`).join(' ')
}

function withinBytes(text: string, max: number): string {
  const bytes = Buffer.from(text.toWellFormed())
  if (bytes.length <= max) return text
  return `${bytes.toString('utf8', 0, max).replace(/\uFFFD$/, '')}…`
}

/** What an answer means: 410 and 413 stay, and everything else may be another one once somebody has changed something. */
function acceptedOf(outcome: DialOutcome): Accepted {
  if (outcome.kind === 'failed')
    return { kind: outcome.reason === 'url' ? 'never' : 'later', failure: outcome.reason }
  const { status, retryAfter } = outcome
  if (status >= 200 && status < 300) return { kind: 'done' }
  const failure = `http_${status}`
  if (status === 410 || status === 413) return { kind: 'never', failure }
  const seconds = retryAfterSeconds(retryAfter, world.now())
  return { kind: 'later', failure, ...(seconds !== undefined && { afterMs: seconds * 1000 }) }
}

/**
 * What people are told about an approval: a title and a text, from the templates of the channel or of the gateway.
 *
 * Invariant: texts of callers and servers are inert in it. They are on one line, without secrets, bounded, and with invisible
 * characters escaped; they are no links, and where the channel has markup, no markup and no mentions. The templates are texts of
 * the operator, and are sent as they are.
 */
import { asObject } from '../../core/json/json.ts'
import { shorten } from '../../core/json/shorten.ts'
import { maskedArguments } from '../../core/masked-arguments.ts'
import { oneLine, shortened, visibleLine } from '../../core/text/escape.ts'
import type { Redactor } from '../../core/text/redactor.ts'
import { isoTime } from '../../core/time/waiting.ts'
import { type Approval, type Decision, clientText, sentText, valueText } from '../../records/approvals.ts'
import { type ChannelSettings, PLACEHOLDER, type Placeholder } from '../settings/notify.ts'

/** A message to people, by any channel. */
export interface Message {
  /** The same for all attempts to send it. */
  readonly id: string
  readonly type: 'approval.pending' | 'approval.escalated' | 'approval.decided' | 'test'
  readonly title: string
  /** As the channel shows it, with the link in it unless a template leaves it out. */
  readonly text: string
  /** The page where it is decided; absent if there is none. */
  readonly link?: string
  /** The same for programs: texts of callers and servers as they are, but for secrets. */
  readonly data: Readonly<Record<string, unknown>>
}

/** Whether texts are plain, or have the markup of Slack, which Mattermost takes for Markdown. */
export type Markup = 'plain' | 'slack'

/** What a message is made of. */
interface Subject {
  readonly id: string
  readonly type: 'approval.pending' | 'approval.escalated' | 'approval.decided'
  readonly approval: Approval
  readonly link: string | undefined
}

/** How long titles, texts and values are, and the question in a text, in characters: a block of Slack has 3000 at most. */
const MAX_TITLE_LENGTH = 200
const MAX_TEXT_LENGTH = 2700
const MAX_VALUE_LENGTH = 200
const MAX_QUESTION_LENGTH = 1000
/** How many lines of arguments there are, and how long each of them and all together are, in characters. */
const MAX_LINES = 30
const MAX_LINE_LENGTH = 120
const MAX_ARGUMENTS_LENGTH = 1200
/** How much of the arguments is looked at for these lines, and how large they are for programs, in bytes. */
const MAX_SHOWN_BYTES = 4096
const MAX_DATA_BYTES = 16_384

const defaults: Readonly<Record<Subject['type'], { readonly title: string; readonly text: string }>> = {
  'approval.pending': {
    title: 'Approval needed: {tool} on {server}',
    text: `{caller} wants to call {tool} on {server} ({risk}), and waits since {since}.
Who decides: {deciders}, until {expires}.
Decide here, after you have said who you are:
{link}`,
  },
  'approval.escalated': {
    title: 'Still undecided: {tool} on {server}',
    text: `{caller} wants to call {tool} on {server} ({risk}), and waits since {since}. Nobody has decided.
Who decides: {deciders}, until {expires}.
Decide here, after you have said who you are:
{link}`,
  },
  'approval.decided': {
    title: 'Call {verdict}: {tool} on {server}',
    text: 'The call of {tool} on {server} by {caller} was {verdict} by {by}.',
  },
}

/** The message about an approval for a channel. */
export function messageOf(
  { id, type, approval, link }: Subject,
  { title, text, arguments: hasArguments }: Pick<ChannelSettings, 'title' | 'text' | 'arguments'>,
  { markup, redactor }: { readonly markup: Markup; readonly redactor: Redactor },
): Message {
  const isDecision = type === 'approval.decided'
  const ink = new Ink(markup, redactor)
  const values: Values = { ...valuesOf(approval, link, ink), ...(isDecision && decisionOf(approval, ink)) }
  const own = isDecision ? {} : { title, text }
  const filled = (template: string): string =>
    template.replaceAll(PLACEHOLDER, (whole, name: string) =>
      Object.hasOwn(values, name) ? (values[name] ?? whole) : whole,
    )
  const withArguments = hasArguments && !isDecision
  const shown = withArguments ? `\n\n${argumentsText(approval, ink)}` : ''
  return {
    id,
    type,
    title: ink.cut(filled(own.title ?? defaults[type].title).replaceAll(/\p{Cc}+/gu, ' '), MAX_TITLE_LENGTH),
    text: ink.cut(filled(own.text ?? defaults[type].text), MAX_TEXT_LENGTH - shown.length) + shown,
    ...(link !== undefined && { link }),
    data: {
      ...dataOf(approval, link, redactor),
      ...(withArguments && { arguments: shorten(ink.cleanArguments(approval), MAX_DATA_BYTES, true) ?? {} }),
    },
  }
}

/** A message that says nothing of any call. */
export function testMessage(id: string, link: string | undefined): Message {
  const where = link === undefined ? '' : `\nCalls that wait are at ${link}`
  return {
    id,
    type: 'test',
    title: 'Test of Gatehouse',
    text: `This is a test. Messages about calls that wait for approval arrive here.${where}`,
    ...(link !== undefined && { link }),
    data: {},
  }
}

type Values = Readonly<Record<string, string>>

function valuesOf(approval: Approval, link: string | undefined, ink: Ink): Values {
  const { tool, upstream, caller, risk, createdAt, expiresAt, message, id } = approval
  const client = clientText(approval)
  const values: Readonly<Record<Placeholder, string>> = {
    tool: ink.value(tool),
    server: ink.value(upstream),
    caller: ink.value(client === undefined ? caller : `${caller} with ${client}`),
    risk: ink.value(risk),
    since: timeText(createdAt),
    expires: timeText(expiresAt),
    deciders: decidersOf(approval, ink),
    link: link === undefined ? `gatehouse approvals show ${id}` : ink.link(link),
    message: ink.value(message, MAX_QUESTION_LENGTH),
  }
  return values
}

function decidersOf({ kind, approvers, needed }: Approval, ink: Ink): string {
  if (kind === 'page') return 'its caller'
  const who = approvers.length === 0 ? 'anyone but its caller' : ink.value(approvers.join(', '))
  return needed > 1 ? `${needed} of ${who}` : who
}

function decisionOf({ status, decisions }: Approval, ink: Ink): Values {
  const isDenied = status === 'denied'
  const verdict: Decision['verdict'] = isDenied ? 'denied' : 'approved'
  const by = decisions.filter((each) => asObject(each).verdict === verdict).map((each) => each.by)
  return { verdict, by: ink.value(by.join(', ')) }
}

function argumentsText(approval: Approval, ink: Ink): string {
  const shortened = shorten(ink.cleanArguments(approval), MAX_SHOWN_BYTES, true) ?? {}
  const sent = sentText(approval)
  const text = sent === undefined ? valueText(shortened) : ink.clean(sent).slice(0, MAX_SHOWN_BYTES)
  const lines = text.split('\n')
  const shown = lines.slice(0, MAX_LINES).map((line) => ink.inert(visibleLine(line), MAX_LINE_LENGTH))
  const more = lines.length > shown.length ? ['…'] : []
  return `Arguments:\n${ink.cut([...shown, ...more].join('\n'), MAX_ARGUMENTS_LENGTH)}`
}

function dataOf(approval: Approval, link: string | undefined, redactor: Redactor): Message['data'] {
  const { id, upstream, tool, caller, risk, createdAt, expiresAt, kind, status } = approval
  const client = clientText(approval)
  return {
    approval: id,
    server: upstream,
    tool: redactor.text(tool),
    caller: redactor.text(caller),
    ...(client !== undefined && { client: redactor.text(client) }),
    risk,
    kind,
    status,
    requested_at: isoTime(createdAt),
    expires_at: isoTime(expiresAt),
    ...(link !== undefined && { link }),
  }
}

/** A time, such as `2026-01-31 22:05 UTC`. */
function timeText(at: number): string {
  return `${isoTime(at).slice(0, 16).replace('T', ' ')} UTC`
}

/** Writes texts of others so that a channel shows them as they are, and does nothing else with them. */
class Ink {
  readonly #markup: Markup
  readonly #redactor: Redactor

  constructor(markup: Markup, redactor: Redactor) {
    this.#markup = markup
    this.#redactor = redactor
  }

  /** A text without the secrets of the gateway. */
  clean(text: string): string {
    return this.#redactor.text(text.toWellFormed())
  }

  /** The arguments of a call without secrets. */
  cleanArguments({ arguments: given }: Approval): unknown {
    return this.#redactor.value(maskedArguments(given))
  }

  /** A text of others on one line. */
  value(text: string, max = MAX_VALUE_LENGTH): string {
    // What is beyond the maximum need not be escaped.
    return this.inert(
      oneLine(
        this.clean(text)
          .slice(0, max + 1)
          .toWellFormed(),
      ),
      max,
    )
  }

  /** A visible text on one line that is no link, no markup and no mention. */
  inert(text: string, max: number): string {
    const unlinked = shortened(text, max)
      .replaceAll('://', ': //')
      .replaceAll(/\bwww\.(?=\w)/gi, 'www. ')
    if (this.#markup === 'plain') return unlinked
    // Mattermost knows mentions and links of Markdown, which Slack has no other way to write than with < and >.
    const unmarked = unlinked.replaceAll(/\B@(?=[\w.-])/g, '@ ').replaceAll('](', '] (')
    return this.cut(escapedForSlack(unmarked), max)
  }

  /** A link of the gateway. */
  link(url: string): string {
    return this.#markup === 'plain' ? url : `<${escapedForSlack(url)}>`
  }

  /** A text of at most so many characters, which ends with no part of a character reference. */
  cut(text: string, max: number): string {
    const short = shortened(text, max)
    return this.#markup === 'slack' && short !== text ? short.replace(/&[a-z]*(?=…$)/, '') : short
  }
}

/** The three characters that Slack's markup begins with, as its character references. */
function escapedForSlack(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')
}

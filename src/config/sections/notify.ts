/** Checks of the section `notify` that its schema (`features/settings/notify.ts`) cannot express. */
import { isConfidentialUrl, isLoopbackHost } from '../../core/address.ts'
import { asObject, isObject } from '../../core/json/json.ts'
import type { Fields } from '../../core/payload.ts'
import { isWebhookSecret } from '../../core/standard-webhooks.ts'
import { nearest } from '../../core/text/words.ts'
import { channelKinds, PLACEHOLDER, placeholders } from '../../features/settings/notify.ts'
import { isHttpUrl } from '../names.ts'
import { atKey, atValue, type Finding, type Findings } from '../problem.ts'

type Path = readonly string[]

/** What the checks know about the rest of the configuration. */
interface Surroundings {
  readonly upstreams: Fields
  readonly publicUrl: unknown
}

/** Checks how people are told which calls wait. It makes no assumptions about types. */
export function checkNotify(notify: unknown, { upstreams, publicUrl }: Surroundings): Findings {
  const servers = Object.keys(upstreams)
  const { channels, quiet, escalate } = asObject(notify)
  const named = isObject(channels) ? Object.entries(channels) : []
  const isOn = notify !== undefined && notify !== false && notify !== 'off'
  const path = ['notify']
  const idle = Object.entries(upstreams).flatMap(([name, upstream]) => {
    const own = asObject(upstream).notify
    const isIdle = own !== undefined && own !== false && own !== 'off' && !isObject(channels)
    return atKey(
      ['upstreams', name, 'notify'],
      isIdle && 'has no effect: name the `channels` under `notify` at the top level of the file',
    )
  })
  const found = named.map(([name, channel]) =>
    isObject(channel) ? ofChannel(channel, [...path, 'channels', name], servers) : nothing,
  )
  return {
    problems: [
      ...atKey(path, isOn && channels === undefined && 'needs `channels`, the ways to people'),
      ...found.flatMap(({ problems }) => problems),
      ...[quiet]
        .flat()
        .flatMap((each, index) => ofQuiet(each, Array.isArray(quiet) ? ['quiet', String(index)] : ['quiet'])),
      ...ofEscalation(
        escalate,
        named.map(([name]) => name),
      ),
      ...idle,
    ],
    warnings: [
      ...found.flatMap(({ warnings }) => warnings),
      ...atKey(
        path,
        named.length > 0 &&
          publicUrl === undefined &&
          'the links in messages lead to the address that the gateway listens on: set `listen.public_url` to the one at which people reach it',
      ),
    ],
  }
}

const nothing: Findings = { problems: [], warnings: [] }

function ofChannel(channel: Fields, path: Path, servers: readonly string[]): Findings {
  const [kind, ...others] = channelKinds.filter((each) => channel[each] !== undefined)
  const { webhook, slack, email, ntfy, title, text, servers: own } = channel
  const urls = Object.entries({ webhook, slack, ntfy }).map(([key, value]) => {
    return { place: [...path, key, 'url'], url: asObject(value).url }
  })
  const { secret } = asObject(webhook)
  return {
    problems: [
      ...atKey(
        path,
        kind === undefined && `needs one of ${channelKinds.map((each) => `\`${each}\``).join(', ')}`,
      ),
      ...others.flatMap((other) =>
        atKey([...path, other], `\`${kind}\` is also set: give each a channel of its own`),
      ),
      ...urls.flatMap(({ place, url }) => atValue(place, urlMistake(url))),
      ...atValue(
        [...path, 'webhook', 'secret'],
        typeof secret === 'string' &&
          secret !== '' &&
          !isWebhookSecret(secret) &&
          'must be whsec_ and 24 to 64 bytes in base64, as Standard Webhooks defines secrets',
      ),
      ...(isObject(email) ? ofEmail(email, [...path, 'email']) : []),
      ...atValue([...path, 'title'], templateMistake(title)),
      ...atValue([...path, 'text'], templateMistake(text)),
      ...ofNames(own, [...path, 'servers'], { what: 'server', known: servers }),
    ],
    warnings: urls.flatMap(({ place, url }) =>
      atValue(
        place,
        typeof url === 'string' &&
          isHttpUrl(url) &&
          !isConfidentialUrl(url) &&
          'what is sent there can be read on its way: use https',
      ),
    ),
  }
}

function urlMistake(url: unknown): string | undefined {
  if (typeof url !== 'string' || url === '') return undefined
  if (!isHttpUrl(url)) return 'must be a URL that starts with http:// or https://'
  const { username, password } = new URL(url)
  return username === '' && password === ''
    ? undefined
    : 'must not contain a user and a password: they would be shown where URLs are'
}

/** Finds what a template has in braces that is no placeholder. */
function templateMistake(template: unknown): string | undefined {
  if (typeof template !== 'string') return undefined
  const known: readonly string[] = placeholders
  const wrong = [...template.matchAll(PLACEHOLDER)]
    .map(([, name = '']) => name)
    .find((name) => !known.includes(name))
  if (wrong === undefined) return undefined
  const meant = nearest(wrong.trim(), placeholders)
  const all = placeholders.map((each) => `{${each}}`).join(', ')
  return meant === undefined
    ? `has an unknown placeholder: use ${all}`
    : `has an unknown placeholder; did you mean {${meant}}? There are ${all}`
}

/** An address without a name, spaces and what has a meaning in lists of addresses. */
const ADDRESS = /^[^\s@<>()[\]\\,;:"\p{C}]{1,64}@[^\s@<>()[\]\\,;:"\p{C}]{1,255}$/u

function ofEmail({ host, from, to, tls, user, password }: Fields, path: Path): Finding[] {
  const isAddress = (each: unknown): boolean => typeof each !== 'string' || each === '' || ADDRESS.test(each)
  const message = 'must be a mail address such as ops@example.com, without a name'
  const recipients = [to].flat().map((each, index) => ({ each, index }))
  const isOpen = tls === 'off' && typeof host === 'string' && !isLoopbackHost(host)
  return [
    ...atValue(
      [...path, 'host'],
      typeof host === 'string' &&
        !/^[\w.:[\]-]*$/.test(host) &&
        'must be the name of a host, without a port: use `port`',
    ),
    ...atValue([...path, 'from'], !isAddress(from) && message),
    ...recipients.flatMap(({ each, index }) =>
      atValue(
        Array.isArray(to) ? [...path, 'to', String(index)] : [...path, 'to'],
        !isAddress(each) && message,
      ),
    ),
    ...atKey(
      [...path, 'password'],
      password !== undefined && user === undefined && 'has no effect without `user`',
    ),
    ...atKey([...path, 'user'], user !== undefined && password === undefined && 'needs `password`'),
    ...atValue(
      [...path, 'tls'],
      isOpen &&
        password !== undefined &&
        'would send the password in plain text: use `starttls` or `implicit`, or a mail server on this machine',
    ),
  ]
}

function ofQuiet(quiet: unknown, path: Path): Finding[] {
  const { time_zone: zone } = asObject(quiet)
  const isUnknown = typeof zone === 'string' && zone !== '' && !isTimeZone(zone)
  return atValue(
    ['notify', ...path, 'time_zone'],
    isUnknown &&
      'is no time zone that is known here: write its name in the IANA database, such as Europe/Berlin',
  )
}

function isTimeZone(name: string): boolean {
  try {
    return new Intl.DateTimeFormat('en', { timeZone: name }).format(0) !== ''
  } catch {
    return false
  }
}

function ofEscalation(escalate: unknown, channels: readonly string[]): Finding[] {
  const { to } = asObject(escalate)
  const path = ['notify', 'escalate', 'to']
  const named: readonly unknown[] = [to].flat()
  const isAll = to !== undefined && channels.length > 0 && channels.every((name) => named.includes(name))
  return [
    ...ofNames(to, path, { what: 'channel', known: channels }),
    ...atValue(path, isAll && 'names all channels, so that nobody would be told at first: leave one out'),
  ]
}

interface Known {
  readonly what: string
  readonly known: readonly string[]
}

function ofNames(names: unknown, path: Path, { what, known }: Known): Finding[] {
  if (names === undefined || known.length === 0) return []
  return [names].flat().flatMap((name, index) => {
    if (typeof name !== 'string' || name === '' || known.includes(name)) return []
    const meant = nearest(name, known)
    const advice = meant === undefined ? `there are ${known.join(', ')}` : `did you mean ${meant}?`
    return atValue(
      Array.isArray(names) ? [...path, String(index)] : path,
      `no ${what} has this name: ${advice}`,
    )
  })
}

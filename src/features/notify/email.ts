/**
 * Sends messages as mails in plain text, by SMTP. It is loaded with the first mail.
 *
 * Like the URLs of other channels, the mail server is the operator's own choice: it may be in a private network, but not at an
 * address of metadata services. The address that was checked is the one that is connected to; the certificate has to be that of
 * the name. No proxy is used: proxies of the environment are for HTTP.
 */
import { lookup } from 'node:dns/promises'
import { isIP } from 'node:net'
import { createTransport } from 'nodemailer'
import { addressKind, bareHost } from '../../core/address.ts'
import { asObject } from '../../core/json/json.ts'
import { untilAborted } from '../../core/time/waiting.ts'
import { world } from '../../core/world.ts'
import type { ChannelSettings } from '../settings/notify.ts'
import type { Accepted } from './channels.ts'
import type { Message } from './message.ts'

/** A mail server, and from whom to whom it sends. */
type MailSettings = NonNullable<ChannelSettings['email']>

/** How long a mail takes at most, in milliseconds: some servers let strangers wait. */
const TIMEOUT_MS = 20_000
/** How many addresses of a server are tried. */
const MAX_ADDRESSES = 4

const ports: Readonly<Record<MailSettings['tls'], number>> = { starttls: 587, implicit: 465, off: 25 }

/** The addresses of a host name. */
type Resolve = (name: string) => Promise<readonly string[]>

/** Sends a message as a mail. Never throws. `resolve` is by default that of this machine. */
export async function sendMail(
  message: Message,
  settings: MailSettings,
  signal: AbortSignal,
  resolve: Resolve = addressesOf,
): Promise<Accepted> {
  const timeout = world.timeoutSignal(TIMEOUT_MS)
  const either = AbortSignal.any([signal, timeout])
  try {
    const name = bareHost(settings.host)
    const addresses = isIP(name) > 0 ? [name] : await untilAborted(resolve(name), either)
    if (addresses.some((address) => addressKind(address) === 'reserved')) return later('address')
    for (const address of addresses.slice(0, MAX_ADDRESSES)) {
      const sent = await sendTo(address, { message, settings, signal: either })
      if (sent !== 'unreachable') return sent
    }
    return later(timeout.aborted ? 'timeout' : 'connection')
  } catch {
    return later(timeout.aborted ? 'timeout' : 'dns')
  }
}

async function addressesOf(name: string): Promise<readonly string[]> {
  return (await lookup(name, { all: true })).map(({ address }) => address)
}

interface Order {
  readonly message: Message
  readonly settings: MailSettings
  readonly signal: AbortSignal
}

async function sendTo(
  address: string,
  { message, settings, signal }: Order,
): Promise<Accepted | 'unreachable'> {
  const { host, tls, port = ports[tls], user, password, from, to } = settings
  const transport = createTransport({
    host: address,
    port,
    secure: tls === 'implicit',
    requireTLS: tls === 'starttls',
    ignoreTLS: tls === 'off',
    servername: isIP(bareHost(host)) > 0 ? undefined : bareHost(host),
    connectionTimeout: TIMEOUT_MS,
    greetingTimeout: TIMEOUT_MS,
    socketTimeout: TIMEOUT_MS,
    socketCloseTimeout: 0,
    disableFileAccess: true,
    disableUrlAccess: true,
    ...(user !== undefined && { auth: { user, pass: password?.reveal() ?? '' } }),
  })
  try {
    await transport.sendMail({
      from: { name: 'Gatehouse', address: from },
      to: [to].flat().map((each) => ({ name: '', address: each })),
      subject: message.title,
      text: message.text,
      // The same for all attempts, so that mail programs know a repeated one.
      messageId: `<${message.id}@${from.slice(from.indexOf('@') + 1)}>`,
      headers: { 'Auto-Submitted': 'auto-generated' },
      signal,
    })
    return { kind: 'done' }
  } catch (error) {
    return failureOf(error, signal)
  } finally {
    transport.close()
  }
}

/** What an error of nodemailer means. Its message, which has texts of the server, is not used. */
function failureOf(error: unknown, signal: AbortSignal): Accepted | 'unreachable' {
  const { code, originalCode, syscall, responseCode } = asObject(error)
  if (signal.aborted || code === 'ETIMEDOUT') return later('timeout')
  if (/TLS|SSL|CERT|SIGN|ISSUER/.test(`${String(code)} ${String(originalCode)}`)) return later('tls')
  if (typeof responseCode === 'number') {
    const failure = `smtp_${responseCode}`
    // Everything but a refused mail, such as a wrong password, can be mended.
    const isRefused = code === 'EENVELOPE' || code === 'EMESSAGE'
    return isRefused && responseCode >= 500 ? { kind: 'never', failure } : later(failure)
  }
  // Nothing was sent yet, as opposed to a connection that ends.
  return syscall === 'connect' ? 'unreachable' : later('connection')
}

function later(failure: string): Accepted {
  return { kind: 'later', failure }
}

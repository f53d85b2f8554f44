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

/** Sends a message as a mail. Never throws. */
export async function sendMail(
  message: Message,
  settings: MailSettings,
  signal: AbortSignal,
): Promise<Accepted> {
  const timeout = world.timeoutSignal(TIMEOUT_MS)
  const either = AbortSignal.any([signal, timeout])
  try {
    const addresses = await addressesOf(settings.host, either)
    for (const address of addresses) {
      const sent = await sendTo(address, { message, settings, signal: either })
      if (sent !== 'unreachable') return sent
    }
    return later(timeout.aborted ? 'timeout' : 'connection')
  } catch (error) {
    if (timeout.aborted) return later('timeout')
    return later(error instanceof ForbiddenAddress ? 'address' : 'dns')
  }
}

/** The addresses of a mail server. @throws ForbiddenAddress, the error of the resolver, the reason of the signal */
async function addressesOf(host: string, signal: AbortSignal): Promise<readonly string[]> {
  const name = bareHost(host)
  const found = isIP(name) > 0 ? [{ address: name }] : await untilAborted(lookup(name, { all: true }), signal)
  if (found.some(({ address }) => addressKind(address) === 'reserved')) throw new ForbiddenAddress()
  return found.map(({ address }) => address).slice(0, MAX_ADDRESSES)
}

class ForbiddenAddress extends Error {
  override readonly name = 'ForbiddenAddress'
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

import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { callbackify } from 'node:util'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { onTestFinished } from 'vitest'

/** A mail as it was accepted. */
interface AcceptedMail {
  readonly from: string
  readonly to: readonly string[]
  /** Its headers by lower-case name, unfolded, as they were written, and its body as it was sent. */
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
  readonly raw: string
  readonly user: unknown
  readonly isEncrypted: boolean
}

/** A mail server on loopback, until the test is over. */
export interface MailServer {
  readonly port: number
  readonly mails: readonly AcceptedMail[]
  /** What the next mails are refused with, such as 451; undefined to accept them. */
  refuse(code: number | undefined): void
}

/** Starts a mail server that accepts every sender, and signs in the user `gateway` with this password if there is one. */
export async function startMailServer(
  options: SMTPServerOptions & { readonly password?: string } = {},
): Promise<MailServer> {
  const { password, ...others } = options
  const mails: AcceptedMail[] = []
  let refusal: number | undefined
  const server = new SMTPServer({
    authOptional: password === undefined,
    allowInsecureAuth: true,
    disabledCommands: password === undefined ? ['AUTH', 'STARTTLS'] : ['STARTTLS'],
    disableReverseLookup: true,
    onAuth: ({ username, password: given }, _session, done) =>
      username === 'gateway' && given === password
        ? done(null, { user: username })
        : done(Object.assign(new Error('Wrong password'), { responseCode: 535 })),
    onData: (stream, session, done) => {
      const accept = async (): Promise<void> => {
        const raw = await text(stream)
        if (refusal !== undefined) throw Object.assign(new Error('No'), { responseCode: refusal })
        mails.push({
          ...parsed(raw),
          raw,
          from: addressOf(session.envelope.mailFrom),
          to: session.envelope.rcptTo.map(addressOf),
          user: session.user,
          isEncrypted: session.secure,
        })
      }
      callbackify(accept)(done)
    },
    ...others,
  })
  server.on('error', () => undefined)
  server.listen(0, '127.0.0.1')
  await once(server.server, 'listening')
  onTestFinished(() => server.close())
  return {
    port: (server.server.address() as AddressInfo).port,
    mails,
    refuse: (code) => void (refusal = code),
  }
}

function addressOf(given: unknown): string {
  return typeof given === 'object' && given !== null && 'address' in given ? String(given.address) : ''
}

function parsed(raw: string): Pick<AcceptedMail, 'headers' | 'body'> {
  const end = raw.indexOf('\r\n\r\n')
  const lines = raw
    .slice(0, end)
    .replaceAll(/\r\n[ \t]+/g, ' ')
    .split('\r\n')
  const headers = lines.map((line) => {
    const colon = line.indexOf(':')
    return [line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()] as const
  })
  return { headers: Object.fromEntries(headers), body: raw.slice(end + 4) }
}

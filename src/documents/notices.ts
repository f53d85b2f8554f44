import { NS } from '../wire/extensions.ts'
import type { ServerDescription } from './portrait.ts'
import { elevation, issuedBy, scopeLines } from './access-sections.ts'
import { asksForToken } from './front.ts'
import { scopesOf } from './scopes.ts'
import { bullets, code, inline, listed, sentence } from './text.ts'

/** How callers prove who they are, which claims are read, and which profile is kept: `use://auth`. */
export function authNotice(description: ServerDescription): string {
  const { auth, profile } = description.front
  const isOpen = !asksForToken(description.front)
  const claims = Object.entries(auth.claims ?? {}).map(
    ([name, use]) => `${code(name)}: ${sentence(inline(use))}`,
  )
  const opened = isOpen ? [] : scopeLines(scopesOf(description))
  return joined([
    '# Authentication',
    `Profile: ${profile}. ${profiles[profile]}`,
    isOpen
      ? 'No credentials are asked for.'
      : `Methods: ${listed(auth.methods.map((each) => methods[each]))}.`,
    ...issuedBy(auth),
    isOpen ? '' : refused,
    claims.length > 0 ? `## Claims\n\n${bullets(claims)}` : '',
    opened.length > 0 ? `## Scopes\n\n${bullets(opened)}` : '',
    ...elevation(auth),
    isOpen ? '' : 'A session id is no proof of who somebody is.',
  ])
}

const profiles = {
  open: 'Standard MCP; nothing is asked of clients beyond it.',
  corporate: 'Authentication is required, and the strict side of every choice is taken.',
} as const

const refused =
  'A request without a valid token is refused with 401 and a challenge that names where to get one, one without rights with 403. Tokens are only taken from the `Authorization` header, never from a URL.'

const methods = {
  bearer_token: '`Authorization: Bearer <token>`',
  oauth2_code: 'OAuth 2.1 with the authorization code flow',
  none: 'none',
} as const

/** The HTTP headers that are read and sent: `use://http-headers`. */
export function headersNotice({ front }: ServerDescription): string {
  const isSigned = asksForToken(front)
  const standard = [
    isSigned ? '`Authorization`: `Bearer` and a token; required.' : '',
    '`Content-Type`: `application/json`.',
    '`Accept`: `application/json, text/event-stream`.',
    '`MCP-Protocol-Version`: the revision of MCP, after the handshake or, without one, with each request.',
    '`Mcp-Session-Id`: the session, for revisions with a handshake.',
    '`Mcp-Method`, `Mcp-Name`: what the body says too, for revisions without a handshake.',
    '`Last-Event-ID`: where a broken stream goes on.',
  ]
  const own = [
    '`X-Request-Id`: names the request in answers and logs; one is made where it is missing.',
    front.extensions.includes('idempotency')
      ? `\`Idempotency-Key\`, \`X-Idempotency-Key\`: the key of a call, as \`_meta["${NS}/idempotency_key"]\`.`
      : '',
    front.auth.sessionTtl === undefined
      ? ''
      : '`X-MCP-Session-Token`: narrows what the token may do; it never stands for the token.',
  ]
  const sent = [
    '`X-Request-Id`: that of the request.',
    '`RateLimit`, `RateLimit-Policy`, `Retry-After`: what is left, and how long to wait.',
    '`X-RateLimit-Limit`, `X-RateLimit-Remaining`, `X-RateLimit-Reset`: the same one by one; the last in seconds from now.',
    isSigned ? '`WWW-Authenticate`: why a request was refused, and where to get a token.' : '',
  ]
  return joined([
    '# HTTP headers',
    `## Of the protocol\n\n${bullets(standard.filter(isSaid))}`,
    `## Beyond the protocol\n\n${bullets(own.filter(isSaid))}`,
    `## In answers\n\n${bullets(sent.filter(isSaid))}`,
  ])
}

/** The version of what is offered: `project://version`. */
export function versionNotice({ front }: ServerDescription): string {
  return front.version
}

function isSaid(line: string): boolean {
  return line !== ''
}

function joined(parts: readonly string[]): string {
  return `${parts.filter(isSaid).join('\n\n')}\n`
}

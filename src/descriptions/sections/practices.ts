/** Sections of advice, and the notices about authentication and versions. */
import { NS } from '../../protocol/meta-keys.ts'
import {
  type ServerDescription,
  type ToolDescription,
  asksForToken,
  type Front,
  type Section,
} from '../model/description.ts'
import { pagingArguments, scopesOf, endpointsOf, type ScopeDescription } from '../model/facts.ts'
import {
  code,
  firstListed,
  inlineText,
  listed,
  toolCode,
  bullets,
  sentence,
  jsonBlock,
} from '../model/text.ts'

/** How to use it well, each in a sentence of markdown. */
export function bestPractices({ tools, front }: ServerDescription): string[] {
  const changing = tools.filter(({ classification }) => classification.op !== 'read')
  const confirmed = tools.filter(({ facts }) => facts.confirmation)
  const keyed = changing.filter(
    ({ facts, classification }) => facts.isIdempotentWithKey === true && !classification.idempotent,
  )
  const undone = changing.filter(({ facts }) => facts.undo)
  const paged = tools.filter((tool) => pagingArguments(tool).length > 0)
  const advice = [
    changing.length > 0 && changing.length < tools.length
      ? 'Read before you change, and check with a read after.'
      : '',
    keyed.length > 0
      ? `Where your client can set \`_meta\`, give each changing call an idempotency key of its own in \`_meta["${NS}/idempotency_key"]\`; to retry, send the same call with the same key, and nothing happens twice.`
      : '',
    confirmed.length > 0
      ? `Before ${names(confirmed)} a person is confirmed. Say first what you are about to do; never look for another way when the answer is no.`
      : '',
    undone.length > 0 ? `${names(undone)} can be undone.` : '',
    undone.length > 0 && front.extensions.includes('transactions') ? transactions[front.ownTools] : '',
    paged.length > 0
      ? `Results of ${names(paged)} come in pages: ask for the next one with ${pages(paged)}.`
      : '',
    ...tools.flatMap((tool) =>
      tool.isDeprecated && tool.words.deprecated !== undefined
        ? `${toolCode(tool)} is deprecated: ${inlineText(tool.words.deprecated)}`
        : [],
    ),
    front.isHelpListed
      ? 'Ask `ai_help` for one section, or for one tool by its name, rather than for everything.'
      : '',
  ]
  return advice.filter((line) => line !== '')
}

/** How several changes become one, by how the tools for it are there: a model calls only what lists have. */
const transactions = {
  listed:
    'For several changes that belong together, call `begin_transaction` and give its `transaction_id` with each of them; `rollback_transaction` undoes them in reverse order, `commit_transaction` keeps them.',
  hidden:
    'A client can make one transaction of several changes, by the tools `begin_transaction`, `commit_transaction` and `rollback_transaction`, which lists do not have: rolling it back undoes its steps in reverse order.',
  off: 'A client can make one transaction of several changes, by the methods `transaction/begin`, `transaction/commit` and `transaction/rollback`: rolling it back undoes its steps in reverse order.',
} as const

/** How many tools a sentence names. */
const MAX_NAMED_TOOLS = 6

function names(tools: readonly ToolDescription[]): string {
  return firstListed(tools.map(toolCode), MAX_NAMED_TOOLS)
}

function pages(tools: readonly ToolDescription[]): string {
  return listed([...new Set(tools.flatMap(pagingArguments))].slice(0, 4).map(code), 'or')
}

/** How callers prove who they are, which claims are read, and which profile is kept: `use://auth`. */
export function authNotice(description: ServerDescription): string {
  const { auth, profile } = description.front
  const isOpen = !asksForToken(description.front)
  const claims = Object.entries(auth.claims ?? {}).map(
    ([name, use]) => `${code(name)}: ${sentence(inlineText(use))}`,
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
    isOpen ? '' : 'A session id does not authenticate its sender.',
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
    `## Of the protocol\n\n${bullets(standard.filter(isNotEmpty))}`,
    `## Beyond the protocol\n\n${bullets(own.filter(isNotEmpty))}`,
    `## In answers\n\n${bullets(sent.filter(isNotEmpty))}`,
  ])
}

/** The version of what is offered: `project://version`. */
export function versionNotice({ front }: ServerDescription): string {
  return front.version
}

function isNotEmpty(line: string): boolean {
  return line !== ''
}

function joined(parts: readonly string[]): string {
  return `${parts.filter(isNotEmpty).join('\n\n')}\n`
}

// Sections about installation, authentication and scopes.

/** How to connect, and how to prove who one is. */
export function accessSections(description: ServerDescription): Section[] {
  return [installation(description), authentication(description)]
}

function installation(description: ServerDescription): Section {
  const { install, requires } = description
  const snippet = clientSnippet(description)
  const own = Object.entries(install).map(([manager, what]) => `${inlineText(manager)}: ${code(what)}`)
  const behind =
    own.length > 0
      ? `The gateway runs the server itself; on its own it is installed with:\n\n${bullets(own)}`
      : ''
  const env = requires.env.length > 0 ? `It needs these variables: ${listed(requires.env.map(code))}.` : ''
  return {
    key: 'installation',
    heading: 'Installation',
    markdown: [`Point an MCP client at the gateway:\n\n${jsonBlock(snippet)}`, behind, env]
      .filter((part) => part !== '')
      .join('\n\n'),
    data: { installation: { client: snippet, install, env: requires.env } },
  }
}

/** What stands in the configuration of an MCP client, with a placeholder where a token belongs. */
export function clientSnippet(description: ServerDescription): Record<string, unknown> {
  const endpoints = Object.entries(endpointsOf(description))
  if (endpoints.length === 0) {
    return { mcpServers: { [description.name]: { command: 'gatehouse', args: ['stdio'] } } }
  }
  const headers = asksForToken(description.front) ? { headers: { Authorization: 'Bearer <your token>' } } : {}
  const servers = endpoints.map(([name, url]) => [name, { type: 'http', url, ...headers }] as const)
  return { mcpServers: Object.fromEntries(servers) }
}

/** The most scopes that are listed. */
const SCOPES = 50

function authentication(description: ServerDescription): Section {
  const { auth } = description.front
  const isOpen = !asksForToken(description.front)
  const scopes = isOpen ? [] : scopesOf(description)
  const table = scopeLines(scopes.slice(0, SCOPES))
  const { issuers = [] } = auth
  const how = [
    isOpen ? 'No credentials are needed.' : 'Send `Authorization: Bearer <token>` with every request.',
    ...issuedBy(auth),
    ...elevation(auth),
  ]
  return {
    key: 'authentication',
    heading: 'Authentication',
    markdown: table.length > 0 ? `${how.join(' ')}\n\nScopes:\n\n${bullets(table)}` : how.join(' '),
    data: {
      authentication: {
        methods: auth.methods,
        ...(issuers.length > 0 && { issuers }),
        ...(scopes.length > 0 && {
          scopes: scopes.map(({ name, tools }) => ({ name, tools: tools.map((tool) => tool.name) })),
        }),
      },
    },
  }
}

/** What each scope opens, on a line. */
function scopeLines(scopes: readonly ScopeDescription[]): string[] {
  return scopes.map(({ name, description }) => `${code(name)}: ${sentence(inlineText(description))}`)
}

/** Who issues tokens, in a sentence where that is known. */
function issuedBy({ issuers = [] }: Front['auth']): string[] {
  return issuers.length > 0 ? [`Tokens are issued by ${listed(issuers.map(inlineText))}.`] : []
}

/** Where more rights are asked for, in a sentence where there is such a place. */
function elevation({ elevateUrl }: Front['auth']): string[] {
  return elevateUrl === undefined ? [] : [`More rights are asked for at ${inlineText(elevateUrl)} .`]
}

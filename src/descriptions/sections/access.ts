/** Sections about installation, authentication and scopes. */
import { endpointsOf, type ScopeDescription, scopesOf } from '../model/facts.ts'
import { asksForToken, type Front, type ServerDescription, type Section } from '../model/description.ts'
import { bullets, code, inline, jsonBlock, listed, sentence } from '../model/text.ts'

/** How to connect, and how to prove who one is. */
export function accessSections(description: ServerDescription): Section[] {
  return [installation(description), authentication(description)]
}

function installation(description: ServerDescription): Section {
  const { install, requires } = description
  const snippet = clientSnippet(description)
  const own = Object.entries(install).map(([manager, what]) => `${inline(manager)}: ${code(what)}`)
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
export function scopeLines(scopes: readonly ScopeDescription[]): string[] {
  return scopes.map(({ name, description }) => `${code(name)}: ${sentence(inline(description))}`)
}

/** Who issues tokens, in a sentence where that is known. */
export function issuedBy({ issuers = [] }: Front['auth']): string[] {
  return issuers.length > 0 ? [`Tokens are issued by ${listed(issuers.map(inline))}.`] : []
}

/** Where more rights are asked for, in a sentence where there is such a place. */
export function elevation({ elevateUrl }: Front['auth']): string[] {
  return elevateUrl === undefined ? [] : [`More rights are asked for at ${inline(elevateUrl)} .`]
}

import type { Portrait } from './portrait.ts'
import { scopesOf } from './scopes.ts'
import type { Section } from './section.ts'
import { bullets, code, inline, jsonBlock, listed, sentence } from './text.ts'

/** How to connect, and how to prove who one is. */
export function accessSections(portrait: Portrait): Section[] {
  return [installation(portrait), authentication(portrait)]
}

function installation(portrait: Portrait): Section {
  const { install, requires } = portrait
  const snippet = clientSnippet(portrait)
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
export function clientSnippet({ name, front }: Portrait): Record<string, unknown> {
  if (front.endpoint === undefined) {
    return { mcpServers: { [name]: { command: 'gatehouse', args: ['stdio'] } } }
  }
  const isSigned = front.auth.methods.some((each) => each === 'bearer_token' || each === 'api_key')
  const headers = isSigned ? { headers: { Authorization: 'Bearer <your token>' } } : {}
  return { mcpServers: { [name]: { type: 'http', url: front.endpoint, ...headers } } }
}

function authentication(portrait: Portrait): Section {
  const { auth } = portrait.front
  const isOpen = auth.methods.every((each) => each === 'none')
  const scopes = isOpen ? [] : scopesOf(portrait)
  const table = scopes
    .slice(0, 50)
    .map(({ name, description }) => `${code(name)}: ${sentence(inline(description))}`)
  const issuers = auth.issuers ?? []
  const how = [
    isOpen ? 'No credentials are needed.' : 'Send `Authorization: Bearer <token>` with every request.',
    issuers.length > 0 ? `Tokens are issued by ${listed(issuers.map(inline))}.` : '',
    auth.elevateUrl === undefined ? '' : `More rights are asked for at ${inline(auth.elevateUrl)} .`,
  ].filter((part) => part !== '')
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

/** Configuration of well-known MCP clients for the gateway's address. */
import { stdioWords, TOKEN_VARIABLE as TOKEN } from '../../descriptions/model/facts.ts'

/** The configuration of one client for the gateway. */
export interface ClientSnippet {
  readonly client: string
  /** The settings file, and its location. */
  readonly file: string
  readonly place: string
  readonly text: string
  /** An equivalent command. */
  readonly command?: string
  readonly note?: string
}

/** The endpoints that clients connect to. */
export interface ConnectionInfo {
  /** The URL of each endpoint by its name in the client. */
  readonly endpoints: Readonly<Record<string, string>>
  /** Whether clients must be configured with a token; otherwise they obtain one by OAuth or need none. */
  readonly needsToken: boolean
  /** Whether callers are authenticated: a client that starts `gatehouse stdio` needs a token even if there is an issuer. */
  readonly isProtected?: boolean
  /** The key of the gateway, if it lasts. */
  readonly key?: string | undefined
}

/** The settings of each client. */
export function clientSnippets(connection: ConnectionInfo): readonly ClientSnippet[] {
  return [claudeCode(connection), cursor(connection), visualStudioCode(connection), claudeDesktop(connection)]
}

function claudeCode({ endpoints, needsToken }: ConnectionInfo): ClientSnippet {
  const mcpServers = each(endpoints, (url) => ({
    type: 'http',
    url,
    ...authorization(needsToken, `\${${TOKEN}}`),
  }))
  const [[name, url] = [], ...others] = Object.entries(endpoints)
  const header = needsToken ? ` --header "Authorization: Bearer $${TOKEN}"` : ''
  return {
    client: 'Claude Code',
    file: '.mcp.json',
    place: 'in the project',
    text: json({ mcpServers }),
    ...(others.length === 0 && { command: `claude mcp add --transport http ${name} ${url}${header}` }),
  }
}

function cursor({ endpoints, needsToken }: ConnectionInfo): ClientSnippet {
  const mcpServers = each(endpoints, (url) => ({ url, ...authorization(needsToken, `\${env:${TOKEN}}`) }))
  return {
    client: 'Cursor',
    file: '.cursor/mcp.json',
    place: 'in the project or your home folder',
    text: json({ mcpServers }),
  }
}

function visualStudioCode({ endpoints, needsToken }: ConnectionInfo): ClientSnippet {
  const id = 'gatehouse-token'
  const inputs = [{ type: 'promptString', id, description: 'Token for Gatehouse', password: true }]
  const servers = each(endpoints, (url) => ({
    type: 'http',
    url,
    ...authorization(needsToken, `\${input:${id}}`),
  }))
  return {
    client: 'VS Code',
    file: '.vscode/mcp.json',
    place: 'in the workspace',
    text: json({ ...(needsToken && { inputs }), servers }),
  }
}

function claudeDesktop({
  endpoints,
  key,
  needsToken,
  isProtected = needsToken,
}: ConnectionInfo): ClientSnippet {
  const mcpServers = each(endpoints, (url) => ({
    command: 'gatehouse',
    args: stdioWords(url, { key, isProtected }),
    ...(isProtected && { env: { [TOKEN]: 'your token' } }),
  }))
  return {
    client: 'Claude Desktop',
    file: 'claude_desktop_config.json',
    place: '(Settings, Developer, Edit Config)',
    text: json({ mcpServers }),
    note: `Its file has no URLs, so it starts \`gatehouse stdio\`, which connects to the address. If it does not find the command, write its absolute path, which \`which gatehouse\` prints.`,
  }
}

function each<Made>(
  endpoints: ConnectionInfo['endpoints'],
  make: (url: string) => Made,
): Record<string, Made> {
  return Object.fromEntries(Object.entries(endpoints).map(([name, url]) => [name, make(url)]))
}

function authorization(needsToken: boolean, token: string): { readonly headers?: Record<string, string> } {
  return needsToken ? { headers: { Authorization: `Bearer ${token}` } } : {}
}

function json(value: object): string {
  return JSON.stringify(value, undefined, 2)
}

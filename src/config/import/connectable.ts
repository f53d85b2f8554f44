/**
 * The clients that `gatehouse connect` changes: where each keeps its servers, what the entry of the gateway looks like there, and
 * how the client is configured not to ask about its tools. The rules for reading the same files are in `clients.ts`.
 *
 * Sources: the documentation of each client, and its schema where it has one, as of November 2026.
 */
import { join } from 'node:path'
import type { Environment } from '../secrets.ts'

/** Where files of clients are looked for. */
export interface Places {
  readonly home: string
  /** The folder of a project. */
  readonly project: string
  readonly platform: NodeJS.Platform
  readonly env: Environment
}

/** How a client reaches the gateway: by its URL, or by a command that it starts. */
export interface GatewayAddress {
  readonly url: string
  /** The program and its arguments, for clients that start their servers. */
  readonly command: readonly [string, ...string[]]
  /** Whether the client starts a gateway of its own, so that there is no URL. */
  readonly isStarted: boolean
  /** The name of the variable with a token, if callers need one. */
  readonly tokenVariable?: string
}

/** A file beside that of the servers, and the change that stops the prompts of the client for the gateway. */
interface Permission {
  readonly file: (places: Places) => string
  /** A list of what needs no prompt. */
  readonly list: readonly string[]
  readonly item: string
  /** Lists of what is refused, or asked about, and the rule for all tools of a server there. */
  readonly restrictions?: {
    readonly lists: readonly (readonly string[])[]
    readonly prefix: (server: string) => string
  }
  /** What else the change does. */
  readonly note?: string
}

/** A client that can be connected. */
export interface ConnectableClient {
  /** Its name in commands. */
  readonly id: string
  readonly name: string
  /** Its files, of the project and of the user; the last one is written if none is there. */
  readonly files: (places: Places) => readonly string[]
  /** The path of the mapping of servers in them. */
  readonly at: readonly string[]
  /** Undefined if it cannot have the token. */
  readonly byUrl?: (address: GatewayAddress) => Values | undefined
  readonly byCommand: (address: GatewayAddress) => Values
  /** Members of the entry with which the client does not ask about its tools. */
  readonly unasked?: Values
  readonly permission?: Permission
}

type Values = Readonly<Record<string, unknown>>

/** The name of the entry of the gateway. */
export const ENTRY = 'gatehouse'

const plainCommand = ({ command: [program, ...args] }: GatewayAddress): Values => ({ command: program, args })

const authorization = (value: (variable: string) => string) => {
  return ({ tokenVariable }: GatewayAddress): Values =>
    tokenVariable === undefined ? {} : { headers: { Authorization: `Bearer ${value(tokenVariable)}` } }
}
const braces = authorization((name) => `\${${name}}`)
const editor = authorization((name) => `\${env:${name}}`)

const userData = ({ home, platform, env }: Places): string => {
  if (platform === 'darwin') return join(home, 'Library', 'Application Support')
  if (platform === 'win32') return env['APPDATA'] ?? join(home, 'AppData', 'Roaming')
  return configFolder({ home, env })
}
const configFolder = ({ home, env }: Pick<Places, 'home' | 'env'>): string =>
  env['XDG_CONFIG_HOME'] ?? join(home, '.config')

/** All of them, by the order in which they are looked for. */
export const connectable: readonly ConnectableClient[] = [
  {
    id: 'claude-code',
    name: 'Claude Code',
    files: ({ home, project }) => [join(project, '.mcp.json'), join(home, '.claude.json')],
    at: ['mcpServers'],
    byUrl: (address) => ({ type: 'http', url: address.url, ...braces(address) }),
    byCommand: (address) => ({ type: 'stdio', ...plainCommand(address) }),
    permission: {
      file: ({ home }) => join(home, '.claude', 'settings.json'),
      list: ['permissions', 'allow'],
      item: `mcp__${ENTRY}`,
      restrictions: {
        lists: [
          ['permissions', 'deny'],
          ['permissions', 'ask'],
        ],
        prefix: (server) => `mcp__${server}`,
      },
    },
  },
  {
    id: 'claude-desktop',
    name: 'Claude Desktop',
    files: (places) => [join(userData(places), 'Claude', 'claude_desktop_config.json')],
    at: ['mcpServers'],
    byCommand: plainCommand,
  },
  {
    id: 'cursor',
    name: 'Cursor',
    files: ({ home, project }) => [join(project, '.cursor', 'mcp.json'), join(home, '.cursor', 'mcp.json')],
    at: ['mcpServers'],
    byUrl: (address) => ({ url: address.url, ...editor(address) }),
    byCommand: plainCommand,
    permission: {
      file: ({ home }) => join(home, '.cursor', 'permissions.json'),
      list: ['mcpAllowlist'],
      item: `${ENTRY}:*`,
      note: 'with this file, the list in the settings of Cursor does not apply',
    },
  },
  {
    id: 'vscode',
    name: 'VS Code',
    files: (places) => [
      join(places.project, '.vscode', 'mcp.json'),
      join(userData(places), 'Code', 'User', 'mcp.json'),
    ],
    at: ['servers'],
    byUrl: (address) => ({ type: 'http', url: address.url, ...editor(address) }),
    byCommand: (address) => ({ type: 'stdio', ...plainCommand(address) }),
  },
  {
    id: 'codex',
    name: 'Codex',
    files: ({ home, project, env }) => [
      join(project, '.codex', 'config.toml'),
      join(env['CODEX_HOME'] ?? join(home, '.codex'), 'config.toml'),
    ],
    at: ['mcp_servers'],
    byUrl: ({ url, tokenVariable }) => ({
      url,
      ...(tokenVariable !== undefined && { bearer_token_env_var: tokenVariable }),
    }),
    byCommand: plainCommand,
    unasked: { default_tools_approval_mode: 'approve' },
  },
  {
    id: 'gemini',
    name: 'Gemini CLI',
    files: ({ home, project }) => [
      join(project, '.gemini', 'settings.json'),
      join(home, '.gemini', 'settings.json'),
    ],
    at: ['mcpServers'],
    byUrl: (address) => ({ httpUrl: address.url, ...braces(address) }),
    byCommand: plainCommand,
    unasked: { trust: true },
  },
  {
    id: 'zed',
    name: 'Zed',
    files: (places) => [
      join(places.project, '.zed', 'settings.json'),
      join(configFolder(places), 'zed', 'settings.json'),
    ],
    at: ['context_servers'],
    // It replaces no references, so a token cannot be in its file.
    byUrl: ({ url, tokenVariable }) => (tokenVariable === undefined ? { url } : undefined),
    byCommand: plainCommand,
  },
  {
    id: 'opencode',
    name: 'opencode',
    files: (places) =>
      [places.project, join(configFolder(places), 'opencode')].flatMap((folder) => [
        join(folder, 'opencode.jsonc'),
        join(folder, 'opencode.json'),
      ]),
    at: ['mcp'],
    byUrl: ({ url, tokenVariable }) => ({
      type: 'remote',
      url,
      enabled: true,
      ...(tokenVariable !== undefined && { headers: { Authorization: `Bearer {env:${tokenVariable}}` } }),
    }),
    byCommand: ({ command }) => ({ type: 'local', command, enabled: true }),
  },
  {
    id: 'goose',
    name: 'Goose',
    files: (places) => [
      places.platform === 'win32'
        ? join(userData(places), 'Block', 'goose', 'config', 'config.yaml')
        : join(configFolder(places), 'goose', 'config.yaml'),
    ],
    at: ['extensions'],
    byUrl: (address) => ({
      name: ENTRY,
      type: 'streamable_http',
      uri: address.url,
      enabled: true,
      timeout: 300,
      ...braces(address),
    }),
    byCommand: ({ command: [cmd, ...args] }) => ({
      name: ENTRY,
      type: 'stdio',
      cmd,
      args,
      enabled: true,
      timeout: 300,
    }),
  },
  {
    id: 'windsurf',
    name: 'Windsurf',
    files: ({ home }) => [join(home, '.codeium', 'windsurf', 'mcp_config.json')],
    at: ['mcpServers'],
    byUrl: (address) => ({ serverUrl: address.url, ...editor(address) }),
    byCommand: plainCommand,
  },
]

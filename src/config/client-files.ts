import { isObject } from '../core/json.ts'
import { readJsonc } from './jsonc.ts'
import { ConfigError } from './problem.ts'

/** A server as a client's own configuration has it. */
export interface ClientServer {
  readonly name: string
  readonly entry: Readonly<Record<string, unknown>>
  /** The folder it belongs to, where the file keeps servers per project. */
  readonly project?: string
}

/** What a client's configuration file says of MCP servers. */
export interface ClientFile {
  readonly servers: readonly ClientServer[]
  /** What VS Code asks the user for: description by id. */
  readonly inputs: ReadonlyMap<string, string>
}

/**
 * Reads the configuration of Claude Desktop, Claude Code, Cursor or VS Code, telling them apart by their keys.
 * @throws ConfigError when it is not JSON or names no servers
 */
export function readClientFile(text: string, file: string): ClientFile {
  const value = parsed(text, file)
  const { mcp } = value
  const editor = isObject(mcp) ? mcp : {}
  const servers = [
    ...serversIn(value.mcpServers),
    ...serversIn(value.servers),
    ...serversIn(value['mcp.servers']),
    ...serversIn(editor.servers),
    ...projectServers(value.projects),
  ]
  if (servers.length === 0) throw unreadable(file, 'names no MCP servers under `mcpServers` or `servers`')
  return { servers, inputs: inputsIn(value.inputs ?? editor.inputs) }
}

function parsed(text: string, file: string): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = readJsonc(text)
  } catch (error) {
    throw unreadable(file, error instanceof SyntaxError ? error.message : 'cannot be read')
  }
  if (!isObject(value)) throw unreadable(file, 'is not the configuration of a client')
  return value
}

function serversIn(servers: unknown, project?: string): ClientServer[] {
  if (!isObject(servers)) return []
  return Object.entries(servers).map(([name, entry]) => ({
    name,
    entry: isObject(entry) ? entry : {},
    ...(project !== undefined && { project }),
  }))
}

function projectServers(projects: unknown): ClientServer[] {
  if (!isObject(projects)) return []
  return Object.entries(projects).flatMap(([folder, project]) => {
    return isObject(project) ? serversIn(project.mcpServers, folder) : []
  })
}

function inputsIn(inputs: unknown): ReadonlyMap<string, string> {
  const found = (Array.isArray(inputs) ? inputs : []).filter(isObject)
  return new Map(
    found.map(({ id, description }) => [String(id), typeof description === 'string' ? description : '']),
  )
}

function unreadable(file: string, message: string): ConfigError {
  return new ConfigError([{ file, line: 0, column: 0, path: '', message }])
}

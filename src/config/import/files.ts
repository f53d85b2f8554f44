/** Reads the files of MCP clients, with comments. */
import { isObject } from '../../core/json/json.ts'
import { ConfigError } from '../problem.ts'

/** A server as a client's own configuration has it. */
export interface ClientServer {
  readonly name: string
  readonly entry: Readonly<Record<string, unknown>>
  /** The folder it belongs to, where the file keeps servers per project. */
  readonly project?: string
}

/** What a client's configuration file says of MCP servers. */
interface ClientFile {
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

const string = /"(?:\\.|[^"\\])*"/.source
const comments = new RegExp(`${string}|//[^\\n]*|/\\*[^]*?\\*/`, 'g')
const commas = new RegExp(`${string}|,(?=\\s*[}\\]])`, 'g')

/** Reads JSON that may hold comments and trailing commas. @throws SyntaxError */
export function readJsonc(text: string): unknown {
  const bare = text
    .replace(/^\uFEFF/, '')
    .replaceAll(comments, (found) => (found.startsWith('"') ? found : ' '))
    .replaceAll(commas, (found) => (found.startsWith('"') ? found : ''))
  try {
    const value: unknown = JSON.parse(bare)
    return value
  } catch {
    // The parser's own message repeats a piece of the text, which may be a secret.
    throw new SyntaxError('is not valid JSON')
  }
}

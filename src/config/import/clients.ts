/** Converts the configuration of an MCP client; secrets become variables. */
import { basename, dirname, resolve } from 'node:path'
import { Document, isMap, isPair, isScalar } from 'yaml'
import { isObject } from '../../core/json/json.ts'
import { joinCommand } from '../command-line.ts'
import { upstreamName } from '../names.ts'
import { ConfigError } from '../problem.ts'
import {
  convertArguments,
  convertEnv,
  convertHeader,
  convertUrl,
  withoutUser,
  type SecretContext,
  convertText,
  variables,
} from './values.ts'
import { parseJson } from '../../core/json/read.ts'

/** A configuration converted from a client's, and notes for its owner. */
interface Imported {
  readonly yaml: string
  readonly notes: readonly string[]
}

/** The file of the text, and the schema reference for editors. */
interface ImportOptions {
  readonly file: string
  readonly schema: string
}

/**
 * Converts the MCP servers of Claude Desktop, Claude Code, Cursor or VS Code to a configuration file. Secrets
 * are not copied: they become references to environment variables, listed in a comment.
 * @throws ConfigError if the text is not such a configuration
 */
export function importClients(text: string, { file, schema }: ImportOptions): Imported {
  const { servers, inputs } = readClientFile(text, file)
  const found = variables()
  const notes: string[] = []
  const upstreams = new Map<string, unknown>()
  const origins = new Map<string, string>()

  for (const server of servers) {
    const name = upstreamName(server.name, new Set(upstreams.keys()))
    const note = (message: string): void => void notes.push(`${JSON.stringify(server.name)}: ${message}`)
    const workspace = server.project ?? workspaceOf(file)
    const upstream = convertServer(server, { server: name, workspace, inputs, variables: found, note })
    if (upstream === undefined) continue
    upstreams.set(name, upstream)
    const origin = originOf(server, name)
    if (origin !== undefined) origins.set(name, origin)
  }
  if (upstreams.size === 0) {
    throw new ConfigError([
      {
        file,
        line: 0,
        column: 0,
        path: '',
        message: ['it has no server that can be imported', ...notes].join('; '),
      },
    ])
  }
  const list = found.list()
  return {
    yaml: render(upstreams, { origins, schema, from: basename(file), list }),
    notes: [...new Set(notes)],
  }
}

function convertServer({ entry, project }: ClientServer, context: SecretContext): unknown {
  const { command, url = entry.serverUrl } = entry
  if (entry.disabled === true || entry.enabled === false)
    return context.note('is disabled there and was skipped')
  noteLosses(entry, context)
  if (typeof url === 'string' && isOwnUrl(url)) return context.note('is this gateway itself and was skipped')
  if (typeof url === 'string') return convertRemote(url, entry, context)
  if (typeof command !== 'string') return context.note('has neither a command nor a URL and was skipped')
  const args = (Array.isArray(entry.args) ? entry.args : []).map(String)
  if ([command, ...args].some(isGateway)) return context.note('is this gateway itself and was skipped')
  const words = [convertText(command, context), ...convertArguments(args, context)]
  const env = convertValues(entry.env, (name, value) => convertEnv(name, value, context))
  const cwd = workingFolder(entry.cwd, project !== undefined || words.some(isRelative), context)
  const line = joinCommand(words)
  if (env === undefined && cwd === undefined) return line
  return { command: line, ...(env && { env }), ...(cwd !== undefined && { cwd }) }
}

/** The default address of the gateway. */
function isOwnUrl(url: string): boolean {
  return /^http:\/\/(?:127\.0\.0\.1|localhost|\[::1\]):8900\/(?:mcp|sse)(?:[/?#]|$)/i.test(url)
}

function convertRemote(
  url: string,
  { type, headers }: ClientServer['entry'],
  context: SecretContext,
): unknown {
  const own = convertValues(headers, (name, value) => convertHeader(name, value, context)) ?? {}
  const { url: bare, authorization } = withoutUser(url, context)
  const isGiven = Object.keys(own).some((name) => /^authorization$/i.test(name))
  const all = authorization === undefined || isGiven ? own : { ...own, authorization }
  const bearer = Object.entries(all).find(([name]) => /^authorization$/i.test(name))
  const token = /^Bearer (\S+)$/.exec(bearer?.[1] ?? '')?.[1]
  const others = Object.entries(all).filter(([name]) => token === undefined || name !== bearer?.[0])
  const rest = {
    ...(token !== undefined && { token }),
    ...(others.length > 0 && { headers: Object.fromEntries(others) }),
    ...(type === 'sse' && { transport: 'sse' }),
  }
  const converted = convertUrl(bare, context)
  return Object.keys(rest).length === 0 ? converted : { url: converted, ...rest }
}

function convertValues(
  values: unknown,
  convert: (name: string, value: string) => string,
): Readonly<Record<string, string>> | undefined {
  const entries = Object.entries(isObject(values) ? values : {}).filter(([, value]) => value !== null)
  if (entries.length === 0) return undefined
  return Object.fromEntries(entries.map(([name, value]) => [name, convert(name, textOf(value))]))
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

function workingFolder(cwd: unknown, isBound: boolean, context: SecretContext): string | undefined {
  if (typeof cwd !== 'string') return isBound ? context.workspace : undefined
  const converted = convertText(cwd, context)
  return converted.startsWith('$') ? converted : resolve(context.workspace, converted)
}

const lost: Readonly<Record<string, string>> = {
  envFile:
    'its `envFile` is not supported: list its variables under `env` as ${NAME}, and set them for the gateway',
  headersHelper: 'its `headersHelper` is not supported: write the headers with ${NAME}',
  oauth: 'its `oauth` settings were not imported: write `oauth` under this server, or set a token as ${NAME}',
  auth: 'its `auth` settings were not imported: write `oauth` under this server, or set a token as ${NAME}',
}

function noteLosses(entry: ClientServer['entry'], { note }: SecretContext): void {
  for (const [key, message] of Object.entries(lost)) if (entry[key] !== undefined) note(message)
}

function workspaceOf(file: string): string {
  const folder = dirname(resolve(file))
  return /^\.(cursor|vscode)$/.test(basename(folder)) ? dirname(folder) : folder
}

function originOf({ name, project }: ClientServer, chosen: string): string | undefined {
  const place = project === undefined ? '' : ` in ${JSON.stringify(project)}`
  return name === chosen && place === '' ? undefined : ` ${JSON.stringify(name)}${place}`
}

function isGateway(word: string): boolean {
  return /(^|[\\/])gatehouse(@[\w.-]+)?$|[\\/]gatehouse[\\/]dist[\\/]main\.js$/.test(word)
}

function isRelative(word: string): boolean {
  return /^\.{1,2}[\\/]/.test(word)
}

interface Dressing {
  readonly origins: ReadonlyMap<string, string>
  readonly schema: string
  readonly from: string
  readonly list: readonly (readonly [name: string, meaning: string])[]
}

function render(upstreams: ReadonlyMap<string, unknown>, { origins, schema, from, list }: Dressing): string {
  const document = new Document({ version: 1, upstreams: Object.fromEntries(upstreams) })
  const map = document.get('upstreams')
  for (const pair of isMap(map) ? map.items : []) {
    if (!isPair(pair) || !isScalar(pair.key)) continue
    const origin = origins.get(String(pair.key.value))
    if (origin !== undefined) pair.key.commentBefore = origin
  }
  const set = list.map(([name, meaning]) => `#   ${name}: ${meaning.replaceAll(/\s+/g, ' ')}`)
  const head = [
    `# yaml-language-server: $schema=${schema}`,
    `# Imported from ${from}. Run \`gatehouse check\` to test it.`,
    ...(set.length > 0 ? ['#', '# Set these variables before you start the gateway:', ...set] : []),
  ]
  return `${head.join('\n')}\n\n${document.toString({ lineWidth: 0 })}`
}

// Reads the files of MCP clients, with comments.

/** A server in the configuration of a client. */
interface ClientServer {
  readonly name: string
  readonly entry: Readonly<Record<string, unknown>>
  /** The project folder of the server, if the file has servers per project. */
  readonly project?: string
}

/** The MCP servers in the configuration file of a client. */
interface ClientFile {
  readonly servers: readonly ClientServer[]
  /** The inputs that VS Code prompts for: descriptions by id. */
  readonly inputs: ReadonlyMap<string, string>
}

/**
 * Reads the configuration of Claude Desktop, Claude Code, Cursor or VS Code, distinguished by their keys.
 * @throws ConfigError if it is not JSON or has no servers
 */
function readClientFile(text: string, file: string): ClientFile {
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
  if (servers.length === 0) throw unreadable(file, 'has no MCP servers under `mcpServers` or `servers`')
  return { servers, inputs: inputsIn(value.inputs ?? editor.inputs) }
}

function parsed(text: string, file: string): Readonly<Record<string, unknown>> {
  let value: unknown
  try {
    value = readJsonc(text)
  } catch (error) {
    throw unreadable(file, error instanceof SyntaxError ? error.message : 'cannot be read')
  }
  if (!isObject(value)) throw unreadable(file, 'is not the configuration of an MCP client')
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

/** Parses JSON with comments and trailing commas. @throws SyntaxError */
export function readJsonc(text: string): unknown {
  const bare = text
    .replace(/^\uFEFF/, '')
    .replaceAll(comments, (found) => (found.startsWith('"') ? found : ' '))
    .replaceAll(commas, (found) => (found.startsWith('"') ? found : ''))
  try {
    const value: unknown = parseJson(bare)
    return value
  } catch {
    // The message of the parser may quote a secret.
    throw new SyntaxError('is not valid JSON')
  }
}

/** Converts the configuration of an MCP client; secrets become variables. */
import { basename, dirname, resolve } from 'node:path'
import { Document, isMap, isPair, isScalar } from 'yaml'
import { isObject } from '../../core/json/json.ts'
import { ConfigError } from '../problem.ts'
import { readClientFile, type ClientServer } from './files.ts'
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
import { joinCommand } from '../command-line.ts'
import { upstreamName } from '../names.ts'

/** A configuration made from a client's, and what its owner should know. */
export interface Imported {
  readonly yaml: string
  readonly notes: readonly string[]
}

/** Where the text is from, and where editors find the schema of the result. */
export interface ImportOptions {
  readonly file: string
  readonly schema: string
}

/**
 * Makes a configuration file from the MCP servers of Claude Desktop, Claude Code, Cursor or VS Code. Secrets
 * are not copied: they become references to environment variables, listed in a comment.
 * @throws ConfigError when the text is not such a configuration
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
        message: ['it names no server to put behind the gateway', ...notes].join('; '),
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
    return context.note('is switched off there and was left out')
  noteLosses(entry, context)
  if (typeof url === 'string' && isOwnUrl(url)) return context.note('is this gateway itself and was left out')
  if (typeof url === 'string') return convertRemote(url, entry, context)
  if (typeof command !== 'string') return context.note('has neither a command nor a URL and was left out')
  const args = (Array.isArray(entry.args) ? entry.args : []).map(String)
  if ([command, ...args].some(isGateway)) return context.note('is this gateway itself and was left out')
  const words = [convertText(command, context), ...convertArguments(args, context)]
  const env = convertValues(entry.env, (name, value) => convertEnv(name, value, context))
  const cwd = workingFolder(entry.cwd, project !== undefined || words.some(isRelative), context)
  const line = joinCommand(words)
  if (env === undefined && cwd === undefined) return line
  return { command: line, ...(env && { env }), ...(cwd !== undefined && { cwd }) }
}

/** The address the gateway has unless told otherwise. */
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
    'its `envFile` is not read here: name its variables under `env` as ${NAME}, and set them for the gateway',
  headersHelper: 'its `headersHelper` is not available here: give the headers as ${NAME}',
  oauth:
    'its `oauth` settings were not taken over: write `oauth` under this server, or give a token as ${NAME}',
  auth: 'its `auth` settings were not taken over: write `oauth` under this server, or give a token as ${NAME}',
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
    `# Made from ${from}. \`gatehouse check\` tells whether it works.`,
    ...(set.length > 0 ? ['#', '# Set these variables before the start:', ...set] : []),
  ]
  return `${head.join('\n')}\n\n${document.toString({ lineWidth: 0 })}`
}

/** `gatehouse init`: writes a first configuration, or converts the files of MCP clients. */
import { existsSync, readdirSync, statSync } from 'node:fs'
import { dirname, isAbsolute, join, relative, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseEnv } from 'node:util'
import { addServers } from '../config/add-settings.ts'
import { readDocument } from '../config/document.ts'
import { type ClientConfig, readClientConfig } from '../config/import/clients.ts'
import type { ImportedServer, ImportFinding } from '../config/import/model.ts'
import { EXPECTED } from '../config/import/parse.ts'
import { toGatewayConfig, variableLine } from '../config/import/render.ts'
import { readText, variablesFile, variablesFor, whyUnreadable } from '../config/secrets.ts'
import { isObject } from '../core/json/json.ts'
import { CONFIG_FILE } from './config-file.ts'
import { type Given, UsageError } from './command.ts'
import type { commands } from './commands.ts'
import { type Io, pathOf, printError } from './io.ts'
import type { Output } from './output.ts'
import { planImported } from './plan.ts'
import { writePrivate } from './private-file.ts'

/** `gatehouse init`: writes a first configuration, from those of MCP clients if files of them are given. */
export async function init(options: Given<typeof commands.init>, io: Io): Promise<Output> {
  const target = pathOf(options.config ?? CONFIG_FILE, io)
  if (existsSync(target) && !options.force) {
    printError(`${target} exists. Overwrite it with --force.`, io)
    return 1
  }
  if (!existsSync(dirname(target))) throw new UsageError(`the folder ${dirname(target)} does not exist`)
  const files = options.from.map((file) => pathOf(file, io))
  const made = files.length === 0 ? starter(schemaFor(target)) : imported(files, target, io)
  if ('problem' in made) {
    printError(made.problem, io)
    return 1
  }
  if (made.variables !== undefined) writePrivate(variablesFile(target), made.variables)
  // A link that leads nowhere is not followed.
  writePrivate(target, made.yaml, { isNew: !options.force })
  const planned = options.skipPlan ? [] : await planImported(target, made.added, io)
  const notes = [...made.notes, ...planned]
  return {
    json: { wrote: target, notes },
    text: [`Wrote ${target}`, ...notes.map((note) => `  ${note}`)].join('\n'),
  }
}

/** What is written, and what is said about it. */
interface Made {
  readonly yaml: string
  /** The text of the file of variables, if it changes. */
  readonly variables?: string
  readonly notes: readonly string[]
  /** The names of the servers of clients in it that were not there before. */
  readonly added: readonly string[]
}

/** A configuration with the servers of clients. */
export interface ImportedConfig extends Made {
  /** The servers that it has, as their clients named them. */
  readonly taken: readonly ImportedServer[]
}

/** The schema for editors: the one installed with this program. */
function schemaFor(target: string): string {
  const file = fileURLToPath(new URL('../../gateway.schema.json', import.meta.url))
  const path = relative(dirname(target), file)
  return path.startsWith('..') || isAbsolute(path)
    ? pathToFileURL(file).href
    : `./${path.replaceAll(sep, '/')}`
}

function imported(files: readonly string[], target: string, io: Io): Made | { readonly problem: string } {
  const read = files.map((file) => readClientConfig(clientText(file), file, variablesIn))
  const made = importServers(read, { target }, io)
  if (made.taken.length > 0) return made
  return { problem: [`${files.join(', ')} has no server that can be imported`, ...made.notes].join('\n  ') }
}

/**
 * The servers of clients as a configuration, or added to the one in `text`.
 * @throws Error if they cannot be added without changing anything else
 */
export function importServers(
  read: readonly Pick<ClientConfig, 'servers' | 'findings'>[],
  { target, text }: { readonly target: string; readonly text?: string | undefined },
  io: Io,
): ImportedConfig {
  const environment = variablesFor(target, io.env)
  const before = text === undefined ? undefined : readDocument(text).value
  const existing = isObject(before) && isObject(before.upstreams) ? before.upstreams : {}
  const made = toGatewayConfig(
    read.flatMap((each) => each.servers),
    { file: target, schema: schemaFor(target), environment, existing },
  )
  const added = text === undefined ? { text: made.yaml } : addServers(text, made.yaml)
  if ('problem' in added) throw new Error(`${target} was not changed: ${added.problem}`)
  const lines = new Map([...made.env].map(([name, value]) => [name, variableLine(name, value)]))
  const written = [...lines.values()].filter((line) => line !== undefined)
  const unwritten = [...lines].flatMap(([name, line]) => (line === undefined ? [name] : []))
  const { unset } = made
  return {
    yaml: made.servers.length === 0 && text !== undefined ? text : added.text,
    taken: made.taken,
    added: made.servers,
    notes: [
      ...(written.length > 0
        ? [`Secrets belong in ${variablesFile(target)}: keep that file out of version control.`]
        : []),
      ...unwritten.map((name) => `Set the variable ${name} yourself: no line of .env can have its value.`),
      ...(unset.length > 0 ? [`Set these variables before you start the gateway: ${unset.join(', ')}`] : []),
      ...notesOf([...read.flatMap((each) => each.findings), ...made.findings], read.length > 1),
    ],
    ...(written.length > 0 && { variables: `${variablesBefore(target)}${written.join('\n')}\n` }),
  }
}

/** The file of variables as it is, with the end of its last line. */
function variablesBefore(target: string): string {
  const file = variablesFile(target)
  const text = existsSync(file) ? readText(file) : ''
  return text === '' || text.endsWith('\n') ? text : `${text}\n`
}

/** The maximum size of the file of a client, in bytes: some have conversations in it. */
const MAX_CLIENT_BYTES = 64 * 1_048_576

/** The text of the file of a client. @throws UsageError */
export function clientText(file: string): string {
  if (!existsSync(file)) throw new UsageError(`${file} does not exist: ${EXPECTED}`)
  if (statSync(file).isDirectory()) {
    const names = readdirSync(file).filter((name) =>
      /^\.?(?:mcp|claude_desktop_config)[\w-]*\.json$/.test(name),
    )
    const meant = names[0] === undefined ? EXPECTED : `name the file, such as ${join(file, names[0])}`
    throw new UsageError(`${file} is a folder: ${meant}`)
  }
  try {
    const text = readText(file, MAX_CLIENT_BYTES)
    // What is no text would be lost where the file is written again.
    if (text.includes('\uFFFD') && Buffer.byteLength(text) !== statSync(file).size)
      throw new Error('it is not text in UTF-8')
    return text
  } catch (error) {
    throw new UsageError(`${file} cannot be read: ${whyUnreadable(error)}`)
  }
}

/** The variables of an environment file that the file of a client names. */
export function variablesIn(path: string): ReadonlyMap<string, string> | undefined {
  try {
    return new Map(Object.entries(parseEnv(readText(path))).map(([name, value]) => [name, value ?? '']))
  } catch {
    // It may be on another machine; the note says what to do.
    return undefined
  }
}

function notesOf(findings: readonly ImportFinding[], isOfSeveral: boolean): readonly string[] {
  const notes = findings.map(({ file, server, message }) => {
    const about = server === undefined ? message : `${JSON.stringify(server)}: ${message}`
    return isOfSeveral ? `${file}: ${about}` : about
  })
  return [...new Set(notes)]
}

function starter(schema: string): Made {
  const yaml = `# yaml-language-server: $schema=${schema}
# Gatehouse: the MCP servers behind the gateway.

upstreams:
  # A command line starts a server as a child process; a URL connects to one over HTTP.
  files: npx -y @modelcontextprotocol/server-filesystem .
  # github: { url: https://api.githubcopilot.com/mcp/, token: "\${GITHUB_TOKEN}" }
`
  return { yaml, added: [], notes: ['Check it with gatehouse check, then run gatehouse.'] }
}

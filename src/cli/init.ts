/** `gatehouse init`: writes a first configuration, or converts the file of an MCP client. */
import { existsSync } from 'node:fs'
import { dirname, isAbsolute, relative, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { importClients } from '../config/import/clients.ts'
import { readText } from '../config/secrets.ts'
import { CONFIG_FILE } from './config-file.ts'
import { type Io, pathOf, printError, write } from './io.ts'
import { writePrivate } from './private-file.ts'
import { readOptions, UsageError } from './words.ts'

/** `gatehouse init`: writes a first configuration, from that of an MCP client if one is given. */
export async function init(args: readonly string[], io: Io): Promise<number> {
  const options = readOptions(args, ['from', 'config', 'force'])
  if (options.words.length > 0)
    throw new UsageError('init takes no arguments; import a file with --from FILE')
  const target = pathOf(options.config ?? CONFIG_FILE, io)
  if (existsSync(target) && !options.force) {
    printError(`${target} exists. Overwrite it with --force.`, io)
    return 1
  }
  if (!existsSync(dirname(target))) throw new UsageError(`the folder ${dirname(target)} does not exist`)
  const { yaml, notes } =
    options.from === undefined
      ? starter(schemaFor(target))
      : imported(pathOf(options.from, io), schemaFor(target))
  // A link that leads nowhere is not followed.
  writePrivate(target, yaml, { isNew: options.force !== true })
  write(`Wrote ${target}\n${notes.map((note) => `  ${note}\n`).join('')}`, io)
  return 0
}

/** The schema for editors: the one installed with this program. */
function schemaFor(target: string): string {
  const file = fileURLToPath(new URL('../../gateway.schema.json', import.meta.url))
  const path = relative(dirname(target), file)
  return path.startsWith('..') || isAbsolute(path)
    ? pathToFileURL(file).href
    : `./${path.replaceAll(sep, '/')}`
}

function imported(file: string, schema: string): { yaml: string; notes: readonly string[] } {
  if (!existsSync(file)) throw new UsageError(`${file} does not exist`)
  return importClients(readText(file), { file, schema })
}

function starter(schema: string): { yaml: string; notes: readonly string[] } {
  const yaml = `# yaml-language-server: $schema=${schema}
# Gatehouse: the MCP servers behind the gateway.

upstreams:
  # A command line starts a server as a child process; a URL connects to one over HTTP.
  files: npx -y @modelcontextprotocol/server-filesystem .
  # github: { url: https://api.githubcopilot.com/mcp/, token: "\${GITHUB_TOKEN}" }
`
  return { yaml, notes: ['Check it with gatehouse check, then run gatehouse.'] }
}

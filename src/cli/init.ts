/** `gatehouse init`: writes a first configuration, or converts the file of an MCP client. */
import { existsSync, writeFileSync } from 'node:fs'
import { dirname, isAbsolute, relative, resolve, sep } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { importClients } from '../config/import/clients.ts'
import { readText } from '../config/secrets.ts'
import { readOptions, UsageError } from './options.ts'

const FILE = 'gateway.config.yaml'

/** `gatehouse init`: writes a first configuration, from that of an MCP client if one is named. */
export async function init(args: readonly string[]): Promise<number> {
  const options = readOptions(args, ['from', 'config', 'force'])
  if (options.words.length > 0) throw new UsageError('init takes no words; import a file with --from FILE')
  const target = resolve(options.config ?? FILE)
  if (existsSync(target) && !options.force) {
    process.stderr.write(`gatehouse: ${target} exists. Write over it with --force.\n`)
    return 1
  }
  if (!existsSync(dirname(target))) throw new UsageError(`there is no folder ${dirname(target)}`)
  const { yaml, notes } =
    options.from === undefined ? starter(schemaFor(target)) : imported(options.from, schemaFor(target))
  writeFileSync(target, yaml)
  process.stdout.write(`Wrote ${target}\n${notes.map((note) => `  ${note}\n`).join('')}`)
  return 0
}

/** Where editors find the schema of the new file: that of this very program. */
function schemaFor(target: string): string {
  const file = fileURLToPath(new URL('../../gateway.schema.json', import.meta.url))
  const path = relative(dirname(target), file)
  return path.startsWith('..') || isAbsolute(path)
    ? pathToFileURL(file).href
    : `./${path.replaceAll(sep, '/')}`
}

function imported(from: string, schema: string): { yaml: string; notes: readonly string[] } {
  const file = resolve(from)
  if (!existsSync(file)) throw new UsageError(`there is no ${file}`)
  return importClients(readText(file), { file, schema })
}

function starter(schema: string): { yaml: string; notes: readonly string[] } {
  const yaml = `# yaml-language-server: $schema=${schema}
# Gatehouse: which MCP servers stand behind the gateway, and how.

upstreams:
  # A command line starts a server as a child process; a URL reaches one over HTTP.
  files: npx -y @modelcontextprotocol/server-filesystem .
  # github: { url: https://api.githubcopilot.com/mcp/, token: "\${GITHUB_TOKEN}" }
`
  return { yaml, notes: ['Check it with gatehouse check, then run gatehouse.'] }
}

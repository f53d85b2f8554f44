import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { foreignFile } from '../foreign.ts'
import type { Way } from './client.ts'

/** How the MCP Inspector asks. */
export interface Inspection {
  readonly era: 'legacy' | 'modern' | 'auto'
  readonly method: string
  /** More command line options. */
  readonly options?: readonly string[]
}

/** What the MCP Inspector printed, and how it ended. */
export interface Inspected {
  readonly code: number | null
  readonly result: unknown
  readonly stderr: string
}

/** Runs the MCP Inspector's command line against the gateway. */
export async function inspect(way: Way, { era, method, options = [] }: Inspection): Promise<Inspected> {
  const home = await mkdtemp(join(tmpdir(), 'inspector-'))
  try {
    const target = await targetOf(way, home)
    const args = [
      cli,
      ...target,
      '--protocol-era',
      era,
      '--method',
      method,
      ...options,
      '--format',
      'json',
      '-q',
    ]
    const child = spawn(process.execPath, args, {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: { ...process.env, HOME: home },
    })
    let stdout = ''
    let stderr = ''
    child.stdout.setEncoding('utf8').on('data', (chunk: string) => (stdout += chunk))
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => (stderr += chunk))
    await once(child, 'close')
    return { code: child.exitCode, result: resultIn(stdout), stderr }
  } finally {
    await rm(home, { recursive: true, force: true, maxRetries: 5 })
  }
}

const cli = foreignFile('@modelcontextprotocol/inspector/clients/cli/build/index.js')

/** Like the hosts it stands for, it takes the command of a server from a file. */
async function targetOf(way: Way, home: string): Promise<string[]> {
  if (way.transport !== 'stdio') return [way.url, '--transport', way.transport]
  const [command = '', ...args] = way.command
  const file = join(home, 'mcp.json')
  await writeFile(file, JSON.stringify({ mcpServers: { gatehouse: { command, args } } }))
  return ['--config', file, '--server', 'gatehouse']
}

function resultIn(stdout: string): unknown {
  const printed: unknown = stdout.trim() === '' ? undefined : JSON.parse(stdout)
  return typeof printed === 'object' && printed !== null && 'result' in printed ? printed.result : printed
}

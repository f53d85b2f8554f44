import { spawn } from 'node:child_process'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { end } from '../child-process.ts'

/** The command that runs a server published on npm, by the name of its package. */
export function publishedServer(name: string, ...args: string[]): string[] {
  return [process.execPath, join(packages, name, 'dist/index.js'), ...args]
}

/** A published server that listens on a loopback port. */
export interface ListeningServer {
  readonly url: string
  readonly close: () => Promise<void>
}

/** Starts server-everything over Streamable HTTP or over HTTP+SSE, on a free port unless one is given. */
export async function startEverything(transport: 'streamableHttp' | 'sse', at = 0): Promise<ListeningServer> {
  const [command = '', ...args] = publishedServer(everything, transport)
  const child = spawn(command, ['--import', onLoopback, ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, PORT: String(at) },
  })
  const port = await new Promise<string>((resolve, reject) => {
    let words = ''
    child.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      words = (words + chunk).slice(-65_536)
      const listening = /listening on port ([1-9]\d*)/.exec(words)
      if (listening?.[1]) resolve(listening[1])
    })
    child.once('error', reject)
    child.once('exit', () => reject(new Error(`server-everything ended:\n${words}`)))
  })
  const url = `http://127.0.0.1:${port}/${transport === 'sse' ? 'sse' : 'mcp'}`
  return { url, close: () => end(child) }
}

/** The package of the server that shows every feature of the protocol. */
export const everything = '@modelcontextprotocol/server-everything'

const onLoopback = fileURLToPath(new URL('../../fixtures/on-loopback.ts', import.meta.url))
const packages = fileURLToPath(new URL('../../../node_modules', import.meta.url))

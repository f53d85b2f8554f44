/**
 * One journey of a client written in another language: it lists, calls each of the five tools of a peer server, and
 * prints what it received. The tested invariant: it receives the same through the gateway as directly.
 */
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { promisify } from 'node:util'
import { until } from '../support/condition.ts'
import { end, freePort } from '../support/child-process.ts'
import type { Peer } from './toolchains.ts'

/** What a client received: names, schemas, results by tool, progress numbers, and questions. */
export interface Seen {
  readonly tools: readonly string[]
  readonly schemas: Readonly<Record<string, unknown>>
  readonly results: Readonly<Record<string, unknown>>
  readonly progress: readonly number[]
  readonly questions: readonly string[]
  /** How the high-level API of a client represents a text; only fastmcp has one. */
  readonly data?: string
}

/** A peer server that listens on loopback. */
export interface PeerServer {
  readonly url: string
  readonly close: () => Promise<void>
}

const run = promisify(execFile)
const JOURNEY_TIMEOUT_MS = 120_000
const START_TIMEOUT_MS = 60_000

/** Runs a client against a URL or a command. `environment` sets the era it prefers. */
export async function journey(
  client: Peer['client'],
  target: readonly string[],
  environment: Readonly<Record<string, string>>,
): Promise<Seen> {
  const [program = '', ...args] = client
  const { stdout } = await run(program, [...args, ...target], {
    env: { ...process.env, ...environment },
    timeout: JOURNEY_TIMEOUT_MS,
  })
  const { revision: _revision, ...seen }: Seen & { revision?: string } = JSON.parse(stdout)
  return seen
}

/** Starts a peer server over Streamable HTTP and resolves once it answers. */
export async function serveOverHttp(server: Peer['server']): Promise<PeerServer> {
  const port = await freePort()
  const [program, ...args] = [...server, 'http', String(port)]
  const child = spawn(program, args, { stdio: 'ignore' })
  const exited = once(child, 'exit')
  const url = `http://127.0.0.1:${port}/mcp`
  const answers = until(() => isAnswering(url), `${program} to listen`, START_TIMEOUT_MS)
  const isUp = await Promise.race([answers, exited.then(() => false)])
  if (isUp !== true) throw new Error(`${[program, ...args].join(' ')} ended before it listened`)
  return { url, close: () => end(child) }
}

async function isAnswering(url: string): Promise<boolean> {
  const response = await fetch(url, { method: 'OPTIONS' })
  await response.body?.cancel()
  return true
}

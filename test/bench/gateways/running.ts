import { mkdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { setTimeout as pause } from 'node:timers/promises'
import { freePort, launchScript, type Serving } from '../launch.ts'
import { callTool, NoResult, openSession, type Address } from './client.ts'
import type { Command, Gateway, Server, Setup } from './gateway.ts'
import { ProcessTree } from './processes.ts'

/** How long a gateway may take until it answers a call; those that import much take some ten seconds. */
const START_LIMIT_MS = 90_000
const TRY_LIMIT_MS = 5000
const RETRY_MS = 5

/** A gateway with a folder of its own in front of a server, which can be killed and started again. */
export class RunningGateway {
  readonly gateway: Gateway
  readonly #setup: Setup
  #command: Command | undefined
  #processes: ProcessTree | undefined

  constructor(gateway: Gateway, setup: Setup) {
    this.gateway = gateway
    this.#setup = setup
  }

  get processes(): ProcessTree {
    if (this.#processes === undefined) throw new Error(`${this.gateway.name} was not started`)
    return this.#processes
  }

  /** Where it serves. Some have another port after each start, which they print. */
  address(): Address | undefined {
    if (this.#command === undefined) return undefined
    const { path, token, printsPort } = this.#command
    const port = printsPort ? this.processes.output().split('\n').findLast(isPort) : this.#setup.port
    if (port === undefined) return undefined
    return { url: `http://127.0.0.1:${port}${path}`, ...(token !== undefined && { token }) }
  }

  /** Starts it. The value is the milliseconds until the first answer to a call of a tool. @throws Error with its output */
  async start(tool: string, params: object = {}): Promise<number> {
    const started = performance.now()
    this.#command = this.gateway.command(this.#setup)
    this.#processes = new ProcessTree(this.#command, this.#setup.folder)
    for (;;) {
      const problem = await this.#try(tool, params)
      const took = performance.now() - started
      if (problem === undefined) return took
      if (!this.#processes.hasExited && took < START_LIMIT_MS) {
        await pause(RETRY_MS)
        continue
      }
      await this.#processes.kill()
      throw new Error(`${this.gateway.name} did not answer: ${problem.message}\n${this.#processes.output()}`)
    }
  }

  async kill(): Promise<void> {
    await this.#processes?.kill()
  }

  async stop(): Promise<void> {
    await this.#processes?.stop()
  }

  async #try(tool: string, params: object): Promise<Error | undefined> {
    try {
      const address = this.address()
      if (address === undefined) return new NoResult('it has printed no port')
      const session = await openSession(address, TRY_LIMIT_MS)
      await callTool(session, { name: session.toolName(tool), arguments: params }, TRY_LIMIT_MS)
      return undefined
    } catch (error) {
      if (error instanceof NoResult) return error
      throw error
    }
  }
}

/** A new installation of a gateway in front of a server, which is started for the first time if it has to be prepared. */
export async function setUp(
  gateway: Gateway,
  folder: string,
  upstream: Server,
  tool: string,
): Promise<RunningGateway> {
  mkdirSync(folder, { recursive: true })
  const setup = { folder, port: await freePort(), upstream }
  const running = new RunningGateway(gateway, setup)
  if (!gateway.prepare) return running
  const processes = new ProcessTree(gateway.command(setup), folder)
  try {
    await gateway.prepare(setup, () => processes.hasExited)
  } catch (error) {
    throw new Error(`${String(error)}\n${processes.output()}`, { cause: error })
  } finally {
    await processes.stop()
  }
  await running.start(tool)
  await running.stop()
  return running
}

/** A script that is a server over HTTP or over stdio, for gateways of that transport. */
export async function startServer(
  script: string,
  args: readonly string[],
  transport: Gateway['transport'],
): Promise<{ readonly upstream: Server; readonly serving?: Serving }> {
  if (transport === 'http') {
    const serving = await launchScript(script, args)
    return { upstream: { url: serving.url }, serving }
  }
  const file = fileURLToPath(new URL(`../${script}`, import.meta.url))
  return { upstream: { command: [process.execPath, file, ...args, '--stdio'] } }
}

function isPort(line: string): boolean {
  return /^\d+$/.test(line)
}

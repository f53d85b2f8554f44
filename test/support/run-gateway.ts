import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { setTimeout as pause } from 'node:timers/promises'
import { gatewayProgram } from './gateway-process.ts'

/** A gateway process under test: where its MCP endpoint is, and how to end it. */
export interface RunningGateway {
  readonly url: string
  /** What the process wrote to stderr so far, at most the last 64 KiB. */
  readonly log: () => string
  readonly pid: number
  readonly close: () => Promise<void>
}

interface GatewayOptions {
  readonly env?: NodeJS.ProcessEnv
  /** How long the gateway may take to become ready, in milliseconds. */
  readonly timeout?: number
}

/** Starts `gatehouse serve --port <free port>` with more arguments and resolves once it is ready. */
export async function startGateway(
  args: readonly string[],
  { env = {}, timeout = 15_000 }: GatewayOptions = {},
): Promise<RunningGateway> {
  const [executable = process.execPath, ...first] = gatewayProgram()
  const port = await freePort()
  const child = spawn(executable, [...first, 'serve', '--port', String(port), ...args], {
    stdio: ['ignore', 'ignore', 'pipe'],
    env: { ...process.env, ...env },
  })
  const log = lastWords(child)
  const gateway = { url: `http://127.0.0.1:${port}/mcp`, log, pid: child.pid ?? 0, close: () => end(child) }
  try {
    await ready(`http://127.0.0.1:${port}/ready`, child, timeout)
    return gateway
  } catch (cause) {
    await gateway.close()
    throw new Error(`The gateway did not start:\n${log()}`, { cause })
  }
}

/** Ends a child process, by force after two seconds. */
export async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  const force = setTimeout(() => child.kill('SIGKILL'), 2000)
  child.kill('SIGTERM')
  await exit
  clearTimeout(force)
}

/** A TCP port of the loopback interface that nobody listens on. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const address = server.address()
  server.close()
  await once(server, 'close')
  if (typeof address === 'object' && address) return address.port
  throw new Error('No free port')
}

function lastWords(child: ChildProcess): () => string {
  let words = ''
  child.stderr?.setEncoding('utf8').on('data', (chunk: string) => {
    words = (words + chunk).slice(-65_536)
  })
  return () => words
}

async function ready(url: string, child: ChildProcess, timeout: number): Promise<void> {
  let failure: Error | undefined
  child.once('error', (error) => (failure = error))
  const deadline = Date.now() + timeout
  while (Date.now() < deadline) {
    if (failure) throw failure
    if (child.exitCode !== null || child.signalCode !== null) throw new Error('It exited')
    const response = await fetch(url).catch(() => undefined)
    await response?.body?.cancel()
    if (response?.status === 200) return
    await pause(25)
  }
  throw new Error(`It was not ready within ${timeout} ms`)
}

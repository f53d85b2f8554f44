import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { createInterface } from 'node:readline'
import { request } from 'undici'

/** A process of the benchmark and how to end it. */
export interface Running {
  readonly pid: number
  stop(): Promise<void>
  /** Ends it by force. */
  kill(): Promise<void>
}

/** A running process that serves MCP at an address. */
export interface Serving extends Running {
  readonly url: string
}

const START_LIMIT_MS = 15_000
/** How much of what a command wrote is in the message of its failure. */
const MAX_OUTPUT_CHARACTERS = 4000

/** The processes that have not ended; those of commands lead a group. */
const present = new Map<ChildProcess, 'process' | 'group'>()

/** Ends all processes by force, at once. */
export function killAll(): void {
  for (const [{ pid }, kind] of present) {
    if (pid === undefined) continue
    try {
      process.kill(kind === 'group' ? -pid : pid, 'SIGKILL')
    } catch {
      // It ended by itself.
    }
  }
}

/** Runs a command to its end. Resolves with what it wrote to stdout. @throws what it wrote, if it fails */
export async function runCommand(command: readonly string[], cwd: string): Promise<string> {
  const [file = '', ...args] = command
  const child = spawn(file, args, { cwd, detached: true, stdio: ['ignore', 'pipe', 'pipe'] })
  present.set(child, 'group')
  let stdout = ''
  let output = ''
  const keepEnd = (chunk: Buffer) => (output = (output + chunk.toString()).slice(-MAX_OUTPUT_CHARACTERS))
  child.stdout.on('data', (chunk: Buffer) => (stdout += chunk.toString())).on('data', keepEnd)
  child.stderr.on('data', keepEnd)
  try {
    const [code] = (await once(child, 'close')) as [number | null]
    if (code !== 0) throw new Error(`${command.join(' ')} failed\n${output}`)
    return stdout
  } finally {
    present.delete(child)
  }
}

/** Starts a script of this folder that prints the port it listens on as its first line. */
export async function launchScript(name: string, args: readonly string[] = []): Promise<Serving> {
  const file = new URL(name, import.meta.url).pathname
  const child = spawn(process.execPath, [file, ...args], { stdio: ['ignore', 'pipe', 'inherit'] })
  const running = follow(child)
  for await (const line of createInterface(child.stdout)) {
    return { ...running, url: `http://127.0.0.1:${Number(line)}/mcp` }
  }
  throw new Error(`${name} ended before it listened`)
}

/** Starts a command and waits until a GET of the address answers 200; a failure shows what it wrote. */
export function launchCommand(
  command: readonly string[],
  readyUrl: string,
  env: Readonly<Record<string, string>> = {},
): Promise<Running> {
  return launch(command, () => answers(readyUrl), env)
}

/** Starts a command and waits until it is ready; a failure shows what it wrote. */
export async function launch(
  command: readonly string[],
  isReady: () => Promise<boolean>,
  env: Readonly<Record<string, string>> = {},
): Promise<Running> {
  const [file = '', ...args] = command
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...env } })
  const running = follow(child)
  let output = ''
  const keepEnd = (chunk: Buffer) => (output = (output + chunk.toString()).slice(-MAX_OUTPUT_CHARACTERS))
  child.stdout.on('data', keepEnd)
  child.stderr.on('data', keepEnd)
  const limit = performance.now() + START_LIMIT_MS
  while (!(await isReady())) {
    await new Promise((resolve) => setTimeout(resolve, 4))
    if (child.exitCode === null && performance.now() < limit) continue
    await running.stop()
    throw new Error(`${command.join(' ')} does not start\n${output}`)
  }
  return running
}

/** A TCP port of the loopback interface that nobody listens on. */
export async function freePort(): Promise<number> {
  const probe = createServer().listen(0, '127.0.0.1')
  await once(probe, 'listening')
  const { port } = probe.address() as AddressInfo
  probe.close()
  await once(probe, 'close')
  return port
}

async function answers(url: string): Promise<boolean> {
  try {
    const { statusCode, body } = await request(url, { reset: true })
    await body.dump()
    if (statusCode === 200) return true
  } catch {
    // Nobody listens yet: the caller asks again until its limit.
  }
  return false
}

function follow(child: ChildProcess): Running {
  const { pid } = child
  if (pid === undefined) throw new Error('the process did not start')
  present.set(child, 'process')
  const exited = once(child, 'exit').finally(() => present.delete(child))
  return {
    pid,
    async stop() {
      if (child.exitCode !== null || child.signalCode !== null) return
      const kill = setTimeout(() => child.kill('SIGKILL'), 5000)
      child.kill('SIGTERM')
      await exited
      clearTimeout(kill)
    },
    async kill() {
      if (child.kill('SIGKILL')) await exited
    },
  }
}

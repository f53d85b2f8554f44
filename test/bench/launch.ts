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
export async function launchCommand(command: readonly string[], readyUrl: string): Promise<Running> {
  const [file = '', ...args] = command
  const child = spawn(file, args, { stdio: ['ignore', 'pipe', 'pipe'] })
  const running = follow(child)
  let output = ''
  const keepEnd = (chunk: Buffer) => (output = (output + chunk.toString()).slice(-4000))
  child.stdout.on('data', keepEnd)
  child.stderr.on('data', keepEnd)
  const limit = performance.now() + START_LIMIT_MS
  while (!(await answers(readyUrl))) {
    if (child.exitCode === null && performance.now() < limit) continue
    await running.stop()
    throw new Error(`${command.join(' ')}: ${readyUrl} never answered 200\n${output}`)
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
  await new Promise((resolve) => setTimeout(resolve, 4))
  return false
}

function follow(child: ChildProcess): Running {
  const { pid } = child
  if (pid === undefined) throw new Error('the process did not start')
  const exited = once(child, 'exit')
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

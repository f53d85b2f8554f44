import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { until } from './condition.ts'
import { atExit, freePort } from './child-process.ts'
import { needs } from './needs.ts'

/** REDIS_SERVER names another one, such as valkey-server. */
export const PROGRAM = process.env['REDIS_SERVER'] ?? '/usr/bin/redis-server'

/** A Redis server under test; it can be killed and started again on its port. */
export interface RedisServer {
  readonly url: string
  start(): Promise<void>
  stop(): Promise<void>
  /** Keeps its connections and answers nothing, until it goes on. */
  freeze(): void
  thaw(): void
  /** Gives it a command, which it has to take, such as `CONFIG SET maxmemory 1`. */
  tell(command: string): Promise<void>
}

/** A Redis server, which is a sentinel too. */
export const REDIS = { program: PROGRAM, get: 'apt-get install redis-server' }

/** The options of tests that need a Redis server. */
export const needsRedis = needs(REDIS)

/** Whether there is a Redis server to test with. */
export function hasRedis(): boolean {
  return !needsRedis.skip
}

/** Starts a Redis server. It keeps everything in a file when it is killed, unless it `isForgetful`. */
export async function startRedis({ isForgetful = false, databases = 16 } = {}): Promise<RedisServer> {
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  let child: ChildProcess | undefined
  atExit(() => {
    child?.kill('SIGKILL')
    rmSync(folder, { recursive: true, force: true })
  })
  const start = async (): Promise<void> => {
    const place = ['--port', String(port), '--bind', '127.0.0.1', '--dir', folder]
    // What it wrote outlives its process. With its default it may hold writes back while the disk is busy.
    const file = isForgetful ? ['no'] : ['yes', '--appendfsync', 'no']
    const settings = [...place, '--databases', String(databases), '--save', '', '--appendonly', ...file]
    child = spawn(PROGRAM, settings, { stdio: 'ignore' })
    await until(() => answers(port), 'Redis to answer')
  }
  const stop = async (): Promise<void> => {
    if (!child || child.exitCode !== null || child.signalCode !== null) return
    const exit = once(child, 'exit')
    child.kill('SIGKILL')
    await exit
  }
  await start()
  return {
    url: `redis://127.0.0.1:${port}`,
    start,
    stop,
    freeze: () => void child?.kill('SIGSTOP'),
    thaw: () => void child?.kill('SIGCONT'),
    tell: async (command) => {
      const reply = await redisReply(port, command)
      if (!reply?.startsWith('+OK')) throw new Error(`Redis answered ${command} with ${reply}`)
    },
  }
}

async function answers(port: number): Promise<boolean> {
  return (await redisReply(port, 'PING'))?.startsWith('+PONG') === true
}

/** How long a command may take, in milliseconds: a process that is stopped takes connections, and answers nothing. */
const REPLY_TIMEOUT_MS = 5000

/** What it answers to a command; nothing where it is not there, or is stopped. */
export function redisReply(port: number, command: string): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1', () => socket.write(`${command}\r\n`))
    const end = (reply?: string): void => {
      socket.destroy()
      resolve(reply)
    }
    socket.setTimeout(REPLY_TIMEOUT_MS, () => end())
    socket.once('data', (data) => end(data.toString()))
    socket.once('error', () => end())
    socket.once('close', () => end())
  })
}

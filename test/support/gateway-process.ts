import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Writable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { ambientCanary, checkAmbient } from './canary.ts'
import { atExit } from './child-process.ts'
import { until } from './condition.ts'
import { isObject, type Json } from './server/json.ts'
import type { Way } from './peers/client.ts'

/** How a command ended and what it wrote. */
export interface Finished {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  readonly stdout: string
  readonly stderr: string
}

/** A running command of the gateway: its output so far, and its end. */
export interface Command {
  readonly stdin: Writable
  stdout(): string
  stderr(): string
  /** Asks it to end, as a supervisor does. */
  stop(): void
  readonly ended: Promise<Finished>
  /** Ends it where it runs. @throws if its output has a secret of its environment */
  close(): Promise<void>
}

/** A command in a process of its own. Closing it ends it by force. */
export interface CommandProcess extends Command {
  readonly pid: number
  signal(name: NodeJS.Signals): void
}

/** How a command is started. */
export interface CommandOptions {
  readonly cwd?: string
  readonly env?: NodeJS.ProcessEnv
  /** The program and its first arguments, where not the built gateway. */
  readonly program?: readonly string[]
}

/** Where the gateways of a test file keep the state of their user: apart from that of other files, and of people. */
const state = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
atExit(() => rmSync(state, { recursive: true, force: true }))

/** The environment of a command: it has a secret that the command may not tell. */
export function environmentWith(env: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  return { ...process.env, XDG_STATE_HOME: state, ...ambientCanary(), ...env }
}

/** Starts the built gateway with these arguments in a process of its own. */
export function startCommandProcess(args: readonly string[], options: CommandOptions = {}): CommandProcess {
  const [program = process.execPath, ...first] = options.program ?? gatewayProgram()
  const child = spawn(program, [...first, ...args], {
    stdio: 'pipe',
    env: environmentWith(options.env),
    ...(options.cwd !== undefined && { cwd: options.cwd }),
  })
  const output = { stdout: '', stderr: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => void (output.stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => void (output.stderr += text))
  child.stdin.on('error', () => undefined)
  const ended = once(child, 'close').then(() => ({
    code: child.exitCode,
    signal: child.signalCode,
    ...output,
  }))
  return {
    pid: child.pid ?? 0,
    stdin: child.stdin,
    stdout: () => output.stdout,
    stderr: () => output.stderr,
    stop: () => void child.kill('SIGTERM'),
    signal: (name) => void child.kill(name),
    ended,
    close: async () => {
      child.kill('SIGKILL')
      await ended
      checkAmbient(output)
    },
  }
}

/** Runs a command of the gateway to its end, in a process of its own. */
export function runCommandProcess(args: readonly string[], options: CommandOptions = {}): Promise<Finished> {
  return finished(startCommandProcess(args, options))
}

/** The end of a command that reads nothing. */
export async function finished(command: Command): Promise<Finished> {
  command.stdin.end()
  const result = await command.ended
  await command.close()
  return result
}

/** The program that runs the built gateway: GATEHOUSE_COMMAND, a JSON array, if it is set. */
export function gatewayProgram(): readonly string[] {
  const given = process.env['GATEHOUSE_COMMAND']
  const parsed: unknown = given === undefined ? undefined : JSON.parse(given)
  if (Array.isArray(parsed) && parsed.every((part) => typeof part === 'string')) return parsed
  return [process.execPath, fileURLToPath(new URL('../../dist/main.js', import.meta.url))]
}

/** A command of the gateway as a server on stdio. */
export function commandOnStdio(...args: string[]): Way {
  return { transport: 'stdio', command: [...gatewayProgram(), ...args] }
}

/** The URL at which a command says that it serves. */
export async function servedAt({ stdout }: Command): Promise<string> {
  await until(() => stdout().includes('/mcp\n'), 'its address')
  return /http:\S+/.exec(stdout())?.[0] ?? ''
}

/** A gateway that serves over HTTP, with its configuration file and its log. */
export interface RunningGateway extends Command {
  /** The endpoint of all servers together. */
  readonly url: string
  /** The address without a path. */
  readonly origin: string
  readonly configFile: string
  /** Writes another configuration. */
  configure(config: Json | string): void
  /** The log so far, line by line. */
  log(): readonly Json[]
  /** Waits for a line of the log. */
  logged(predicate: (line: Json) => boolean, timeoutMs?: number): Promise<Json>
}

/** A gateway in a process of its own. */
export type GatewayProcess = RunningGateway & CommandProcess

/** How a gateway is started. */
export interface GatewayOptions {
  /** Further arguments of `gatehouse serve`. */
  readonly args?: readonly string[]
  readonly env?: NodeJS.ProcessEnv
  /** The port that it listens on, where its public URL does not name it. Default: a free one. */
  readonly port?: number
  /** False: resolves when it listens, before it has tried its servers. */
  readonly warm?: boolean
  /** A configuration file that is there, in place of one of its own with the given configuration. */
  readonly configFile?: string
}

/** Starts a gateway in a process of its own, and waits until it is ready. */
export function startGatewayProcess(config: Json, options: GatewayOptions = {}): Promise<GatewayProcess> {
  return serving(config, options, startCommandProcess)
}

/** Starts a gateway on a free port with a configuration of its own, and waits until it is ready. */
export async function serving<C extends Command>(
  config: Json,
  options: GatewayOptions,
  start: (args: readonly string[], options: CommandOptions) => C,
): Promise<C & RunningGateway> {
  const folder = mkdtempSync(join(tmpdir(), 'gatehouse-test-'))
  const { configFile = join(folder, 'gateway.config.yaml') } = options
  const configure = (next: Json | string): void => {
    writeFileSync(configFile, typeof next === 'string' ? next : JSON.stringify(next, null, 2))
  }
  if (options.configFile === undefined) configure(config)
  const { args = [], port } = options
  const command = start(['serve', '--config', configFile, '--port', `${port ?? 0}`, ...args], options)
  const remove = (): void => rmSync(folder, { recursive: true, force: true })
  try {
    const printed = await listening(command)
    const url = port === undefined ? printed : `http://127.0.0.1:${port}/mcp`
    const gateway: C & RunningGateway = {
      ...command,
      url,
      origin: new URL(url).origin,
      configFile,
      configure,
      log: () => linesOf(command.stderr()),
      logged: (predicate, timeoutMs) =>
        until(() => linesOf(command.stderr()).find(predicate), 'a line of the log', timeoutMs),
      close: () => command.close().finally(remove),
    }
    if (options.warm !== false) await until(() => isReady(gateway.origin), 'the gateway to be ready')
    return gateway
  } catch (cause) {
    await command.close().finally(remove)
    throw new Error(`The gateway did not start:\n${command.stderr()}`, { cause })
  }
}

async function listening(command: Command): Promise<string> {
  const found = until(() => /^Gatehouse serves (\S+)$/m.exec(command.stdout())?.[1], 'the address')
  const ended = command.ended.then(({ stderr }) => {
    throw new Error(`It ended: ${stderr}`)
  })
  const url = new URL(await Promise.race([found, ended]))
  return `${url.origin}/mcp`
}

async function isReady(origin: string): Promise<boolean> {
  const response = await fetch(`${origin}/ready`)
  await response.body?.cancel()
  return response.status === 200
}

function linesOf(text: string): Json[] {
  const whole = text.split('\n').filter((line) => line.startsWith('{') && line.endsWith('}'))
  return whole.map((line): unknown => JSON.parse(line)).filter(isObject)
}

/** Child processes: their start, an orderly shutdown, and the last lines of their stderr. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { GatewayError } from '../../core/error.ts'
import type { CommandReach } from '../../core/settings.ts'
import { escapeHidden, shortened } from '../../core/text/escape.ts'
import { inheritedVariables, type Variables, withThreePipes } from './inheritance.ts'

/** All running children, so that none outlives the gateway. */
const running = new Set<Child>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/**
 * How long a child may take to exit on its own, and then after SIGTERM, in milliseconds; hosts wait little longer for
 * the gateway.
 */
const EXIT_GRACE_MS = 1000

/** A server's process, as leader of its own process group, so that its children end with it. */
export class Child {
  readonly stdin: Writable
  readonly stdout: Readable
  readonly stderr: Readable
  /** Resolves with a description of how the process ended. */
  readonly ended: Promise<string>
  readonly #process: ChildProcess
  #hasEnded = false

  private constructor(spawned: ChildProcess) {
    const { stdin, stdout, stderr } = spawned
    if (!stdin || !stdout || !stderr) throw new TypeError('a child is started with three pipes')
    this.#process = spawned
    this.stdin = stdin
    this.stdout = stdout
    this.stderr = stderr
    // A crashed child closes its pipes; the exit event reports it.
    this.stdin.on('error', () => undefined)
    this.ended = new Promise((resolve) => {
      spawned.once('exit', (code, signal) => {
        this.#hasEnded = true
        // Its children may survive in the group, and block the next start.
        this.kill('SIGTERM')
        running.delete(this)
        resolve(signal ? `was terminated by ${signal}` : `exited with code ${code}`)
      })
    })
    running.add(this)
  }

  /** Starts a command. @throws SERVER_UNAVAILABLE if it cannot be started */
  static async start(reach: CommandReach, environment: Variables): Promise<Child> {
    const env = inheritedVariables(environment)
    for (const [name, value] of Object.entries(reach.env)) env[name] = value.reveal()
    const spawned = withThreePipes((stdio) =>
      spawn(reach.command, reach.args, {
        env,
        stdio,
        detached: true,
        windowsHide: true,
        ...(reach.cwd !== undefined && { cwd: reach.cwd }),
      }),
    )
    try {
      await once(spawned, 'spawn')
    } catch (cause) {
      throw new GatewayError(
        'SERVER_UNAVAILABLE',
        `The server's command "${reach.command}" could not be started.`,
        {
          cause,
          suggestion: 'Check that the command exists and is executable.',
          isUnsent: true,
          forOperator: notStarted(cause, reach),
        },
      )
    }
    return new Child(spawned)
  }

  get hasEnded(): boolean {
    return this.#hasEnded
  }

  /** Signals the whole group. Returns whether that was possible: a process of another user may refuse it. */
  kill(signal: NodeJS.Signals): boolean {
    const { pid } = this.#process
    if (pid === undefined) return false
    // Where the platform has no groups, the process alone.
    return isSignalled(-pid, signal) || (!this.#hasEnded && isSignalled(pid, signal))
  }

  /** Ends the process as specified: close stdin, then SIGTERM, then SIGKILL (basic/lifecycle). */
  async stop(): Promise<void> {
    this.stdin.end()
    if (!(await this.#endsWithin(EXIT_GRACE_MS))) {
      this.kill('SIGTERM')
      const isOver = (await this.#endsWithin(EXIT_GRACE_MS)) || this.kill('SIGKILL')
      if (!isOver) return this.#leave()
    }
    await this.ended
    this.kill('SIGKILL')
  }

  /** Nothing else can end it: its input is closed. The gateway does not wait for it. */
  #leave(): void {
    running.delete(this)
    this.#process.unref()
    this.stdout.destroy()
    this.stderr.destroy()
  }

  async #endsWithin(milliseconds: number): Promise<boolean> {
    const controller = new AbortController()
    const timeout = wait(milliseconds, false, { signal: controller.signal }).catch(() => false)
    const ended = await Promise.race([this.ended.then(() => true), timeout])
    controller.abort()
    return ended
  }
}

function isSignalled(pid: number, signal: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, signal)
  } catch {
    return false
  }
}

function notStarted(cause: unknown, { command }: CommandReach): string {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const why =
    code === 'ENOENT'
      ? 'the program does not exist: install it, or write its full path'
      : code === 'EACCES'
        ? 'it is not executable: make it executable, or put the interpreter before it'
        : `check that it exists and is executable (${code})`
  return `the command "${command}" could not be started: ${why}`
}

// The last lines of a server's standard error, which usually explain why it exited. They are for operators, not for
// callers. They are bounded and contain neither control characters nor secrets.

/** The number of kept lines, and the maximum length of each in characters. */
const MAX_LINES = 3
const MAX_LINE_LENGTH = 300

/** Keeps the last lines of one server. */
export class LastLines {
  readonly #clean: (text: string) => string
  #lines: string[] = []

  /** `clean` removes secrets from a text. */
  constructor(clean: (text: string) => string) {
    this.#clean = clean
  }

  add(line: string): void {
    const clean = this.readable(line)
    if (clean !== '') this.#lines = [...this.#lines, clean].slice(-MAX_LINES)
  }

  /** A line as operators may see it; empty if nothing of it is visible. */
  readable(line: string): string {
    const clean = escapeHidden(this.#clean(line).replaceAll(COLOURS, '').trim())
    return shortened(clean, MAX_LINE_LENGTH)
  }

  /** Clears the lines when another process begins. */
  clear(): void {
    this.#lines = []
  }

  get all(): readonly string[] {
    return this.#lines
  }
}

/** Terminal escape sequences such as colors (ECMA-48 section 5.4). */
const COLOURS = new RegExp(`${String.fromCodePoint(27)}\\[[0-?]*[ -/]*[@-~]`, 'g')

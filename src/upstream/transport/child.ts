/** Child processes: their start, an orderly shutdown, and the last lines of their stderr. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import type { Readable, Writable } from 'node:stream'
import { setTimeout as wait } from 'node:timers/promises'
import { closeSync, openSync, readdirSync, readFileSync } from 'node:fs'
import { devNull } from 'node:os'
import { GatewayError } from '../../core/error.ts'
import type { CommandReach } from '../../core/settings.ts'
import { escapeHidden, shortened } from '../../core/text/escape.ts'

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

  /** The id of the process, for operators. */
  get pid(): number | undefined {
    return this.#process.pid
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

/*
 * What a child process has from the gateway: the environment variables that programs generally need, the ones that the
 * configuration gives to it, and three pipes.
 *
 * Invariant: no other descriptor of the gateway is open in a child. Node.js opens its own ones so that they close when
 * another program starts (O_CLOEXEC), but a library need not: LMDB leaves its data file open, readable and writable.
 */

/** Environment variables by name. */
export type Variables = Readonly<Record<string, string | undefined>>

/** Variables that programs generally need. All others may be secret, and are passed only if configured. */
const harmless =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|TERM|LANG|LC_.*|TZ|TMPDIR|TEMP|TMP|XDG_.*|NODE_EXTRA_CA_CERTS|SSL_CERT_.*|APPDATA|LOCALAPPDATA|USERPROFILE|PROGRAMFILES|SYSTEMROOT|COMSPEC|PATHEXT)$/i

/** The variables of an environment that every child gets. */
export function inheritedVariables(environment: Variables): Record<string, string> {
  const env: Record<string, string> = {}
  for (const [name, value] of Object.entries(environment)) {
    // A shell function exported into the environment is code.
    if (value !== undefined && harmless.test(name) && !value.startsWith('()')) env[name] = value
  }
  return env
}

/** Descriptors of a child, by number; `ignore` leaves one closed that closes by itself. */
type Descriptors = ('pipe' | 'ignore' | number)[]

/**
 * Starts a child with three pipes as its only descriptors of the gateway. Those that would stay open are the null device
 * in the child, as Node.js can replace a descriptor there but cannot close it.
 */
export function withThreePipes<Child>(start: (descriptors: Descriptors) => Child): Child {
  const kept = leftOpen()
  const pipes: Descriptors = ['pipe', 'pipe', 'pipe']
  if (kept.length === 0) return start(pipes)
  const nothing = openSync(devNull, 'r')
  try {
    const others = Array.from({ length: Math.max(...kept) - 2 }, (_, index) =>
      kept.includes(index + 3) ? nothing : 'ignore',
    )
    return start([...pipes, ...others])
  } finally {
    closeSync(nothing)
  }
}

/** O_CLOEXEC, which is the same on all architectures that Node.js supports on Linux. */
const CLOSES_ON_EXEC = 0o2_000_000

/**
 * The descriptors of this process that stay open in a child, without the first three. Linux alone has a table of them,
 * and needs one: on macOS and Windows, children start without the descriptors that they are not given.
 */
function leftOpen(): readonly number[] {
  return descriptors().filter((number) => number > 2 && !closesOnExec(number))
}

function descriptors(): readonly number[] {
  try {
    return readdirSync('/proc/self/fd').map(Number)
  } catch {
    return []
  }
}

/** Whether a descriptor closes when another program starts, or is closed already (proc(5), `fdinfo`). */
function closesOnExec(number: number): boolean {
  try {
    const flags = /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/self/fdinfo/${number}`, 'latin1'))?.[1]
    return flags === undefined || (Number.parseInt(flags, 8) & CLOSES_ON_EXEC) !== 0
  } catch {
    return true
  }
}

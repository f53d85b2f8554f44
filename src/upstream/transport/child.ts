/** Child processes: a reduced environment, an orderly end, and the last lines of their stderr. */
import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as wait } from 'node:timers/promises'
import { GatewayError } from '../../core/error.ts'
import type { Log } from '../../core/log.ts'
import type { CommandReach } from '../../core/settings.ts'
import { escapeHidden } from '../../core/text/escape.ts'
import { withoutSecrets } from '../../core/text/redact.ts'
import { encodeLine, lines } from '../../protocol/lines.ts'
import { type OpenTransport, type UpstreamTransport, MAX_MESSAGE } from './transport.ts'

/** Every child that runs, so that none outlives the gateway. */
const running = new Set<Child>()
process.on('exit', () => {
  for (const child of running) child.kill('SIGKILL')
})

/** How long a child gets to end by itself, and then after SIGTERM, in milliseconds; hosts wait little longer for us. */
const EXIT_GRACE_MS = 1000

/** Environment variables by name. */
export type Variables = Readonly<Record<string, string | undefined>>

/** A server's process, at the head of a process group of its own, so that what it starts ends with it. */
class Child {
  readonly stdin: ChildProcessWithoutNullStreams['stdin']
  readonly stdout: ChildProcessWithoutNullStreams['stdout']
  readonly stderr: ChildProcessWithoutNullStreams['stderr']
  /** Resolves with how the process ended, in words. */
  readonly ended: Promise<string>
  readonly #process: ChildProcessWithoutNullStreams
  #hasEnded = false

  private constructor(spawned: ChildProcessWithoutNullStreams) {
    this.#process = spawned
    this.stdin = spawned.stdin
    this.stdout = spawned.stdout
    this.stderr = spawned.stderr
    // A child that died takes its pipes along; the exit says so.
    this.stdin.on('error', () => undefined)
    this.ended = new Promise((resolve) => {
      spawned.once('exit', (code, signal) => {
        this.#hasEnded = true
        // What it started may live on in its group, and in the way of the next start.
        this.kill('SIGTERM')
        running.delete(this)
        resolve(signal ? `was ended by ${signal}` : `exited with code ${code}`)
      })
    })
    running.add(this)
  }

  /** Starts a command. @throws SERVER_UNAVAILABLE where it cannot be started */
  static async start(reach: CommandReach, environment: Variables): Promise<Child> {
    const env = inherited(environment)
    for (const [name, value] of Object.entries(reach.env)) env[name] = value.reveal()
    const spawned = spawn(reach.command, reach.args, {
      env,
      stdio: 'pipe',
      detached: true,
      windowsHide: true,
      ...(reach.cwd !== undefined && { cwd: reach.cwd }),
    })
    try {
      await once(spawned, 'spawn')
    } catch (cause) {
      throw new GatewayError(
        'SERVER_UNAVAILABLE',
        `The server's command "${reach.command}" could not be started.`,
        {
          cause,
          suggestion: 'Check that the command exists and may be run.',
          isUnsent: true,
          forOperator: notStarted(cause, reach),
        },
      )
    }
    return new Child(spawned)
  }

  /** Signals the whole group. */
  kill(signal: NodeJS.Signals): void {
    const { pid } = this.#process
    if (pid === undefined) return
    try {
      process.kill(-pid, signal)
    } catch {
      // The group is gone, or the platform has none.
      if (!this.#hasEnded) this.#process.kill(signal)
    }
  }

  /** Ends the process as the specification says: stdin closed, then SIGTERM, then SIGKILL (basic/lifecycle). */
  async stop(): Promise<void> {
    this.stdin.end()
    if (await this.#endsWithin(EXIT_GRACE_MS)) return this.kill('SIGKILL')
    this.kill('SIGTERM')
    if (!(await this.#endsWithin(EXIT_GRACE_MS))) this.kill('SIGKILL')
    await this.ended
    this.kill('SIGKILL')
  }

  async #endsWithin(milliseconds: number): Promise<boolean> {
    const controller = new AbortController()
    const timeout = wait(milliseconds, false, { signal: controller.signal }).catch(() => false)
    const ended = await Promise.race([this.ended.then(() => true), timeout])
    controller.abort()
    return ended
  }
}

/** What a program needs to run anywhere. Everything else may be a secret, and is given by name in the configuration. */
const harmless =
  /^(?:PATH|HOME|USER|LOGNAME|SHELL|TERM|LANG|LC_.*|TZ|TMPDIR|TEMP|TMP|XDG_.*|NODE_EXTRA_CA_CERTS|SSL_CERT_.*|APPDATA|LOCALAPPDATA|USERPROFILE|PROGRAMFILES|SYSTEMROOT|COMSPEC|PATHEXT)$/i

function inherited(environment: Variables): Record<string, string> {
  const env: Record<string, string> = {}
  for (const [name, value] of Object.entries(environment)) {
    // A shell function exported into the environment is code.
    if (value !== undefined && harmless.test(name) && !value.startsWith('()')) env[name] = value
  }
  return env
}

function notStarted(cause: unknown, { command }: CommandReach): string {
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const why =
    code === 'ENOENT'
      ? 'there is no such program: install it, or write its whole path'
      : code === 'EACCES'
        ? 'it may not be run: make it executable, or name the interpreter before it'
        : `check that it exists and may be run (${code})`
  return `the command "${command}" could not be started: ${why}`
}

// The last lines a server wrote to its standard error: most often they say why it ended. They are for operators, not
// for callers. What is kept is bounded, has no control characters, and tells no secret.

/** How many lines are kept, and how much of each, in characters. */
const MAX_LINES = 3
const MAX_LINE_LENGTH = 300

/** Keeps the last lines of one server. */
export class LastLines {
  readonly #clean: (text: string) => string
  #lines: string[] = []

  /** `clean` takes secrets out of a text. */
  constructor(clean: (text: string) => string) {
    this.#clean = clean
  }

  add(line: string): void {
    const clean = escapeHidden(this.#clean(line).replaceAll(COLOURS, '').trim())
    if (clean === '') return
    const cut =
      clean.length > MAX_LINE_LENGTH ? `${clean.slice(0, MAX_LINE_LENGTH - 1).toWellFormed()}…` : clean
    this.#lines = [...this.#lines, cut].slice(-MAX_LINES)
  }

  /** Forgets them: another process begins. */
  clear(): void {
    this.#lines = []
  }

  get all(): readonly string[] {
    return this.#lines
  }
}

/** What terminals take for colours and the like (ECMA-48 section 5.4). */
const COLOURS = new RegExp(`${String.fromCodePoint(27)}\\[[0-?]*[ -/]*[@-~]`, 'g')

// A server as a child process: one JSON-RPC message per line.

/** How much may wait to be written to a child that does not read, in bytes. */
const MAX_UNREAD = 64 * 1024 * 1024

/** Reaches a server by starting it as a child process. */
export function stdioConnect(
  reach: CommandReach,
  environment: Variables,
  { log, lastLines }: { readonly log: Log; readonly lastLines: LastLines },
): OpenTransport {
  return async (receiver) => {
    const child = await Child.start(reach, environment)
    lastLines.clear()
    const tooLong = (bytes: number): void => log.warn('upstream.line_too_long', { bytes })
    child.stdout.on(
      'data',
      lines(MAX_MESSAGE, (line) => receiver.receive(line), tooLong),
    )
    child.stderr.on(
      'data',
      lines(
        65_536,
        (line) => {
          lastLines.add(line)
          log.info('upstream.stderr', { line: withoutSecrets(line) })
        },
        tooLong,
      ),
    )
    // What was on its way out of the process is read before its end counts.
    const drained = Promise.allSettled([once(child.stdout, 'close'), once(child.stderr, 'close')])
    void child.ended.then(async (how) => {
      await Promise.race([drained, new Promise((resolve) => setTimeout(resolve, 200).unref())])
      receiver.closed(new Error(`The server's process ${how}.`))
    })
    return new StdioTransport(child)
  }
}

class StdioTransport implements UpstreamTransport {
  readonly hasProvenance = false
  readonly #child: Child

  constructor(child: Child) {
    this.#child = child
  }

  async send(message: string): Promise<void> {
    const { stdin } = this.#child
    if (!stdin.writable) {
      throw new GatewayError('SERVER_UNAVAILABLE', "The server's process has ended.", { isUnsent: true })
    }
    if (stdin.writableLength > MAX_UNREAD)
      throw new GatewayError('OVERLOADED', 'The server does not read its input.')
    stdin.write(encodeLine(message))
  }

  close(): Promise<void> {
    return this.#child.stop()
  }
}

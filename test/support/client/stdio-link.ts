import { type ChildProcessWithoutNullStreams, spawn } from 'node:child_process'
import { once } from 'node:events'
import { encode, type Id, type Json } from '../server/json.ts'
import type { Link, LinkEvents } from './link.ts'
import type { ConnectOptions } from './options.ts'

/** A server run as a child process. */
export class StdioLink implements Link {
  readonly #child: ChildProcessWithoutNullStreams
  readonly #events: LinkEvents
  readonly #exited: Promise<unknown>
  readonly #graceMs: number
  #rest: Buffer = Buffer.alloc(0)
  /** What the server wrote to stderr. */
  stderr = ''

  constructor({ command = '', args = [], env, cwd, graceMs = 2000 }: ConnectOptions, events: LinkEvents) {
    this.#graceMs = graceMs
    this.#events = events
    this.#child = spawn(command, args, {
      stdio: 'pipe',
      ...(cwd !== undefined && { cwd }),
      ...(env && { env: { ...process.env, ...env } }),
    })
    this.#child.stdout.on('data', (bytes: Buffer) => this.#receive(bytes))
    this.#child.stderr.on('data', (bytes: Buffer) => {
      this.stderr = (this.stderr + bytes.toString()).slice(-100_000)
    })
    // A server that died cannot be written to; its exit tells more than the broken pipe.
    this.#child.stdin.on('error', () => {})
    this.#exited = once(this.#child, 'exit').catch((error: unknown) => [error])
    void this.#exited.then((how) =>
      events.ended(undefined, new Error(`the server exited: ${String(how)} ${this.stderr}`)),
    )
  }

  get openStreams(): number {
    return this.#isRunning ? 1 : 0
  }

  /** The id of the process. */
  get pid(): number | undefined {
    return this.#child.pid
  }

  /** The exit code, once it exited by itself. */
  get exitCode(): number | null {
    return this.#child.exitCode
  }

  call(_id: Id, message: Json): void {
    void this.send(message)
  }

  send(message: Json): Promise<void> {
    return this.write(encode(message))
  }

  write(text: string): Promise<void> {
    this.#child.stdin.write(`${text}\n`)
    return Promise.resolve()
  }

  drop(): void {}

  listen(): Promise<void> {
    return Promise.resolve()
  }

  dropAll(): undefined {}

  /** Closes stdin and waits; ends the process when it does not go. */
  async close(): Promise<void> {
    if (!this.#isRunning) return
    this.#child.stdin.end()
    const ladder = [
      setTimeout(() => this.#child.kill('SIGTERM'), this.#graceMs),
      setTimeout(() => this.#child.kill('SIGKILL'), this.#graceMs * 2),
    ]
    await this.#exited
    for (const timer of ladder) clearTimeout(timer)
  }

  get #isRunning(): boolean {
    return this.#child.exitCode === null && this.#child.signalCode === null && this.#child.pid !== undefined
  }

  #receive(bytes: Buffer): void {
    const lines = Buffer.concat([this.#rest, bytes])
    let start = 0
    for (let end = lines.indexOf(10); end >= 0; end = lines.indexOf(10, start)) {
      const line = lines.subarray(start, end).toString().replace(/\r$/, '')
      start = end + 1
      if (line.startsWith('{') || line.startsWith('[')) this.#events.message(line, { kind: 'shared' })
      else this.#events.violation(`a line on stdout that is no message: ${line}`)
    }
    this.#rest = lines.subarray(start)
  }
}

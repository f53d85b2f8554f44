/**
 * What a command takes from the process that runs it. Commands have no other way to it, so several can run in one
 * process, each with an output, an environment and a folder of its own.
 */
import { writeSync } from 'node:fs'
import { resolve } from 'node:path'
import type { Readable, Writable } from 'node:stream'
import type { Environment } from '../config/secrets.ts'
import { escapeHidden } from '../core/text/escape.ts'
import type { Redactor } from '../core/text/redactor.ts'
import type { OtherWorkers } from '../observability/worker-metrics.ts'
import { plantedProblem } from '../store/private-folder.ts'

/** The process of a command. */
export interface Io {
  readonly stdin: Readable & Terminal
  readonly stdout: Writable & Terminal
  readonly stderr: Writable & Terminal
  /** Writes lines of the log to where `stderr` goes. It never waits, and never throws. */
  log(lines: string): void
  readonly env: Environment
  /** The absolute path of the folder that relative paths are relative to. */
  readonly cwd: string
  /** Learns the secrets of the configuration that a command reads: they are not printed. */
  readonly redactor?: Redactor
  /** Which of several processes it is that serve as one gateway, if it is one. */
  readonly worker?: Worker
  /**
   * Resolves at the first request to stop, with `onHangUp` also when the terminal is closed: a process started with nohup has no
   * terminal as its stderr, and keeps running. From the call on, such a request does not end the process at once.
   */
  untilStopped(onHangUp?: boolean): Promise<void>
}

interface Terminal {
  readonly isTTY?: boolean | undefined
}

/** The address at which workers listen. */
export interface Bound {
  readonly host: string
  readonly port: number
}

/** What a worker is told at its start. */
export interface Place {
  /** Which of the workers it is, from 1, and how many there are. */
  readonly number: number
  readonly count: number
  /** The first of all says for all of them where they serve, and what is wrong. */
  readonly isFirst: boolean
  /** Where the others listen, whatever the configuration says now. */
  readonly bound?: Bound | undefined
}

/** A worker as its commands see it. */
export interface Worker extends Place {
  readonly metrics: OtherWorkers
  /** Finds a port that is free. @throws the system error if the host is not an address of this machine */
  freePort(host: string): Promise<number>
  /** Says that it serves. */
  serving(bound: Bound): void
  /** Leaves the channel, which would keep the process running. */
  leave(): Promise<void>
}

/** The absolute path of a file or folder that was given to a command. */
export function pathOf(path: string, { cwd }: Pick<Io, 'cwd'>): string {
  return resolve(cwd, path)
}

/** The absolute path of a file that a command reads. @throws Error if another user can have put it there */
export function inputPath(file: string, io: Pick<Io, 'cwd'>): string {
  const path = pathOf(file, io)
  const problem = plantedProblem(path)
  if (problem === undefined) return path
  throw new Error(`${file} ${problem}, so it is not read: copy it to a folder of your own if you trust it`)
}

type Output = Pick<Io, 'stdout' | 'redactor'>
type ErrorOutput = Pick<Io, 'stderr' | 'redactor'>

/** Writes a line, or several, to the output. */
export function print(text: string, io: Output): void {
  write(`${text}\n`, io)
}

/** Writes a value as JSON to the output. */
export function printJson(value: unknown, io: Output): void {
  print(JSON.stringify(value, null, 2), io)
}

/** Writes a message about what went wrong, on one line. */
export function printError(message: string, io: ErrorOutput): void {
  writeError(`gatehouse: ${message}\n`, io)
}

/** Writes text to the output as it is, but for secrets and invisible characters. */
export function write(text: string, { stdout, redactor }: Output): void {
  stdout.write(shown(text, redactor))
}

/** The same, to where messages go. */
export function writeError(text: string, { stderr, redactor }: ErrorOutput): void {
  stderr.write(shown(text, redactor))
}

/** A text as a terminal may show it: what others wrote can neither control it, nor tell a secret. JSON stays the same JSON. */
function shown(text: string, redactor: Redactor | undefined): string {
  return escapeHidden(redactor ? redactor.text(text) : text)
}

/** This process. Its streams are opened when they are first used. */
export function processIo(): Io {
  return {
    get stdin() {
      return process.stdin
    },
    get stdout() {
      return closable(process.stdout)
    },
    get stderr() {
      return closable(process.stderr)
    },
    log: batched((lines) => writeSync(STDERR, lines)),
    env: process.env,
    cwd: process.cwd(),
    untilStopped: untilSignal,
  }
}

/** A stream whose reader may close it, as `head` does: the command continues, and its output is lost. */
function closable<Stream extends Writable>(stream: Stream): Stream {
  return stream.listenerCount('error') === 0 ? stream.on('error', () => undefined) : stream
}

const STDERR = 2

/** The flush interval of the log, in milliseconds, and how much it holds back at most, in characters. */
const WRITE_DELAY_MS = 20
const MAX_WAITING_LENGTH = 64 * 1024

/** Writes lines in batches; the rest when the process exits. */
export function batched(write: (lines: string) => void): Io['log'] {
  let waiting = ''
  let timer: NodeJS.Timeout | undefined
  const flush = (): void => {
    clearTimeout(timer)
    timer = undefined
    const lines = waiting
    waiting = ''
    try {
      if (lines !== '') write(lines)
    } catch {
      // A closed or slow stderr must not stop the gateway.
    }
  }
  process.on('exit', flush)
  return (lines) => {
    waiting += lines
    if (waiting.length > MAX_WAITING_LENGTH) flush()
    else timer ??= setTimeout(flush, WRITE_DELAY_MS).unref()
  }
}

/** Resolves at the first stop signal; a second one exits at once. */
function untilSignal(onHangUp = false): Promise<void> {
  return new Promise((resolved) => {
    let isAsked = false
    const stop = (): void => {
      if (isAsked) process.exit(1)
      isAsked = true
      resolved()
    }
    process.on('SIGTERM', stop)
    process.on('SIGINT', stop)
    if (onHangUp) process.on('SIGHUP', stop)
  })
}

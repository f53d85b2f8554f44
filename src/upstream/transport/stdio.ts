/** A server as a child process: one JSON-RPC message per line. */
import { once } from 'node:events'
import { GatewayError } from '../../core/error.ts'
import { background, type Log } from '../../core/log.ts'
import type { CommandReach } from '../../core/settings.ts'
import { MAX_MESSAGE_BYTES } from '../../core/spool.ts'
import { withoutSecrets } from '../../core/text/redact.ts'
import { pause, within } from '../../core/time/waiting.ts'
import { encodeLine, lines } from '../../protocol/lines.ts'
import { SpoolingReader } from '../../protocol/spooling.ts'
import { Child, type LastLines, type Variables } from './child.ts'
import type { OpenTransport, UpstreamTransport } from './transport.ts'
import { type Timer, world } from '../../core/world.ts'
import { readJson, isObject } from '../../core/json/json.ts'
import { shortened } from '../../core/text/escape.ts'

/** The maximum number of bytes buffered for a child that does not read. */
const MAX_UNREAD = 64 * 1024 * 1024
/** How long a process that closes its output may take to exit, in milliseconds: then its exit is what happened. */
const EXIT_WAIT_MS = 200

/** Connects to a server by starting it as a child process. */
export function stdioConnect(
  reach: CommandReach,
  environment: Variables,
  { log, lastLines }: { readonly log: Log; readonly lastLines: LastLines },
): OpenTransport {
  return async (receiver) => {
    const child = await Child.start(reach, environment)
    lastLines.clear()
    const { stdin, stdout, stderr } = child
    const output = new PlainOutput({
      readable: (line) => lastLines.readable(line),
      onVerdict: (error, isFinal) => {
        receiver.speaksNoJson?.(error)
        if (isFinal) leave(error.message)
      },
    })
    const tooLong = (bytes: number): void => log.warn('upstream.line_too_long', { bytes })
    const messages = new SpoolingReader({
      spool: () => receiver.spool(),
      pass: lines(
        MAX_MESSAGE_BYTES,
        (line) => {
          if (output.read(line)) receiver.receive(line)
          else log.debug('upstream.noise', { text: withoutSecrets(lastLines.readable(line)) })
        },
        tooLong,
      ),
      pause: () => stdout.pause(),
      resume: () => stdout.resume(),
    })
    stdout.on('data', (chunk: Buffer) => {
      messages.write(chunk)
      output.readTail(chunk)
    })
    stdout.on('close', () => messages.abort())
    stderr.on(
      'data',
      lines(
        65_536,
        (line) => {
          output.readError(line)
          lastLines.add(line)
          log.info('upstream.stderr', { line: withoutSecrets(line) })
        },
        tooLong,
      ),
    )
    const { promise: over, resolve } = Promise.withResolvers<string>()
    let isOver = false
    const end = (what: string): void => {
      if (isOver) return
      isOver = true
      output.end()
      resolve(what)
      receiver.closed(new Error(what))
    }
    const leave = (why: string): void => {
      end(why)
      background(child.stop(), log)
    }
    // Remaining output of the process is read before its end is reported.
    const drained = Promise.allSettled([once(stdout, 'close'), once(stderr, 'close')])
    void child.ended.then(async (how) => {
      await Promise.race([drained, pause(EXIT_WAIT_MS)])
      end(`The server's process ${how}.${output.printed}`)
    })
    // Without a pipe nothing can be answered, whether or not the process lives on.
    const lose = async (pipe: string): Promise<void> => {
      await Promise.race([child.ended, pause(EXIT_WAIT_MS)])
      if (child.hasEnded) return
      leave(`The server closed its ${pipe}, though its process has not ended.${output.printed}`)
    }
    stdout.once('close', () => void lose('output'))
    stdin.once('error', () => void lose('input'))
    return new StdioTransport(child, output, over)
  }
}

class StdioTransport implements UpstreamTransport {
  readonly hasProvenance = false
  readonly #child: Child
  readonly #output: PlainOutput
  /** Resolves with how it ended. */
  readonly #over: Promise<string>
  /** What is written once this turn of the event loop has read all that arrived: a process that is woken for each line costs more. */
  #lines = ''

  constructor(child: Child, output: PlainOutput, over: Promise<string>) {
    this.#child = child
    this.#output = output
    this.#over = over
  }

  get printed(): string {
    return this.#output.printed
  }

  get pid(): number | undefined {
    return this.#child.pid
  }

  async send(message: string): Promise<void> {
    const { stdin } = this.#child
    if (!stdin.writable) {
      const how = await within(this.#over, 2 * EXIT_WAIT_MS, "The server's process has ended.")
      throw new GatewayError('SERVER_UNAVAILABLE', how, { isUnsent: true })
    }
    if (stdin.writableLength + this.#lines.length > MAX_UNREAD)
      throw new GatewayError('OVERLOADED', 'The server does not read its input.')
    this.#output.sent(message)
    if (this.#lines === '') world.setImmediate(() => this.#flush())
    this.#lines += encodeLine(message)
  }

  #flush(): void {
    const lines = this.#lines
    this.#lines = ''
    if (this.#child.stdin.writable) this.#child.stdin.write(lines)
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }

  close(): Promise<void> {
    if (this.#lines !== '') this.#flush()
    this.#output.end()
    return this.#child.stop()
  }
}

/*
 * What a process prints before its first message. The specification forbids any other text, but many servers print a
 * banner while they start, so lines of text are skipped there. A program that prints nothing else is no server: a shell,
 * a web server, a program that repeats its input. That is the verdict at once where a line says so, otherwise when the
 * text has ended for some time without a message.
 */

/** How long after its last output a process that printed text may take to send a message, in milliseconds. */
const QUIET_MS = 5000
/**
 * Text is an answer if it comes so soon after a message before which the process printed nothing for some time. A program
 * that answers in text gets less time, in milliseconds.
 */
const REACTION_MS = 500
const PAUSE_MS = 1000
const REACTION_QUIET_MS = 1000
/** The number of lines of text that are no banner any more. */
const MAX_LINES = 1000
/** The longest text in an error, in characters. */
const MAX_QUOTED = 160
/** The number of sent messages by which a repetition is recognized. */
const MAX_SENT = 10
/** How much of a line without an end is kept, in bytes. */
const MAX_TAIL = 1024
const LINE_FEED = 10

/** The first line of a document or response of HTTP, which is not followed by messages. */
const NEVER_MCP = /^\s*(?:<!doctype|<html|<\?xml|HTTP\/\d)/i

interface PlainOutputOptions {
  /** A line without secrets and invisible characters. */
  readable(line: string): string
  /**
   * Called once if the process prints text in place of messages. Unless that is final, it may yet send one: it may only
   * be slow.
   */
  onVerdict(error: GatewayError, isFinal: boolean): void
}

/** The output of one process up to its first message. */
export class PlainOutput {
  readonly #options: PlainOutputOptions
  readonly #sent = new Set<string>()
  /** The beginning of a line that has no end yet. */
  #tail = Buffer.alloc(0)
  #first: string | undefined
  #what = ''
  #lastAt = 0
  /** When it was sent a message after a pause in its text. */
  #askedAt = Number.NEGATIVE_INFINITY
  #lines = 0
  /** Set once a message came, or the process is no longer listened to. */
  #isOver = false
  #isReported = false
  #timer: Timer | undefined

  constructor(options: PlainOutputOptions) {
    this.#options = options
  }

  /** A sentence about what was printed in place of messages, after a space; empty if a message came, or nothing did. */
  get printed(): string {
    if (this.#first === undefined) return ''
    return this.#first === '' ? ` ${this.#what}.` : ` ${this.#what}: it printed "${this.#first}".`
  }

  /** Notes a message to the process: one that repeats its input answers nothing. */
  sent(message: string): void {
    if (this.#isOver) return
    if (this.#sent.size < MAX_SENT) this.#sent.add(message)
    const now = world.monotonic()
    if (this.#lines > 0 && now - this.#lastAt >= PAUSE_MS) this.#askedAt = now
  }

  /** Whether a line is for the receiver. */
  read(line: string): boolean {
    if (this.#isOver) return true
    const isRepetition = this.#sent.has(line.trim())
    const what = isRepetition ? 'It repeats what it is sent' : flawOf(line)
    if (what !== undefined) {
      this.#text(line, what, !isRepetition)
      return false
    }
    this.#first = undefined
    this.end()
    return true
  }

  /** Notes output whose lines were read: a prompt does not end its line. */
  readTail(chunk: Buffer): void {
    if (this.#isOver) return
    const start = chunk.lastIndexOf(LINE_FEED) + 1
    const before = start === 0 ? this.#tail : Buffer.alloc(0)
    this.#tail = Buffer.concat([before, chunk.subarray(start)]).subarray(0, MAX_TAIL)
    const line = this.#tail.toString()
    if (line !== '' && !/^\s*[{[]/.test(line)) this.#text(line, NOT_JSON)
  }

  /**
   * Notes a line of its errors, which shows that the process is still starting; or, in a shell, that it does not
   * understand what it is sent. Errors are not for callers, so they are not quoted.
   */
  readError(line: string): void {
    if (this.#isOver) return
    if (this.#sent.size > 0 && line.includes('jsonrpc'))
      this.#text(line, 'It takes what it is sent for text, as its errors show', false)
    else if (this.#lines > 0) this.#wait(QUIET_MS)
  }

  end(): void {
    this.#isOver = true
    this.#sent.clear()
    world.clearTimeout(this.#timer)
  }

  #text(line: string, what: string, isQuoted = true): void {
    const text = this.#options.readable(line)
    if (text === '') return
    this.#lines++
    if (this.#first === undefined) {
      this.#first = isQuoted ? shortened(text, MAX_QUOTED) : ''
      this.#what = what
    }
    this.#lastAt = world.monotonic()
    if (this.#lines >= MAX_LINES || NEVER_MCP.test(line)) this.#report(true)
    else this.#wait(this.#lastAt - this.#askedAt < REACTION_MS ? REACTION_QUIET_MS : QUIET_MS)
  }

  #wait(delayMs: number): void {
    world.clearTimeout(this.#timer)
    this.#timer = world.setTimeout(() => this.#report(), delayMs).unref()
  }

  #report(isFinal = false): void {
    if (this.#isReported || this.#isOver) return
    this.#isReported = true
    world.clearTimeout(this.#timer)
    this.#options.onVerdict(
      new GatewayError('SERVER_UNAVAILABLE', `The server does not speak MCP.${this.printed}`, {
        isUnsent: true,
        suggestion: 'Check that the command starts an MCP server, and that it uses stdio.',
      }),
      isFinal,
    )
  }
}

const NOT_JSON = 'Its output is not JSON'

/** Why a line is no message, which may be malformed; undefined if it is one, or a batch of them. */
function flawOf(line: string): string | undefined {
  const value = readJson(line)
  if (!isObject(value) && !Array.isArray(value)) return NOT_JSON
  const [message] = Array.isArray(value) ? (value as unknown[]) : [value]
  const isMessage =
    isObject(message) &&
    ('jsonrpc' in message || ('id' in message && ('result' in message || 'error' in message)))
  return isMessage ? undefined : 'Its output is JSON, but not JSON-RPC'
}

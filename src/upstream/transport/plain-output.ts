/**
 * What a process prints before its first message. The specification forbids any other text, but many servers print a
 * banner while they start, so lines of text are skipped there. A program that prints nothing else is no server: a shell,
 * a web server, a program that repeats its input. That is the verdict at once where a line says so, otherwise when the
 * text has ended for some time without a message.
 */
import { type Timer, world } from '../../core/world.ts'
import { GatewayError } from '../../core/error.ts'
import { readJson, isObject } from '../../core/json/json.ts'
import { shortened } from '../../core/text/escape.ts'

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

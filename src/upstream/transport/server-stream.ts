/**
 * The standalone stream of a session over Streamable HTTP, for messages outside the stream of any request; opened again when
 * it ends.
 *
 * Invariant: a refusal of this stream says that there is none. That the session is lost is shown by a post that is refused
 * too. Each way back is longer than the one before, up to a limit, and there are only so many: streams that end at once,
 * servers that fail, and sessions that are lost again and again come to an end.
 */
import { pause } from '../../core/time/waiting.ts'
import { background, type Log } from '../../core/log.ts'
import { world } from '../../core/world.ts'
import { backOff } from '../../core/time/back-off.ts'
import { baseHeaders, exchangeHttp, type HttpClient } from './http-client.ts'

interface Options {
  readonly client: HttpClient
  headers(): Record<string, string>
  onMessage(text: string): void
  /** Whether posts of the session are refused too. */
  isLost(): Promise<boolean>
  /** Called when the server no longer knows the session. */
  onLost(): void
  /** Called when the stream has ended, or was refused, and is not opened again in this session. */
  onEnd(): void
  readonly log: Log
}

/**
 * How long the first call waits for this stream, in milliseconds. Some servers send no headers before the first event.
 */
const OPEN_TIMEOUT_MS = 200
/** How often in succession the stream is opened without success, or a session is lost that had none. */
const MAX_FAILURES = 8
/**
 * How long a stream lasts that did not end at once, in milliseconds. Those that do are opened again later each time, up to
 * this delay, also if they carry events.
 */
const LASTING_MS = 5000
/** The delay before the stream is opened again, unless the server names another one, in milliseconds. */
const RETRY_MS = 1000

/** What became of one run of the stream. */
interface Run {
  /** 0 without a response. */
  readonly status: number
  readonly isStream: boolean
  readonly isLasting: boolean
  /** Whether it lasted, or carried a message or an id from which it can be resumed. */
  readonly isSound: boolean
}

/** The standalone stream of one session after the other. */
export class ServerStream {
  readonly #options: Options
  #session = new AbortController()
  #abort: (() => void) | undefined
  #lastEventId: string | undefined
  #retry = RETRY_MS
  /** Sessions that were lost in succession without a stream that was sound. */
  #losses = 0
  #isOpen = false

  constructor(options: Options) {
    this.#options = options
  }

  /** Whether messages may come: it is open, or being opened. */
  get isOpen(): boolean {
    return this.#isOpen
  }

  /**
   * Opens the stream of the current session instead of the one before; resolves when the server has accepted or refused it,
   * or after a timeout.
   */
  async open(): Promise<void> {
    this.close()
    this.#session = new AbortController()
    this.#lastEventId = undefined
    this.#isOpen = true
    const { signal } = this.#session
    const first = Promise.withResolvers<void>()
    const run = this.#run(signal, first.resolve).finally(() => {
      first.resolve()
      if (!signal.aborted) this.#end()
    })
    background(run, this.#options.log)
    await Promise.race([first.promise, pause(OPEN_TIMEOUT_MS, signal).catch(() => undefined)])
  }

  close(): void {
    this.#session.abort()
    this.#abort?.()
    this.#isOpen = false
  }

  #end(): void {
    this.#isOpen = false
    this.#options.onEnd()
  }

  async #run(signal: AbortSignal, onHead: () => void): Promise<void> {
    let failures = 0
    let short = 0
    while (!signal.aborted && failures <= MAX_FAILURES) {
      const { status, isStream, isLasting, isSound } = await this.#once(signal, onHead)
      if (signal.aborted) return
      if (isSound) this.#losses = 0
      if (isRefused(status)) {
        if (await this.#options.isLost()) return this.#lost(signal)
        // The server may only have lost the id of the event.
        if (this.#lastEventId === undefined) return
        this.#lastEventId = undefined
      } else if (!isStream && !isPassing(status)) return
      failures = isSound ? 0 : failures + 1
      short = isSound && !isLasting ? short + 1 : 0
      const delay = backOff(failures, this.#retry)
      const later = Math.min(backOff(Math.max(short - 1, 0), this.#retry), LASTING_MS)
      await pause(Math.max(delay, later), signal).catch(() => undefined)
    }
  }

  /** The first loss is repaired at once: a server that started again has forgotten its sessions. */
  async #lost(signal: AbortSignal): Promise<void> {
    if (++this.#losses > MAX_FAILURES) return
    if (this.#losses > 1) await pause(backOff(this.#losses, RETRY_MS), signal).catch(() => undefined)
    if (signal.aborted) return
    this.#end()
    this.#session.abort()
    this.#options.onLost()
  }

  /** One run of the stream, until it ends. */
  async #once(signal: AbortSignal, onHead: () => void): Promise<Run> {
    const { client, headers, onMessage } = this.#options
    const resume = this.#lastEventId === undefined ? {} : { 'last-event-id': this.#lastEventId }
    const startedAt = world.monotonic()
    let isUseful = false
    try {
      const { status, isEventStream } = await exchangeHttp(client, {
        method: 'GET',
        headers: { ...baseHeaders(client, 'GET'), ...headers(), ...resume },
        onHead,
        onAbortable: (abort) => {
          if (signal.aborted) return abort()
          this.#abort = abort
        },
        onRetry: (milliseconds) => {
          this.#retry = milliseconds
        },
        onEvent: (event) => {
          if (event.id !== undefined || isJson(event.data)) isUseful = true
          if (event.id !== undefined) this.#lastEventId = event.id
          if (event.data !== '') onMessage(event.data)
        },
      })
      const isLasting = isEventStream && world.monotonic() - startedAt >= LASTING_MS
      return { status, isStream: isEventStream, isLasting, isSound: isLasting || isUseful }
    } catch {
      return { status: 0, isStream: false, isLasting: false, isSound: false }
    }
  }
}

function isJson(text: string): boolean {
  return /^\s*[{[]/.test(text)
}

/** Whether a session may be lost: 404 says so (2025-11-25 basic/transports), and some servers answer 400. */
export function isRefused(status: number): boolean {
  return status === 404 || status === 400
}

/** Whether a refusal may pass: there is no answer, an earlier stream is still open, or the server is busy or failing. */
function isPassing(status: number): boolean {
  return [0, 408, 409, 425, 429].includes(status) || (status >= 500 && status !== 501 && status !== 505)
}

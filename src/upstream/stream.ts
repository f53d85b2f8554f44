import { setTimeout as wait } from 'node:timers/promises'
import { background, type Log } from '../core/log.ts'
import { baseHeaders, exchangeHttp, type HttpClient } from './fetch.ts'

interface StreamOptions {
  readonly client: HttpClient
  headers(): Record<string, string>
  onMessage(text: string): void
  /** The server does not know the session any more. */
  onLost(): void
  readonly log: Log
}

/** How long the first call waits for this stream, in milliseconds. Some servers send no head before an event. */
const OPEN_TIMEOUT_MS = 200

/** The stream on which a server with sessions speaks outside any request, kept open. */
export class ServerStream {
  readonly #options: StreamOptions
  readonly #controller = new AbortController()
  #abort: (() => void) | undefined
  #lastEventId: string | undefined
  #retry = 1000

  constructor(options: StreamOptions) {
    this.#options = options
  }

  /** Opens the stream; resolves when the server took it or refused it, or after a while. */
  async open(): Promise<void> {
    const first = Promise.withResolvers<void>()
    background(
      this.#run(first.resolve).finally(() => first.resolve()),
      this.#options.log,
    )
    await Promise.race([first.promise, wait(OPEN_TIMEOUT_MS, undefined, { ref: false })])
  }

  close(): void {
    this.#controller.abort()
    this.#abort?.()
  }

  async #run(onHead: () => void): Promise<void> {
    const { signal } = this.#controller
    let wasOpen = false
    for (let failures = 0; !signal.aborted;) {
      const status = await this.#once(onHead)
      if (signal.aborted) return
      wasOpen ||= status === 200
      if (status === 400 && this.#lastEventId !== undefined) {
        // Perhaps it only does not know this event any more.
        this.#lastEventId = undefined
        continue
      }
      if (status === 400 && wasOpen) return this.#options.onLost()
      // 405: the server has no such stream. Others refuse it in their own way, and 404 means the session is gone.
      if (status === 404) return this.#options.onLost()
      failures = status === 200 ? 0 : failures + 1
      if ((status >= 400 && status < 500 && status !== 409) || failures > 8) return
      if (status === 409 && failures > 3) return this.#options.onLost()
      await wait(Math.min(this.#retry * 2 ** failures, 30_000), undefined, { signal, ref: false }).catch(
        () => undefined,
      )
    }
  }

  /** One run of the stream, to its end; 0 where there was no answer. */
  async #once(onHead: () => void): Promise<number> {
    const { client, headers, onMessage } = this.#options
    const resume = this.#lastEventId === undefined ? {} : { 'last-event-id': this.#lastEventId }
    try {
      const answer = await exchangeHttp(client, {
        method: 'GET',
        headers: { ...baseHeaders(client, 'GET'), ...headers(), ...resume },
        onHead,
        onAbortable: (abort) => {
          this.#abort = abort
        },
        onRetry: (milliseconds) => {
          this.#retry = Math.min(Math.max(milliseconds, 100), 30_000)
        },
        onEvent: (event) => {
          if (event.id !== undefined) this.#lastEventId = event.id
          if (event.data !== '') onMessage(event.data)
        },
      })
      return answer.status === 200 && !answer.isEventStream ? 405 : answer.status
    } catch {
      return 0
    }
  }
}

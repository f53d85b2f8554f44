/**
 * Holds the first calls of a session until its server has the client's roots. A server asks for them once the
 * handshake is over, while the client's first call may come at once: it would run with the folders of the
 * server's own command line. Whether a server asks at all is not known, so it has a moment to.
 */
import { pause, untilAborted } from '../core/waiting.ts'

/** How long a server has to ask, and a client to answer, in milliseconds. */
const ASK_TIMEOUT_MS = 500
const ANSWER_TIMEOUT_MS = 10_000
/** How long a server has to make use of what it was answered, in milliseconds: it may look each folder up. */
const SETTLE_MS = 50

/** The roots of one session. */
export class FirstRoots {
  readonly #asked = Promise.withResolvers<void>()
  /** Takes back the questions that are open. */
  readonly #open = new Set<() => void>()
  readonly #answered = Promise.withResolvers<void>()
  #settling: Promise<void> | undefined
  #isSettled = false

  /** Whether no call has to wait any more. */
  get isSettled(): boolean {
    return this.#isSettled
  }

  /** The server asks for roots; where the client does not answer in time, `expire` takes the question back. */
  asked(expire: () => void): void {
    this.#open.add(expire)
    this.#asked.resolve()
  }

  /** The question that `expire` takes back is over. */
  answered(expire: () => void): void {
    this.#open.delete(expire)
    this.#answered.resolve()
  }

  /** Waits until the server has the roots, or does not ask for them in time. @throws the reason of the signal */
  settled(signal: AbortSignal): Promise<void> {
    this.#settling ??= this.#settle()
    return untilAborted(this.#settling, signal)
  }

  async #settle(): Promise<void> {
    const isAsked = await Promise.race([this.#asked.promise.then(() => true), pause(ASK_TIMEOUT_MS)])
    if (isAsked === true) {
      const isAnswered = await Promise.race([
        this.#answered.promise.then(() => true),
        pause(ANSWER_TIMEOUT_MS),
      ])
      if (isAnswered !== true) for (const expire of this.#open) expire()
      await pause(SETTLE_MS)
    }
    this.#isSettled = true
  }
}

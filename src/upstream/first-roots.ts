/**
 * Holds the first calls of a session until its server has the client's roots. A server asks for them once it is told
 * that the handshake is over, while the client's first call may come at once: it would run with the folders of the
 * server's own command line. Whether a server asks at all is not known, so it has a moment to.
 */
import { pause, untilAborted } from '../core/waiting.ts'

/** How long a server has to ask, and a client to answer, in milliseconds. */
const TO_ASK = 500
const TO_ANSWER = 10_000
/** How long a server has to make use of what it was answered, in milliseconds: it may look each folder up. */
const TO_USE = 50

/** The roots of one session. */
export class FirstRoots {
  readonly #asked = Promise.withResolvers<void>()
  readonly #expired: (() => void)[] = []
  readonly #answered = Promise.withResolvers<void>()
  #settling: Promise<void> | undefined
  #isSettled = false

  /** Whether no call has to wait any more. */
  get isSettled(): boolean {
    return this.#isSettled
  }

  /** The server asks for roots; where the client does not answer in time, `expire` takes the question back. */
  asked(expire: () => void): void {
    this.#expired.push(expire)
    this.#asked.resolve()
  }

  /** It has its answer. */
  answered(): void {
    this.#answered.resolve()
  }

  /** Waits until the server has the roots, or does not ask for them in time. @throws the reason of the signal */
  settled(signal: AbortSignal): Promise<void> {
    this.#settling ??= this.#settle()
    return untilAborted(this.#settling, signal)
  }

  async #settle(): Promise<void> {
    const isAsked = await Promise.race([this.#asked.promise.then(() => true), pause(TO_ASK)])
    if (isAsked === true) {
      const isAnswered = await Promise.race([this.#answered.promise.then(() => true), pause(TO_ANSWER)])
      if (isAnswered !== true) for (const expire of this.#expired) expire()
      await pause(TO_USE)
    }
    this.#isSettled = true
  }
}

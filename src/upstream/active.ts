import type { UpstreamCall } from '../bridge/park.ts'
import type { Release } from './turns.ts'

/** How long after a question a server may ask more for the same call, in milliseconds. */
const FOLLOW_UP_WAIT_MS = 25

/** A call under way at a server: at work, or waiting for its caller to answer. */
export class ActiveCall {
  readonly working: UpstreamCall
  /** The id of its latest request. */
  id = 0
  readonly #take: () => Promise<Release>
  #release: Release
  #questions = 0
  #isWaiting = false
  #hasEnded = false
  #pausing: NodeJS.Timeout | undefined
  #resuming: Promise<void> | undefined

  constructor(working: UpstreamCall, release: Release, take: () => Promise<Release>) {
    this.working = working
    this.#release = release
    this.#take = take
  }

  /** Whether it lets others work until its caller has answered. */
  get isWaiting(): boolean {
    return this.#isWaiting
  }

  /** A question goes out: in a moment this call is waiting, and its turn is free. */
  pause(): void {
    this.#questions++
    clearTimeout(this.#pausing)
    if (this.#hasEnded) return
    this.#pausing = setTimeout(() => {
      this.#isWaiting = true
      this.#release()
    }, FOLLOW_UP_WAIT_MS)
  }

  /** An answer is there: resolves when it is this call's turn again. */
  async resume(): Promise<void> {
    this.#questions--
    // What ended needs no turn, and would keep it.
    if (this.#hasEnded) return
    if (!this.#isWaiting) {
      if (this.#questions === 0) clearTimeout(this.#pausing)
      return
    }
    this.#resuming ??= this.#retake()
    await this.#resuming
  }

  end(): void {
    this.#hasEnded = true
    clearTimeout(this.#pausing)
    this.#release()
  }

  async #retake(): Promise<void> {
    try {
      this.#release = await this.#take()
      if (this.#hasEnded) this.#release()
    } catch {
      // Nobody waits for the outcome any more; the server still gets the answer.
    } finally {
      this.#isWaiting = false
      this.#resuming = undefined
    }
  }
}

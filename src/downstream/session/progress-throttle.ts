/** Limits the rate of progress notifications. The latest one is always sent in the end. */
import type { Notification } from '../../core/call.ts'
import { encodeNotification } from '../../protocol/jsonrpc.ts'
import { lowerNote } from '../../protocol/projection.ts'
import type { Revision } from '../../protocol/revisions.ts'

/** How many progress notifications of a call may come at once, and how many more each second. */
const BURST_SIZE = 20
const RATE_PER_SECOND = 10

/** Passes the notes of one call on; of progress that comes too fast only the latest is kept. */
export class ProgressThrottle {
  readonly #emit: (note: Notification) => void
  #left = BURST_SIZE
  #since = 0
  #latest: Notification | undefined
  #timer: NodeJS.Timeout | undefined
  #isOver = false

  constructor(emit: (note: Notification) => void) {
    this.#emit = emit
  }

  readonly emit = (note: Notification): void => {
    if (note.method !== 'notifications/progress') return this.#emit(note)
    if (this.#isOver) return
    this.#refill()
    if (this.#left < 1 || this.#timer) {
      this.#latest = note
      this.#timer ??= setTimeout(() => this.#next(), 1000 / RATE_PER_SECOND).unref()
      return
    }
    this.#left--
    this.#emit(note)
  }

  /** Sends what was kept; the answer comes next. */
  end(): void {
    if (this.#latest) this.#emit(this.#latest)
    this.stop()
  }

  /** No progress is sent any more. */
  stop(): void {
    clearTimeout(this.#timer)
    this.#latest = undefined
    this.#isOver = true
  }

  #next(): void {
    this.#timer = undefined
    const note = this.#latest
    this.#latest = undefined
    this.#refill()
    this.#left = Math.max(0, this.#left - 1)
    if (note) this.#emit(note)
  }

  #refill(): void {
    const now = performance.now()
    if (this.#since > 0)
      this.#left = Math.min(BURST_SIZE, this.#left + ((now - this.#since) / 1000) * RATE_PER_SECOND)
    this.#since = now
  }
}

/** Sends a notification in the words of a revision, if it has any for it. */
export function isReported(note: Notification, revision: Revision, send: (message: string) => void): void {
  const lowered = lowerNote(note, revision)
  if (lowered) send(encodeNotification(lowered.method, lowered.params))
}

/** Lets go of a turn, once. */
export type Release = () => void

interface Waiting {
  readonly owner: string | undefined
  start(release: Release): void
}

/**
 * Takes turns: at a time only one owner is at work, so that a question the server asks without saying for which
 * call can be attributed. Calls of one owner share a turn; a call without owner has one for itself.
 */
export class FairMutex {
  #owner: string | undefined
  #working = 0
  readonly #waiting: Waiting[] = []

  /**
   * Waits for a turn. A call that goes on joins others of its owner at once: they may be waiting for what it was
   * told. Rejects with the signal's reason where that comes first.
   */
  take(owner: string | undefined, signal: AbortSignal, goesOn = false): Promise<Release> {
    const isNext = this.#waiting.length === 0 || goesOn
    if (isNext && this.#isFree(owner)) return Promise.resolve(this.#start(owner))
    return new Promise((resolve, reject) => {
      const waiting: Waiting = {
        owner,
        start: (release) => {
          signal.removeEventListener('abort', leave)
          resolve(release)
        },
      }
      const leave = (): void => {
        this.#waiting.splice(this.#waiting.indexOf(waiting), 1)
        reject(signal.reason)
        this.#next()
      }
      signal.addEventListener('abort', leave, { once: true })
      this.#waiting.push(waiting)
    })
  }

  #isFree(owner: string | undefined): boolean {
    return this.#working === 0 || (owner !== undefined && owner === this.#owner)
  }

  #start(owner: string | undefined): Release {
    this.#owner = owner
    this.#working++
    let isHeld = true
    return () => {
      if (!isHeld) return
      isHeld = false
      this.#working--
      this.#next()
    }
  }

  #next(): void {
    for (let first = this.#waiting[0]; first && this.#isFree(first.owner); first = this.#waiting[0]) {
      this.#waiting.shift()
      first.start(this.#start(first.owner))
    }
  }
}

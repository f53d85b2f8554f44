/** This process as the runner of steps and rollbacks, known to other members. */
import { randomBytes } from 'node:crypto'
import type { Membership } from '../../records/members.ts'

/** Those of this process that did not end, by their own part of their names. */
const living = new Set<string>()

/** Who works on transactions: one for each version of the settings of each gateway, so that none does another's. */
export class WorkerIdentity {
  /** Names it in what is written down. */
  readonly id: string
  readonly #own = randomBytes(6).toString('hex')
  readonly #membership: Membership
  readonly #underWay = new Set<string>()
  #isClosed = false

  constructor(membership: Membership) {
    this.#membership = membership
    this.id = `${membership.id}#${this.#own}`
    living.add(this.#own)
  }

  /** Makes others see that it lives; has to be awaited before it writes its name down. */
  register(): Promise<void> {
    return this.#membership.register()
  }

  /** Does some work that others must not take up meanwhile. */
  async during<Value>(work: string, run: () => Promise<Value>): Promise<Value> {
    this.#underWay.add(work)
    try {
      return await run()
    } finally {
      this.#underWay.delete(work)
      this.#leave()
    }
  }

  /** Whether the worker that took up some work is still at it. */
  async isAtWork(who: string, work: string): Promise<boolean> {
    return who === this.id ? this.#underWay.has(work) : this.isAlive(who)
  }

  /** Whether a worker is still alive. */
  async isAlive(who: string): Promise<boolean> {
    const at = who.lastIndexOf('#')
    const gateway = who.slice(0, at)
    if (at === -1) return false
    return gateway === this.#membership.id ? living.has(who.slice(at + 1)) : this.#membership.isAlive(gateway)
  }

  /** Ends it once the work under way is done. */
  close(): void {
    this.#isClosed = true
    this.#leave()
  }

  #leave(): void {
    if (this.#isClosed && this.#underWay.size === 0) living.delete(this.#own)
  }
}

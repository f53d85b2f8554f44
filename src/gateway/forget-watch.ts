/**
 * Erases people from the audit log of this gateway, as orders in its store say (`gatehouse forget`): only the process that writes
 * a log may order in its chain what is erased.
 */
import type { Log } from '../core/log.ts'
import { ifAnswered } from '../core/time/waiting.ts'
import { type Timer, world } from '../core/world.ts'
import type { Audit } from '../observability/audit/audit.ts'
import { type ForgetOrder, ForgetOrders } from '../records/forget-orders.ts'
import type { Store } from '../store/store.ts'

/** How often the orders are polled, and how long the store may take, in milliseconds. */
const POLL_INTERVAL_MS = 1000
const STORE_TIMEOUT_MS = 1000

interface Watched {
  store(): Store
  /** Undefined without an audit log. */
  audit(): Audit | undefined
  readonly log: Log
}

/** Follows the orders to forget people. */
export class ForgetWatch {
  readonly #watched: Watched
  /** The orders that were carried out, by the log. */
  readonly #done = new WeakMap<Audit, Set<string>>()
  #timer: Timer | undefined
  #working: Promise<void> | undefined

  constructor(watched: Watched) {
    this.#watched = watched
  }

  start(): void {
    this.#timer ??= world
      .setInterval(() => {
        this.#working ??= this.#work().finally(() => {
          this.#working = undefined
        })
      }, POLL_INTERVAL_MS)
      .unref()
  }

  /** Resolves once nothing is erased any more. */
  async close(): Promise<void> {
    world.clearInterval(this.#timer)
    await this.#working
  }

  /** Never rejects. */
  async #work(): Promise<void> {
    const audit = this.#watched.audit()
    if (!audit) return
    const orders = await ifAnswered(new ForgetOrders(this.#watched.store()).all(), STORE_TIMEOUT_MS)
    const done = this.#done.get(audit) ?? new Set<string>()
    this.#done.set(audit, done)
    for (const order of orders ?? []) if (!done.has(nameOf(order))) await this.#carryOut(order, audit, done)
    // What is no order any more need not be known.
    if (orders) for (const name of done) if (!orders.some((each) => nameOf(each) === name)) done.delete(name)
  }

  async #carryOut(order: ForgetOrder, audit: Audit, done: Set<string>): Promise<void> {
    const { log } = this.#watched
    try {
      const lines = await audit.forget(order)
      if (lines > 0) log.info('audit.forgotten', { file: audit.path, lines })
      done.add(nameOf(order))
    } catch (error) {
      log.error('audit.not_forgotten', { file: audit.path, reason: String(error) })
    }
  }
}

function nameOf({ person, at }: ForgetOrder): string {
  return `${person} ${at}`
}

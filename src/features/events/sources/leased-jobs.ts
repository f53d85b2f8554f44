/**
 * Work that goes on while a client wants its events, such as listening to a server: a job. Of the gateways that share a
 * store, the one with the lease does it, so that an event is logged once. The others wait for the lease: if its holder
 * ends, one of them takes over when it expires.
 */
import { hash } from 'node:crypto'
import { world } from '../../../core/world.ts'
import { GatewayError } from '../../../core/error.ts'
import { background } from '../../../core/log.ts'
import { pause, within } from '../../../core/time/waiting.ts'
import type { Services } from '../../feature.ts'

/** How long a job goes on after the last request for its events, in milliseconds. */
const IDLE_TIMEOUT_MS = 600_000
/** How long a lease lasts, how often it is renewed, and the pause after a failure, in milliseconds. */
const LEASE_MS = 30_000
const RENEWAL_INTERVAL_MS = 10_000
/** How long a caller waits until a job is ready, in milliseconds. */
const READY_TIMEOUT_MS = 2000

/** What a gateway does while it has the lease. */
export interface Job {
  /**
   * Works until it is aborted, and calls `onReady` once no event is missed any more. If it ends before, it is started
   * again when the lease is renewed. Never rejects.
   */
  run(controller: AbortController, onReady: () => void): Promise<void>
  /** Ends what would go on elsewhere, because its events are not wanted any more. Never rejects. */
  abandon?(): Promise<void>
}

/** Jobs by key; the key identifies a job among all gateways. */
export class LeasedJobs<Own extends Job> {
  readonly #deps: Pick<Services, 'log' | 'store' | 'identity'>
  readonly #running = new Map<string, Running<Own>>()
  #isClosed = false

  constructor(deps: Pick<Services, 'log' | 'store' | 'identity'>) {
    this.#deps = deps
  }

  /** The jobs that are wanted now. */
  get jobs(): ReadonlyMap<string, Own> {
    return new Map([...this.#running].map(([key, { job }]) => [key, job]))
  }

  /**
   * Keeps a job going for a while; resolves once it is ready, another gateway does it, or it takes too long.
   * @throws what `create` throws, which is called if the job is not going on
   */
  async keep(key: string, create: () => Own): Promise<void> {
    if (this.#isClosed) return
    const running = this.#running.get(key) ?? this.#start(key, create())
    running.usedAt = world.now()
    await within(running.ready, READY_TIMEOUT_MS, undefined)
  }

  close(): void {
    this.#isClosed = true
    for (const { controller } of this.#running.values()) end(controller)
  }

  #start(key: string, job: Own): Running<Own> {
    const { promise: ready, resolve: onReady } = Promise.withResolvers<void>()
    const running = { job, controller: new AbortController(), ready, usedAt: world.now() }
    this.#running.set(key, running)
    const lease = `event-lease:${hash('sha256', key).slice(0, 32)}`
    const ended = this.#run(running, lease, onReady).finally(() => this.#running.delete(key))
    background(ended, this.#deps.log)
    return running
  }

  /** Works while this process has the lease, until the job is not wanted any more. */
  async #run(running: Running<Own>, lease: string, onReady: () => void): Promise<void> {
    const { job, controller: wanted } = running
    let working: AbortController | undefined
    while (!wanted.signal.aborted && world.now() - running.usedAt < IDLE_TIMEOUT_MS) {
      const isHolder = await this.#hasLease(lease)
      if (!isHolder) {
        if (working) end(working)
        working = undefined
        onReady()
      } else if (!working || working.signal.aborted) {
        working = new AbortController()
        background(work(job, working, onReady), this.#deps.log)
      }
      await pause(RENEWAL_INTERVAL_MS, wanted.signal).catch(() => undefined)
    }
    if (working) end(working)
    if (working && !wanted.signal.aborted) await job.abandon?.()
    await this.#deps.store.compareAndDelete(lease, this.#owner).catch(() => false)
  }

  get #owner(): string {
    return this.#deps.identity.membership.id
  }

  /** Whether this process may work: it has the lease, or no gateway has. */
  async #hasLease(key: string): Promise<boolean> {
    const { store } = this.#deps
    try {
      const holder = await store.setIfAbsent(key, this.#owner, LEASE_MS)
      if (holder === undefined) return true
      return holder === this.#owner && (await store.compareAndSwap(key, holder, holder, LEASE_MS))
    } catch {
      // Without its store the gateway cannot keep events either.
      return false
    }
  }
}

interface Running<Own> {
  readonly job: Own
  readonly controller: AbortController
  /** Resolves once the job is ready, or another gateway does it. */
  readonly ready: Promise<void>
  usedAt: number
}

async function work(job: Job, controller: AbortController, onReady: () => void): Promise<void> {
  try {
    await job.run(controller, onReady)
  } finally {
    onReady()
    // It is started again when the lease is renewed.
    end(controller)
  }
}

function end(controller: AbortController): void {
  controller.abort(new GatewayError('CANCELLED', 'These events are not requested any more.'))
}

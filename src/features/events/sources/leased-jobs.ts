/**
 * Jobs that run while at least one client polls or subscribes, such as listening to a server. Of the gateways that share a
 * store, the one with the lease runs it, so that an event is logged once; if that one ends, another one takes over.
 */
import { hash } from 'node:crypto'
import { world } from '../../../core/world.ts'
import { GatewayError } from '../../../core/error.ts'
import { background, type Log } from '../../../core/log.ts'
import { pause, within } from '../../../core/time/waiting.ts'
import { type Lease, type LeasedWork, Leases } from '../../../durable/lease.ts'
import type { Services } from '../../feature.ts'

/** How long a job runs after the last request for its events, in milliseconds. */
const IDLE_TIMEOUT_MS = 600_000
/** How long a process that does not renew the lease of a job keeps it, in milliseconds. */
const LEASE_TTL_MS = 30_000
/** How long a caller waits until a job is ready, in milliseconds. */
const READY_TIMEOUT_MS = 2000

/** What a gateway does while it holds the lease. */
export interface Job {
  /**
   * Works until it is aborted, and calls `onReady` once no event is missed any more. If it ends before, it is started
   * again a while later. Never rejects.
   */
  run(controller: AbortController, onReady: () => void, lease: Lease): Promise<void>
  /** Ends what another gateway would continue, because no client has polled its events for a while. Never rejects. */
  abandon?(): Promise<void>
}

/** Jobs by key; the key identifies a job among all gateways. */
export class LeasedJobs<Each extends Job> {
  readonly #log: Log
  readonly #leases: Leases
  readonly #running = new Map<string, Running<Each>>()
  readonly #closing = new AbortController()

  constructor({ log, store, identity }: Pick<Services, 'log' | 'store' | 'identity'>) {
    this.#log = log
    this.#leases = new Leases(store, identity.membership)
  }

  /** The jobs that are retained now. */
  get jobs(): ReadonlyMap<string, Each> {
    return new Map([...this.#running].map(([key, { job }]) => [key, job]))
  }

  /**
   * Retains a job for a while; resolves once it is ready, another gateway runs it, or it takes too long.
   * @throws what `create` throws, which is called if the job does not run
   */
  async keep(key: string, create: () => Each): Promise<void> {
    if (this.#closing.signal.aborted) return
    const running = this.#running.get(key) ?? this.#start(key, create())
    running.usedAt = world.now()
    await within(running.ready, READY_TIMEOUT_MS, undefined)
  }

  /** Resolves once all jobs have ended and their leases are released. */
  async close(): Promise<void> {
    this.#closing.abort()
    await Promise.all([...this.#running.values()].map(({ work }) => work.stop()))
  }

  #start(key: string, job: Each): Running<Each> {
    const { promise: ready, resolve: onReady } = Promise.withResolvers<void>()
    const work = this.#leases.whileHeld(`event:${hash('sha256', key).slice(0, 32)}`, LEASE_TTL_MS, {
      run: (lease) => run(job, lease, onReady),
      onHeldElsewhere: onReady,
      onStop: async () => {
        if (!this.#closing.signal.aborted) await job.abandon?.()
      },
      onFailed: (error) => background(Promise.reject(error), this.#log),
    })
    const running = { job, work, ready, usedAt: world.now() }
    this.#running.set(key, running)
    const ended = this.#untilIdle(running)
      .then(() => work.stop())
      .finally(() => this.#running.delete(key))
    background(ended, this.#log)
    return running
  }

  /** Resolves once no client has requested the events of a job for a while, or all jobs are closed. */
  async #untilIdle(running: Running<Each>): Promise<void> {
    const { signal } = this.#closing
    for (;;) {
      const left = running.usedAt + IDLE_TIMEOUT_MS - world.now()
      if (left <= 0 || signal.aborted) return
      await pause(left, signal).catch(() => undefined)
    }
  }
}

interface Running<Each> {
  readonly job: Each
  readonly work: LeasedWork
  /** Resolves once the job is ready, or another gateway runs it. */
  readonly ready: Promise<void>
  usedAt: number
}

async function run(job: Job, lease: Lease, onReady: () => void): Promise<void> {
  const controller = new AbortController()
  const end = (): void =>
    controller.abort(new GatewayError('CANCELLED', 'These events are not requested any more.'))
  lease.lost.addEventListener('abort', end)
  try {
    await job.run(controller, onReady, lease)
  } finally {
    lease.lost.removeEventListener('abort', end)
    onReady()
    end()
  }
}

/** Calls that wait for the approval of others; the store is polled for all of them at once. */
import { deadlineSlot } from '../../core/slot.ts'
import { type Timer, world } from '../../core/world.ts'
import { Payload } from '../../core/payload.ts'
import type { Call } from '../../core/call.ts'
import { bytesOf, type HeldMemory } from '../../core/holdings.ts'
import { hasReachedShare, type Principal } from '../../core/principal.ts'
import { untilAborted } from '../../core/time/waiting.ts'
import type { Approval } from '../../records/approvals.ts'

/** How often the store is polled, and how often a waiting call sends progress to its client, in milliseconds. */
const POLL_INTERVAL_MS = 300
const HEARTBEAT_INTERVAL_MS = 10_000
/** How many calls may wait. */
const MAX_WAITING_CALLS = 1000

interface WaitingCall {
  readonly approval: string
  readonly principal: Principal
  /** When the wait ends. */
  readonly until: number
  notifiedAt: number
  notify(): void
  end(): void
}

/** Calls that wait for people, all under one timer. `find` looks up an approval. */
export class Waiting {
  readonly #find: (id: string) => Promise<Approval | undefined>
  readonly #held: HeldMemory
  readonly #waiting = new Map<number, WaitingCall>()
  #last = 0
  #timer: Timer | undefined
  #isPolling = false

  constructor(find: (id: string) => Promise<Approval | undefined>, held: HeldMemory) {
    this.#find = find
    this.#held = held
  }

  /**
   * Waits until an approval is decided, at most `timeout` milliseconds, and not at all if too many calls wait already.
   * Returns the call to continue with. @throws the reason of the call's signal
   */
  async wait(call: Call, approval: string, timeout: number): Promise<Call> {
    const { principal, signal } = call
    const isFull =
      this.#waiting.size >= MAX_WAITING_CALLS ||
      hasReachedShare(
        principal,
        this.#waiting,
        (waitingCall) => waitingCall.principal.id,
        MAX_WAITING_CALLS,
      ) ||
      !this.#held.fits(principal, bytesOf(call))
    if (isFull || timeout <= 0) return call
    const resumeDeadline = deadlineSlot.of(call)?.pause()
    const key = ++this.#last
    this.#held.change(principal, bytesOf(call))
    const reporter = createProgressReporter(call)
    try {
      await untilAborted(
        new Promise<void>((end) => {
          const now = world.monotonic()
          const { notify } = reporter
          this.#waiting.set(key, { approval, principal, until: now + timeout, notifiedAt: now, notify, end })
          this.#timer ??= world.setInterval(() => void this.#poll(), POLL_INTERVAL_MS).unref()
        }),
        signal,
      )
      return reporter.after()
    } finally {
      this.#waiting.delete(key)
      this.#held.change(principal, -bytesOf(call))
      if (this.#waiting.size === 0) this.#stop()
      resumeDeadline?.()
    }
  }

  /** Lets all waiting calls continue. */
  close(): void {
    for (const { end } of this.#waiting.values()) end()
    this.#stop()
  }

  #stop(): void {
    world.clearInterval(this.#timer)
    this.#timer = undefined
  }

  async #poll(): Promise<void> {
    if (this.#isPolling) return
    this.#isPolling = true
    const now = world.monotonic()
    const byApproval = Map.groupBy(this.#waiting.values(), ({ approval }) => approval)
    for (const [id, calls] of byApproval) {
      // A temporary failure of the store counts as pending.
      const found = await this.#find(id).catch(() => pending)
      for (const waitingCall of calls) {
        if (found?.status !== 'pending' || waitingCall.until <= now) waitingCall.end()
        else sendHeartbeat(waitingCall, now)
      }
    }
    this.#isPolling = false
  }
}

const pending = { status: 'pending' } as const

function sendHeartbeat(waitingCall: WaitingCall, now: number): void {
  if (now - waitingCall.notifiedAt < HEARTBEAT_INTERVAL_MS) return
  waitingCall.notifiedAt = now
  waitingCall.notify()
}

/** Reports progress of a waiting call to its client. Later progress of the server has to be greater. */
function createProgressReporter(call: Call): { notify(): void; after(): Call } {
  const progressToken = call.params.at('_meta')?.at('progressToken')
  let last = 0
  return {
    notify: () => {
      if (!progressToken) return
      last += 0.001
      const params = Payload.of({ progress: last, message: 'Waiting for approval.' }).with({ progressToken })
      call.emit({ method: 'notifications/progress', params })
    },
    after: () => {
      if (last === 0) return call
      return {
        ...call,
        emit: (notification) => {
          const progress = notification.params?.fields.progress
          const isOutdated = notification.method === 'notifications/progress' && Number(progress) <= last
          if (!isOutdated) call.emit(notification)
        },
      }
    },
  }
}

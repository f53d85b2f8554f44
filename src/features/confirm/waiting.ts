/** Calls that wait a while for a decision on the page; the store is polled for all of them at once. */
import { Payload } from '../../core/payload.ts'
import type { Call } from '../../core/call.ts'
import { hasReachedShare, type Principal } from '../../core/principal.ts'
import { untilAborted } from '../../core/time/waiting.ts'
import type { Approval } from '../../records/approvals.ts'

/** How often the store is looked into, and how often a client gets progress for a waiting call, in milliseconds. */
const POLL_INTERVAL_MS = 300
const HEARTBEAT_INTERVAL_MS = 10_000
/** How many calls may wait. */
const MAX_WAITING_CALLS = 1000

interface Held {
  readonly approval: string
  readonly principal: Principal
  /** When it is given up. */
  readonly until: number
  toldAt: number
  tell(): void
  end(): void
}

/** Calls that wait for people, all under one timer. `find` looks up an approval. */
export class Waiting {
  readonly #find: (id: string) => Promise<Approval | undefined>
  readonly #limit: number
  readonly #held = new Map<number, Held>()
  #last = 0
  #timer: NodeJS.Timeout | undefined
  #isLooking = false

  constructor(find: (id: string) => Promise<Approval | undefined>, limit = MAX_WAITING_CALLS) {
    this.#find = find
    this.#limit = limit
  }

  /**
   * Waits until an approval is decided, so long at most, and not at all where too many calls wait. The call as it
   * goes on. @throws the reason of the call's signal
   */
  async wait(call: Call, approval: string, patience: number): Promise<Call> {
    const { principal, signal } = call
    const isFull =
      this.#held.size >= this.#limit ||
      hasReachedShare(principal, this.#held, (held) => held.principal.id, this.#limit)
    if (isFull || patience <= 0) return call
    const started = call.pauseDeadline?.()
    const key = ++this.#last
    const told = telling(call)
    try {
      await untilAborted(
        new Promise<void>((end) => {
          const now = performance.now()
          const { tell } = told
          this.#held.set(key, { approval, principal, until: now + patience, toldAt: now, tell, end })
          this.#timer ??= setInterval(() => void this.#look(), POLL_INTERVAL_MS).unref()
        }),
        signal,
      )
      return told.after()
    } finally {
      this.#held.delete(key)
      if (this.#held.size === 0) this.#stop()
      started?.()
    }
  }

  /** Lets all go on that wait. */
  close(): void {
    for (const { end } of this.#held.values()) end()
    this.#stop()
  }

  #stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  async #look(): Promise<void> {
    if (this.#isLooking) return
    this.#isLooking = true
    const now = performance.now()
    const byApproval = Map.groupBy(this.#held.values(), ({ approval }) => approval)
    for (const [id, all] of byApproval) {
      // A store that fails just then is asked again.
      const found = await this.#find(id).catch(() => pending)
      for (const held of all) {
        if (found?.status !== 'pending' || held.until <= now) held.end()
        else beat(held, now)
      }
    }
    this.#isLooking = false
  }
}

const pending = { status: 'pending' } as const

function beat(held: Held, now: number): void {
  if (now - held.toldAt < HEARTBEAT_INTERVAL_MS) return
  held.toldAt = now
  held.tell()
}

/** Tells a client that asked for progress that its call waits. What the server tells later has to be more. */
function telling(call: Call): { tell(): void; after(): Call } {
  const progressToken = call.params.at('_meta')?.at('progressToken')
  let last = 0
  return {
    tell: () => {
      if (!progressToken) return
      last += 0.001
      const params = Payload.of({ progress: last, message: 'Waiting for approval.' }).with({ progressToken })
      call.emit({ method: 'notifications/progress', params })
    },
    after: () => {
      if (last === 0) return call
      return {
        ...call,
        emit: (note) => {
          const progress = note.params?.fields.progress
          const isLess = note.method === 'notifications/progress' && Number(progress) <= last
          if (!isLess) call.emit(note)
        },
      }
    },
  }
}

/**
 * Calls that wait for a decision on a page; the store is polled for all of them at once. A call waits as long as its client
 * does, and never runs without it: if the client leaves, the approval stays for the next equal call.
 */
import { awaitsApprovalSlot, deadlineSlot, deliverySlot, detachedSlot, trailSlot } from '../../core/slot.ts'
import { type Timer, world } from '../../core/world.ts'
import { Payload } from '../../core/payload.ts'
import type { Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { bytesOf, type HeldMemory } from '../../core/holdings.ts'
import { hasReachedShare } from '../../core/principal.ts'
import { untilAborted } from '../../core/time/waiting.ts'
import { metaKeys } from '../../protocol/meta-keys.ts'
import { severity } from '../../protocol/methods.ts'
import type { Approvals } from '../../records/approvals.ts'
import { operationSlot } from '../../records/operations.ts'

/** How often the store is polled, and how often a waiting call sends progress to its client, in milliseconds. */
const POLL_INTERVAL_MS = 300
const HEARTBEAT_INTERVAL_MS = 5_000
/** How many calls may wait. */
const MAX_WAITING_CALLS = 1000

/**
 * How long a call waits: for a client that is not known, at most, and how much earlier than its client, in milliseconds. Clients
 * of the Java SDK have a timeout of 20 s, and a client that times out never learns where its call can be approved.
 */
const DEFAULT_WAIT_MS = 15_000
const MAX_WAIT_MS = 240_000
const MARGIN_MS = 10_000

/** How long a client waits for the result of a tool. */
interface Patience {
  /** The beginning of `clientInfo.name`, in lower case. */
  readonly name: string
  /** In milliseconds, as the client is installed; infinite if it does not end calls. */
  readonly timeout: number
  /** Progress restarts it. */
  readonly isRestarted?: true
}

/**
 * The clients that are known to wait longer than the default, by their documentation and source code. Those that are built on
 * the TypeScript SDK and set nothing have its timeout of 60 s. Claude Code has 60 s for a request over HTTP, and the Inspector
 * for a call with all its progress.
 */
const patientClients: readonly Patience[] = [
  { name: 'claude-code', timeout: 60_000 },
  { name: 'claude-ai', timeout: 60_000 },
  { name: 'visual studio code', timeout: Infinity },
  { name: 'cursor', timeout: 60_000 },
  { name: 'windsurf', timeout: 60_000 },
  { name: 'codex-mcp-client', timeout: 60_000 },
  { name: 'gemini-cli-mcp-client', timeout: 600_000 },
  { name: 'opencode', timeout: 60_000, isRestarted: true },
  { name: 'goose', timeout: 300_000 },
  { name: 'zed', timeout: 60_000 },
  { name: 'inspector-client', timeout: 60_000 },
]

/** How long a call may wait for a decision: as configured, else as long as its client does, in milliseconds. */
export function waitOf(call: Call, setting: number | 'off' | undefined): number {
  if (setting !== undefined) return setting === 'off' ? 0 : setting
  const stated = call.client.info?.name
  const name = typeof stated === 'string' ? stated.toLowerCase() : ''
  const client = patientClients.find((each) => name.startsWith(each.name))
  if (!client) return DEFAULT_WAIT_MS
  const isRestarted = client.isRestarted === true && progressTokenOf(call) !== undefined
  return isRestarted ? MAX_WAIT_MS : Math.min(client.timeout - MARGIN_MS, MAX_WAIT_MS)
}

function progressTokenOf({ params }: Call): Payload | undefined {
  return params.at('_meta')?.at('progressToken')
}

/** What a call waits for. */
interface AwaitedApproval {
  /** The id of the approval. */
  readonly approval: string
  /** In milliseconds; a call that has no request any more waits until it is decided or expires. */
  readonly timeout: number
  /** What is sent to the client during the wait: where a person decides. */
  readonly message: string
}

interface WaitingCall {
  readonly call: Call
  readonly approval: string
  /** When the wait ends. */
  readonly until: number
  notifiedAt: number
  /** Sends progress; false if no one receives it. */
  notify(): boolean
  end(): void
}

/** Calls that wait for people, all under one timer. Their approvals say whether a call waits. */
export class Waiting {
  readonly #approvals: Pick<Approvals, 'find' | 'noteWaiting'>
  readonly #held: HeldMemory
  readonly #waiting = new Map<number, WaitingCall>()
  #last = 0
  #timer: Timer | undefined
  #isPolling = false

  constructor(approvals: Pick<Approvals, 'find' | 'noteWaiting'>, held: HeldMemory) {
    this.#approvals = approvals
    this.#held = held
  }

  /**
   * Waits until an approval is decided, and not at all if too many calls wait already. Returns the call to continue with;
   * undefined if its client has left. @throws the reason of the call's signal
   */
  async wait(call: Call, { approval, timeout, message }: AwaitedApproval): Promise<Call | undefined> {
    const { principal, signal } = call
    const isFull =
      this.#waiting.size >= MAX_WAITING_CALLS ||
      hasReachedShare(
        principal,
        this.#waiting,
        (waitingCall) => waitingCall.call.principal.id,
        MAX_WAITING_CALLS,
      ) ||
      !this.#held.fits(principal, bytesOf(call))
    if (isFull || timeout <= 0) {
      await this.#noteEnd(approval)
      return call
    }
    const resumeDeadline = deadlineSlot.of(call)?.pause()
    const decided = trailSlot.of(call)?.begin('people')
    awaitsApprovalSlot.of(call)?.(approval)
    const key = ++this.#last
    this.#held.change(principal, bytesOf(call))
    const { notify, after } = createProgressReporter(call, message)
    logTo(call, message)
    try {
      await untilAborted(
        new Promise<void>((end) => {
          const now = world.monotonic()
          const waitingCall = { call, approval, until: now + timeout, notifiedAt: -Infinity, notify, end }
          this.#waiting.set(key, waitingCall)
          sendHeartbeat(waitingCall, now)
          this.#timer ??= world.setInterval(() => void this.#poll(), POLL_INTERVAL_MS).unref()
        }),
        signal,
      )
      return isLeft(call) ? undefined : after()
    } finally {
      this.#waiting.delete(key)
      this.#held.change(principal, -bytesOf(call))
      if (this.#waiting.size === 0) this.#stop()
      await this.#noteEnd(approval)
      resumeDeadline?.()
      decided?.()
    }
  }

  /** A call does not wait any more. If another gateway has one that does, that gateway notes so. */
  async #noteEnd(approval: string): Promise<void> {
    const isLast = [...this.#waiting.values()].every((each) => each.approval !== approval)
    if (isLast) await this.#approvals.noteWaiting(approval, false).catch(() => undefined)
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
      const found = await this.#approvals.find(id).catch(() => pending)
      if (found && 'mustRepeat' in found) await this.#approvals.noteWaiting(id, true).catch(() => undefined)
      for (const waitingCall of calls) {
        const { call, until } = waitingCall
        const isOver = (until <= now && !isDetached(call)) || isLeft(call)
        if (found?.status !== 'pending' || isOver) waitingCall.end()
        else sendHeartbeat(waitingCall, now)
      }
    }
    this.#isPolling = false
  }
}

const pending = { status: 'pending' } as const

/** Whether the call is a task, which needs no request. */
function isDetached(call: Call): boolean {
  return detachedSlot.of(call)?.() === true
}

/** Whether the answer to the call would not reach its client. */
function isLeft(call: Call): boolean {
  return !isDetached(call) && deliverySlot.of(call)?.isLost() === true
}

/**
 * A call that continues after a restart has no client, unless it is a task: the approval stays for the next equal call.
 * @throws CONFIRMATION_REQUIRED
 */
export function mustHaveClient(call: Call): void {
  const operation = operationSlot.of(call)
  if (!operation || operation.isTask) return
  const message = 'A person has to confirm this call, and its client was lost when the gateway went down.'
  throw new GatewayError('CONFIRMATION_REQUIRED', message, { isUnsent: true })
}

function sendHeartbeat(waitingCall: WaitingCall, now: number): void {
  if (now - waitingCall.notifiedAt < HEARTBEAT_INTERVAL_MS) return
  if (waitingCall.notify()) waitingCall.notifiedAt = now
}

/** Sends the message as a log message, if the client has asked for those. */
function logTo(call: Call, message: string): void {
  const wanted = severity(call.meta[metaKeys.logLevel])
  if (wanted < 0 || wanted > severity(LEVEL)) return
  const params = Payload.of({ level: LEVEL, logger: 'gatehouse', data: message })
  call.emit({ method: 'notifications/message', params })
}

const LEVEL = 'notice'

/** Reports progress of a waiting call to its client. Later progress of the server has to be greater. */
function createProgressReporter(call: Call, message: string): { notify(): boolean; after(): Call } {
  const progressToken = progressTokenOf(call)
  let last = 0
  return {
    notify: () => {
      // Whoever asks for the state of a task reads the message.
      if (!progressToken && !isDetached(call)) return false
      last += 0.001
      const params = Payload.of({ progress: last, message })
      const sent = progressToken ? params.with({ progressToken }) : params
      call.emit({ method: 'notifications/progress', params: sent })
      return true
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

/**
 * Deadlines of calls: the longest silence and the longest duration. Time that a person takes does not count.
 */
import { detachedSlot, deadlineSlot } from '../core/slot.ts'
import { type Timer, world } from '../core/world.ts'
import type { Call, Notification } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { Registry } from '../core/registry.ts'
import { type Settings as GatewaySettings, type UpstreamSettings, settingOf } from '../core/settings.ts'
import { isListening } from '../protocol/methods.ts'
import { type Feature, settingsFor } from './feature.ts'
import { toolFacts } from './offers.ts'
import { type DeadlineSettings, limitsSchema } from './settings/admit.ts'

/** Limits how long a call may take. Progress restarts the timeout, up to the longest duration of a call. */
export const limits: Feature<DeadlineSettings> = {
  ...limitsSchema,
  create: (settings, { servers: { settings: server } }) => {
    const running = new Registry<number, Deadline>()
    /** Runs while there are calls. */
    let sweep: Timer | undefined
    const check = (): void => {
      const now = world.now()
      for (const deadline of running.values()) deadline.check(now)
      if (running.size > 0) return
      world.clearInterval(sweep)
      sweep = undefined
    }
    let last = 0

    return {
      calls: {
        middleware: ({ upstream, method, name }) => {
          if (isListening(method) || method.startsWith('notifications/')) return undefined
          const tools =
            method === 'tools/call' && upstream !== undefined ? server(upstream)?.tools : undefined
          const { silence, total } = boundsOf(settings(upstream), tools, name)
          return (next) => async (call) => {
            const key = ++last
            const deadline = new Deadline(call, silence, total)
            running.set(key, deadline)
            sweep ??= world.setInterval(check, TICK_MS).unref()
            try {
              return await next(deadline.call)
            } finally {
              running.delete(key)
            }
          }
        },
        dryRun: 'same',
      },
      offers: [
        toolFacts.offer(({ upstream, name }) => ({
          timeout: silenceOf(settings(upstream).timeout, server(upstream)?.tools, name),
        })),
      ],
    }
  },
}

/** The longest silence of a call's server, and the longest duration of a call, in milliseconds. */
export interface CallBounds {
  readonly silence: number
  /** Infinite if nothing ends a call. */
  readonly total: number
}

/** The assumed longest silence of a call without limits, in milliseconds. */
const UNLIMITED_SILENCE_MS = 600_000

/** The bounds of calls of a tool. If limits are off, only the client ends a call. */
export function callBounds(settings: GatewaySettings, upstream: string, tool: string): CallBounds {
  const tools = settings.upstreams.find(({ name }) => name === upstream)?.tools
  const serverSettings = settingsFor(limits, settings, upstream)
  const unlimited = { timeout: UNLIMITED_SILENCE_MS, max_timeout: Number.POSITIVE_INFINITY }
  return boundsOf(serverSettings === false ? unlimited : serverSettings, tools, tool)
}

function boundsOf(
  { timeout, max_timeout: maxTimeout }: DeadlineSettings,
  tools: UpstreamSettings['tools'] | undefined,
  tool: string | undefined,
): CallBounds {
  return {
    silence: silenceOf(timeout, tools, tool),
    total: Math.max(maxTimeout, silenceOf(0, tools, tool)),
  }
}

/** The longest silence of a call, in milliseconds: the tool's setting, otherwise `timeout`. */
function silenceOf(
  timeout: number,
  tools: UpstreamSettings['tools'] | undefined,
  tool: string | undefined,
): number {
  const toolTimeout = tools && tool !== undefined ? settingOf(tools, tool, 'timeout')?.value : undefined
  return toolTimeout ?? timeout
}

/** The precision of deadlines, in milliseconds. */
const TICK_MS = 100

/** A call with a deadline. */
class Deadline {
  readonly call: Call
  #start = world.now()
  readonly #silence: number
  readonly #total: number
  #activeAt = this.#start
  #pauses = 0

  constructor(call: Call, silence: number, total: number) {
    this.#silence = silence
    this.#total = total
    const emit = (notification: Notification): void => {
      this.#activeAt = world.now()
      call.emit(notification)
    }
    const deadline = {
      pause: () => this.#pause(),
      renew: () => {
        this.#activeAt = world.now()
      },
    }
    this.call = { ...call, emit, slots: deadlineSlot.put(deadline, call.slots) }
  }

  /** Aborts the call if its deadline has passed. */
  check(now: number): void {
    if (this.#pauses > 0) return
    const isSilent = now - this.#activeAt >= this.#silence && detachedSlot.of(this.call)?.() !== true
    if (!isSilent && now - this.#start < this.#total) return
    const seconds = (isSilent ? this.#silence : this.#total) / 1000
    this.call.abort(
      new GatewayError('OPERATION_TIMEOUT', `The server did not respond within ${seconds} s.`, {
        suggestion: 'Try again, or raise limits.timeout for this server.',
      }),
    )
  }

  #pause(): () => void {
    this.#pauses++
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#pauses--
      this.#start = this.#activeAt = world.now()
    }
  }
}

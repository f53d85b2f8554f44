/**
 * Deadlines of calls: the longest silence and the longest duration. Time that a person takes does not count.
 */
import type { Call, Notification } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { Registry } from '../core/registry.ts'
import { type Settings as GatewaySettings, type UpstreamSettings, settingOf } from '../core/settings.ts'
import { durationSchema } from '../core/time/units.ts'
import { type Feature, settingsFor } from './feature.ts'

/** In milliseconds. */
interface Settings {
  readonly timeout: number
  readonly max_timeout: number
}

/** Bounds how long a call may take. Progress starts the time anew, up to the longest a call may ever take. */
export const limits: Feature<Settings> = {
  name: 'limits',
  place: 'limits',
  schema: {
    type: 'object',
    properties: {
      timeout: {
        ...durationSchema,
        default: '30s',
        description:
          'How long a call may be silent: answered, or at least heard of by progress, within this time.',
      },
      max_timeout: {
        ...durationSchema,
        default: '10m',
        description: 'How long a call may take, whatever it says.',
      },
    },
  },
  create: (settings, { servers: { settings: server } }) => {
    const running = new Registry<number, Deadline>()
    const sweep = setInterval(() => {
      const now = Date.now()
      for (const deadline of running.values()) deadline.check(now)
      if (isClosed && running.size === 0) clearInterval(sweep)
    }, TICK_MS).unref()
    let last = 0
    let isClosed = false

    return {
      toolFacts: ({ upstream, name }) => ({
        timeout: silenceOf(settings(upstream).timeout, server(upstream)?.tools, name),
      }),
      middleware: ({ upstream, method, name }) => {
        if (method === 'subscriptions/listen' || method.startsWith('notifications/')) return undefined
        const tools = method === 'tools/call' && upstream !== undefined ? server(upstream)?.tools : undefined
        const { silence, total } = boundsOf(settings(upstream), tools, name)
        return (next) => async (call) => {
          const key = ++last
          const deadline = new Deadline(call, silence, total)
          running.set(key, deadline)
          try {
            return await next(deadline.call)
          } finally {
            running.delete(key)
          }
        }
      },
      // Calls under way keep their deadlines to their end.
      close: async () => {
        isClosed = true
      },
    }
  },
}

/** How long a call may be without a sign of its server, and how long it may take in all, in milliseconds. */
export interface CallBounds {
  readonly silence: number
  /** Infinite where nothing ends a call. */
  readonly total: number
}

/** How long a call is taken to be silent at most where nothing ends it, in milliseconds. */
const UNLIMITED = 600_000

/** The bounds of a call of a tool. Where limits are off nothing but its client ends it. */
export function callBounds(settings: GatewaySettings, upstream: string, tool: string): CallBounds {
  const tools = settings.upstreams.find(({ name }) => name === upstream)?.tools
  const own = settingsFor(limits, settings, upstream)
  const unlimited = { timeout: UNLIMITED, max_timeout: Number.POSITIVE_INFINITY }
  return boundsOf(own === false ? unlimited : own, tools, tool)
}

function boundsOf(
  { timeout, max_timeout: longest }: Settings,
  tools: UpstreamSettings['tools'] | undefined,
  tool: string | undefined,
): CallBounds {
  return {
    silence: silenceOf(timeout, tools, tool),
    total: Math.max(longest, silenceOf(0, tools, tool)),
  }
}

/** How long a call may be silent, in milliseconds: what the settings say of its tool, else `timeout`. */
function silenceOf(
  timeout: number,
  tools: UpstreamSettings['tools'] | undefined,
  tool: string | undefined,
): number {
  const own = tools && tool !== undefined ? settingOf(tools, tool, 'timeout')?.value : undefined
  return own ?? timeout
}

/** How exact deadlines are, in milliseconds. */
const TICK_MS = 100

/** One call with a time to end by. */
class Deadline {
  readonly call: Call
  #start = Date.now()
  readonly #silence: number
  readonly #total: number
  #heardAt = this.#start
  #resting = 0

  constructor(call: Call, silence: number, total: number) {
    this.#silence = silence
    this.#total = total
    const emit = (note: Notification): void => {
      this.#heardAt = Date.now()
      call.emit(note)
    }
    this.call = { ...call, emit, pauseDeadline: () => this.#rest() }
  }

  /** Ends the call if its time is over. */
  check(now: number): void {
    if (this.#resting > 0) return
    const isSilent = now - this.#heardAt >= this.#silence
    if (!isSilent && now - this.#start < this.#total) return
    const seconds = (isSilent ? this.#silence : this.#total) / 1000
    this.call.abort(
      new GatewayError('OPERATION_TIMEOUT', `The server did not answer within ${seconds} s.`, {
        suggestion: 'Try again, or raise limits.timeout for this server.',
      }),
    )
  }

  #rest(): () => void {
    this.#resting++
    let isOver = false
    return () => {
      if (isOver) return
      isOver = true
      this.#resting--
      this.#start = this.#heardAt = Date.now()
    }
  }
}

import type { Call, Note } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { durationSchema, milliseconds } from '../core/units.ts'
import type { Feature } from './feature.ts'

interface Settings {
  readonly timeout: string | number
  readonly max_timeout: string | number
}

/** Bounds how long a call may take. Progress starts the time anew, up to the longest a call may ever take. */
export const limits: Feature<Settings> = {
  name: 'limits',
  place: 'top',
  schema: {
    type: 'object',
    properties: {
      timeout: {
        ...durationSchema,
        default: '30s',
        description: 'How long a call may be silent: answered, or at least heard of by progress, within this time.',
      },
      max_timeout: { ...durationSchema, default: '10m', description: 'How long a call may take, whatever it says.' },
    },
  },
  create: (settings) => ({
    policy: ({ upstream, method }) => {
      if (method === 'subscriptions/listen' || method.startsWith('notifications/')) return undefined
      const { timeout, max_timeout: longest } = settings(upstream)
      const silence = milliseconds(timeout)
      const total = milliseconds(longest)
      return (next) => async (call) => {
        const deadline = new Deadline(call, silence, total)
        try {
          return await next(deadline.call)
        } finally {
          deadline.end()
        }
      }
    },
  }),
}

/** One call with a time to end by. */
class Deadline {
  readonly call: Call
  readonly #outer: AbortSignal
  readonly #controller = new AbortController()
  readonly #until: number
  readonly #silence: number
  #timer: NodeJS.Timeout
  readonly #abort = (): void => this.#controller.abort(this.#outer.reason)

  constructor(call: Call, silence: number, total: number) {
    this.#outer = call.signal
    this.#silence = silence
    this.#until = Date.now() + total
    this.#timer = this.#start(Math.min(silence, total))
    if (call.signal.aborted) this.#abort()
    else call.signal.addEventListener('abort', this.#abort)
    const emit = (note: Note): void => {
      this.#heard()
      call.emit(note)
    }
    this.call = { ...call, signal: this.#controller.signal, emit }
  }

  end(): void {
    clearTimeout(this.#timer)
  }

  #heard(): void {
    clearTimeout(this.#timer)
    this.#timer = this.#start(Math.min(this.#silence, this.#until - Date.now()))
  }

  #start(milliseconds: number): NodeJS.Timeout {
    return setTimeout(() => {
      const seconds = Math.round(milliseconds / 1000)
      this.#controller.abort(
        new GatewayError('OPERATION_TIMEOUT', `The server did not answer within ${seconds} s.`, {
          suggestion: 'Try again, or raise limits.timeout for this server.',
        }),
      )
    }, milliseconds).unref()
  }
}

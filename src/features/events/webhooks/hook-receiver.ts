/**
 * Receives webhooks of other services at `/hooks/<server>/<name>`, and at `/hooks/<name>` for those of no server.
 *
 * Invariants: no body is read for a hook that does not exist, or without the headers of a signature; nothing of a request is
 * used before its signature is verified; a webhook is accepted once, and only after
 * it was stored, so the sender may forget it. A replay gets the response of the first one and does nothing. One that
 * cannot be stored is refused, and may be sent again.
 */
import { LRUCache } from 'lru-cache'
import { GatewayError } from '../../../core/error.ts'
import type { Secret } from '../../../core/text/secret.ts'
import { type HookForm, isSigned, verifyHook } from './hook-signatures.ts'
import type { HeadersIn } from './standard-webhooks.ts'

/** How many accepted webhooks of each hook are remembered, and for how long, in milliseconds. */
const MAX_REMEMBERED = 10_000
const REMEMBERED_MS = 24 * 60 * 60_000
/** How many webhooks of one hook, or of all servers with events of their own, may be stored at the same time. */
export const MAX_IN_FLIGHT = 100

/** A place for the webhooks of one service. */
interface Hook {
  readonly form: HookForm
  /** The secret that the service signs with; several while it changes. */
  readonly secrets: readonly Secret[]
}

/** A webhook that was verified; the names of headers are in lower case, and the body is as it was sent. */
export interface HookRequest {
  readonly server?: string
  readonly name: string
  readonly headers: HeadersIn
  readonly body: string
}

/** The same before its body is read. */
export interface ArrivingRequest extends Omit<HookRequest, 'body'> {
  body(): Promise<string>
}

interface Options {
  hook(server: string | undefined, name: string): Hook | undefined
  /** Stores a verified webhook, unless it is INVALID_REQUEST; what follows from it happens later. `replayKey` identifies it within its hook. */
  store(request: HookRequest, replayKey: string): Promise<void>
  /** In milliseconds since 1970. */
  now(): number
}

/** The webhooks that one hook accepted, and those that are being stored. */
interface Memory {
  readonly accepted: LRUCache<string, number>
  readonly storing: Map<string, Promise<void>>
}

/** Receives webhooks. */
export class HookReceiver {
  readonly #options: Options
  readonly #memories = new Map<string, Memory>()

  constructor(options: Options) {
    this.#options = options
  }

  /**
   * Accepts a webhook; resolves once it is stored.
   * @throws UNSUPPORTED_OPERATION for an unknown hook, AUTHENTICATION_REQUIRED, INVALID_REQUEST for a wrong time or
   * body, OVERLOADED, SERVER_UNAVAILABLE if it cannot be stored, and what reading its body throws
   */
  async receive(arriving: ArrivingRequest): Promise<void> {
    const { hook: find, now } = this.#options
    const hook = find(arriving.server, arriving.name)
    if (!hook) throw new GatewayError('UNSUPPORTED_OPERATION', 'Not found.')
    if (!isSigned(hook.form, arriving.headers)) throw hookRefusal('headers')
    const request = { ...arriving, body: await arriving.body() }
    const check = verifyHook(hook.form, request, { secrets: hook.secrets, now: now() })
    if (check.kind === 'invalid') throw hookRefusal(check.reason)

    const { accepted, storing } = this.#memoryOf(request)
    const { replayKey } = check
    if ((accepted.get(replayKey) ?? 0) > now()) return
    const running = storing.get(replayKey)
    if (running) return running
    if (storing.size >= MAX_IN_FLIGHT) throw hookOverload()
    const work = this.#store(request, replayKey)
    storing.set(replayKey, work)
    try {
      await work
      accepted.set(replayKey, now() + REMEMBERED_MS)
    } finally {
      storing.delete(replayKey)
    }
  }

  async #store(request: HookRequest, replayKey: string): Promise<void> {
    try {
      await this.#options.store(request, replayKey)
    } catch (cause) {
      if (cause instanceof GatewayError && cause.code === 'INVALID_REQUEST') throw cause
      throw new GatewayError('SERVER_UNAVAILABLE', 'The webhook cannot be stored. Send it again later.', {
        cause,
      })
    }
  }

  /** The memory of a hook that exists: there are as many as the configuration has hooks. */
  #memoryOf({ server, name }: HookRequest): Memory {
    const key = server === undefined ? name : `${server}/${name}`
    let memory = this.#memories.get(key)
    if (!memory) {
      memory = { accepted: new LRUCache({ max: MAX_REMEMBERED }), storing: new Map() }
      this.#memories.set(key, memory)
    }
    return memory
  }
}

/** Why a webhook is refused while too many are being stored. */
export function hookOverload(): GatewayError {
  return new GatewayError('OVERLOADED', 'Too many webhooks arrive at the same time.', {
    retryAfterSeconds: 1,
  })
}

/** Why a webhook is refused whose signature was not verified. */
export function hookRefusal(reason: 'headers' | 'signature' | 'time'): GatewayError {
  if (reason === 'time')
    return new GatewayError('INVALID_REQUEST', 'The time of the webhook is more than five minutes off.', {
      suggestion: 'Correct the clock of the sender, and sign each attempt anew.',
    })
  const message = reason === 'headers' ? 'The webhook is not signed.' : 'The signature is not valid.'
  return new GatewayError('AUTHENTICATION_REQUIRED', message, {
    suggestion: 'Sign the webhook with the secret that the gateway has for this hook.',
  })
}

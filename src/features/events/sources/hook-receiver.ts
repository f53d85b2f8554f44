/**
 * Receives webhooks of other services at `/hooks/<server>/<name>`, and at `/hooks/<name>` for those of no server.
 *
 * Invariants: no body is read for a hook that does not exist, or without the headers of a signature; nothing of a request
 * is used before its signature is verified; a webhook is accepted once, and only after it was stored, so the sender may
 * forget it. A replay gets the response of the first one and does nothing. One that cannot be stored is refused.
 *
 * This needs no outbox: its event is in the log before the sender gets its answer, and what was refused, or was being stored
 * when the process ended, is sent again by the sender.
 */
import { LRUCache } from 'lru-cache'
import { GatewayError } from '../../../core/error.ts'
import type { Secret } from '../../../core/text/secret.ts'
import type { Store } from '../../../store/store.ts'
import {
  digest,
  type Expected,
  type HeadersIn,
  isInTime,
  matchesAny,
  verifySigned,
} from '../../../core/standard-webhooks.ts'

/** How many accepted webhooks of each hook are remembered, and for how long, in milliseconds. */
const MAX_REMEMBERED = 10_000
const REMEMBERED_MS = 24 * 60 * 60_000
/** How many webhooks of one hook, or of all servers with events of their own, may be stored at the same time. */
export const MAX_IN_FLIGHT = 100

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

interface HookRegistry {
  /** A place for the webhooks of one service, and the secret that it signs with; several while that changes. */
  hook(
    server: string | undefined,
    name: string,
  ): { readonly form: HookForm; readonly secrets: readonly Secret[] } | undefined
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
  readonly #options: HookRegistry
  readonly #memories = new Map<string, Memory>()

  constructor(options: HookRegistry) {
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

// What is sent again until it is accepted, such as a webhook, is accepted once by all gateways with one store. What was accepted
// is marked for a day, so a replay is dropped also after a restart. A gateway that ends before it can mark it leaves a mark
// that expires soon: what is sent again must lead to the same event.

/** How long it is marked that something was accepted, and that it is being stored, in milliseconds. */
const ACCEPTED_TTL_MS = 24 * 60 * 60_000
const STORING_TTL_MS = 30_000
const ACCEPTED = 'accepted'
const STORING = 'storing'

/** Stores something, unless it was accepted before. @throws SERVER_UNAVAILABLE if another gateway is storing it */
export async function acceptOnce(store: Store, digest: string, accept: () => Promise<void>): Promise<void> {
  const key = `hook:${digest}`
  const marked = await store.setIfAbsent(key, STORING, STORING_TTL_MS)
  if (marked === ACCEPTED) return
  if (marked !== undefined)
    throw new GatewayError('SERVER_UNAVAILABLE', 'Another gateway is storing this webhook.')
  try {
    await accept()
    await store.put(key, ACCEPTED, ACCEPTED_TTL_MS)
  } catch (error) {
    await store.delete(key).catch(() => false)
    throw error
  }
}

// Signatures, of the bytes of a body: GitHub, Stripe and Standard Webhooks. Each form yields a replay key from what its
// signature covers, so only who has the secret can change it. GitHub signs no time and no id: its key is the signature of the
// body, which is the same again only for the same body.

/** The forms of signatures, by who uses them. */
export type HookForm = 'github' | 'stripe' | 'standard'

/** The longest header with signatures, in characters. */
const MAX_SIGNATURE_LENGTH = 4096

/** What verification found: `headers` are missing or malformed, the `signature` is wrong, or the `time` is. */
type HookCheck =
  | { readonly kind: 'valid'; readonly replayKey: string }
  | { readonly kind: 'invalid'; readonly reason: 'headers' | 'signature' | 'time' }

/** Verifies a webhook of a form. */
export function verifyHook(
  form: HookForm,
  request: { readonly headers: HeadersIn; readonly body: string },
  expected: Expected,
): HookCheck {
  switch (form) {
    case 'github':
      return verifyGithub(request.headers['x-hub-signature-256'], request.body, expected)
    case 'stripe':
      return verifyStripe(request.headers['stripe-signature'], request.body, expected)
    case 'standard': {
      const found = verifySigned(request.headers, request.body, expected)
      return found.kind === 'valid' ? { kind: 'valid', replayKey: found.id } : found
    }
  }
}

/** Whether the headers have a signature of a form, which may be wrong. It does not depend on the body. */
export function isSigned(form: HookForm, headers: HeadersIn): boolean {
  const check = verifyHook(form, { headers, body: '' }, { secrets: [], now: 0 })
  return check.kind === 'valid' || check.reason !== 'headers'
}

/** `X-Hub-Signature-256: sha256=<hex>`, of the body alone. */
function verifyGithub(header: HeadersIn[string], body: string, { secrets }: Expected): HookCheck {
  const [, signature] = (typeof header === 'string' && /^sha256=([0-9a-f]{64})$/.exec(header)) || []
  if (signature === undefined) return { kind: 'invalid', reason: 'headers' }
  const isSigned = secrets.some((secret) => matchesAny(digest(secret.reveal(), '', body), [signature], 'hex'))
  return isSigned ? { kind: 'valid', replayKey: signature } : { kind: 'invalid', reason: 'signature' }
}

/** `Stripe-Signature: t=<seconds>,v1=<hex>,…`, of `{t}.{body}`. The key is the text of the secret, with its prefix. */
function verifyStripe(header: HeadersIn[string], body: string, { secrets, now }: Expected): HookCheck {
  if (typeof header !== 'string' || header.length > MAX_SIGNATURE_LENGTH)
    return { kind: 'invalid', reason: 'headers' }
  const parts = header.split(',').map((part) => part.trim())
  const valuesOf = (name: string): readonly string[] =>
    parts.flatMap((part) => (part.startsWith(`${name}=`) ? [part.slice(name.length + 1)] : []))
  const [time, ...otherTimes] = valuesOf('t')
  const signatures = valuesOf('v1')
  if (time === undefined || otherTimes.length > 0 || !/^\d{1,12}$/.test(time) || signatures.length === 0)
    return { kind: 'invalid', reason: 'headers' }

  const expected = secrets.map((secret) => digest(secret.reveal(), `${time}.`, body))
  const found = expected.find((each) => matchesAny(each, signatures, 'hex'))
  if (!found) return { kind: 'invalid', reason: 'signature' }
  if (!isInTime(Number(time) * 1000, now)) return { kind: 'invalid', reason: 'time' }
  return { kind: 'valid', replayKey: `${time}.${found.toString('hex')}` }
}

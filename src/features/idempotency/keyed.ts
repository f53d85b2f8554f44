import type { Call } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import { callKey, fingerprintOf } from '../../records/calls.ts'
import {
  extensionOf,
  hasExtension,
  hasIdempotencyKey,
  idempotencyKeyOf,
  TRANSACTION_ID,
  withoutExtension,
  withoutIdempotencyKey,
  withoutTasks,
} from '../../wire/extensions.ts'

/** A call that is to be made once. */
export interface KeyedRequest {
  /** Without what is for this feature alone. */
  readonly call: Call
  /** The key as the caller knows it; absent where the gateway made one. */
  readonly key?: string
  readonly tool: string
  readonly fingerprint: string
  /** Where its record is kept. */
  readonly id: string
  /** How long what came of it is remembered, in milliseconds. */
  readonly ttl: number
}

/** The name of how long a key is remembered among the values for features. */
const TTL_VALUE = 'idempotency_ttl_seconds'
/** The shortest time it can be remembered, in seconds. */
const MIN_TTL_SECONDS = 60

/** Whether a call carries anything that is for this feature. */
export function isForUs(call: Call): boolean {
  return hasIdempotencyKey(call) || hasExtension(call, TTL_VALUE)
}

/** Reads a call that carries something for this feature; nothing but the call where that is no key. @throws INVALID_INPUT */
export function readKeyed(
  given: Call,
  upstream: string,
  { ttl, longest }: { readonly ttl: number; readonly longest: number },
): KeyedRequest | Call {
  const key = hasIdempotencyKey(given) ? idempotencyKeyOf(given) : undefined
  const seconds = readTtl(given)
  const call = withoutIdempotencyKey(withoutExtension(given, TTL_VALUE))
  if (key === undefined) return call
  const wanted = seconds === undefined ? ttl : Math.max(seconds, MIN_TTL_SECONDS) * 1000
  // No key of a caller has a sign of this kind.
  const own = call.internal === undefined ? key : `~${call.internal}:${key}`
  const known = { call: withoutTasks(call), key, ttl: Math.min(wanted, longest) }
  return { ...known, ...identity(call), id: callKey(call.principal.id, upstream, own) }
}

/** A call without a key that counts as one with every equal call, for so many milliseconds. */
export function autoKeyed(call: Call, upstream: string, ttl: number): KeyedRequest {
  const known = identity(call)
  return {
    call: withoutTasks(call),
    ttl,
    ...known,
    id: callKey(call.principal.id, upstream, `~auto:${known.fingerprint}`),
  }
}

function identity(call: Call): Pick<KeyedRequest, 'tool' | 'fingerprint'> {
  const { params } = call
  const { name, arguments: given } = params.fields
  const fingerprint = fingerprintOf(String(name), given, {
    ...told(call, TRANSACTION_ID),
    ...told(call, 'step_id'),
    ...losesDigits(params.at('arguments')?.text),
  })
  return { tool: String(name), fingerprint }
}

/** A step of one transaction is no step of another one. */
function told(call: Call, name: string): Readonly<Record<string, unknown>> {
  return hasExtension(call, name) ? { [name]: extensionOf(call, name) } : {}
}

/** Whether a call is a step of a transaction. */
export function isStep(call: Call): boolean {
  return hasExtension(call, TRANSACTION_ID)
}

/** Numbers that no double holds, or not with all digits: the server gets them as they were sent. */
function losesDigits(text: string | undefined): { readonly digits?: readonly string[] } {
  if (text === undefined || !/\d{16}|\d[eE][+-]?\d{3}/.test(text)) return {}
  const digits = numbersIn(text).filter((number) => number.length > 15 || isBeyond(number))
  return digits.length > 0 ? { digits } : {}
}

/** Whether a number is larger than any double, or smaller and not zero. */
function isBeyond(number: string): boolean {
  if (!/\d[eE]/.test(number)) return false
  const value = Number(number)
  return !Number.isFinite(value) || (value === 0 && /^[^eE]*[1-9]/.test(number))
}

/** The numbers of a JSON text. Of a text as long as it likes no expression finds them: its stack has an end. */
function numbersIn(json: string): readonly string[] {
  const numbers: string[] = []
  for (let at = 0; at < json.length; at++) {
    const sign = json[at] ?? ''
    if (sign === '"') at = endOfString(json, at)
    else if (inNumber.has(sign)) {
      const start = at
      while (inNumber.has(json[at + 1] ?? '')) at++
      numbers.push(json.slice(start, at + 1))
    }
  }
  return numbers
}

const inNumber: ReadonlySet<string> = new Set('0123456789-+.eE')

/** Where a string ends that begins here. */
function endOfString(json: string, start: number): number {
  let at = start + 1
  while (at < json.length && json[at] !== '"') at += json[at] === '\\' ? 2 : 1
  return at
}

function readTtl(call: Call): number | undefined {
  const seconds = extensionOf(call, TTL_VALUE)
  if (seconds === undefined) return undefined
  if (typeof seconds === 'number' && Number.isSafeInteger(seconds) && seconds >= 0) return seconds
  throw new GatewayError('INVALID_INPUT', `Invalid params: ${TTL_VALUE} must be a whole number of seconds.`, {
    field: TTL_VALUE,
    reason: 'type',
  })
}

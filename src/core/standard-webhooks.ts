/**
 * Standard Webhooks 1.0.0: signs messages, and verifies messages of others.
 *
 * The signed bytes are `{webhook-id}.{webhook-timestamp}.{body}`. A message may carry several signatures, one of which
 * has to match: so a secret can be replaced while both sides still use the earlier one. Only the symmetric version `v1`
 * (HMAC-SHA256) is produced and accepted; other versions are skipped.
 */
import { createHmac, timingSafeEqual } from 'node:crypto'
import type { Secret } from './text/secret.ts'

const ID = 'webhook-id'
const TIMESTAMP = 'webhook-timestamp'
const SIGNATURE = 'webhook-signature'

/** The tolerance between the time of a message and the clock of its receiver, in milliseconds. */
const TOLERANCE_MS = 5 * 60_000

const SECRET_PREFIX = 'whsec_'
const MIN_KEY_BYTES = 24
const MAX_KEY_BYTES = 64
/** The longest id and the longest `webhook-signature` header, in characters. */
const MAX_ID_LENGTH = 256
const MAX_SIGNATURE_LENGTH = 4096

/** The headers of a request; names are in lower case. */
export type HeadersIn = Readonly<Record<string, string | readonly string[] | undefined>>

/** A message to sign. */
interface Message {
  /** Stays the same for all attempts to deliver it. */
  readonly id: string
  /** When this attempt is made, in milliseconds since 1970. */
  readonly at: number
  readonly body: string
}

/** What verification found. `at` is the time that the sender signed, in milliseconds since 1970. */
type Verified =
  | { readonly kind: 'valid'; readonly id: string; readonly at: number }
  | { readonly kind: 'invalid'; readonly reason: 'headers' | 'signature' | 'time' }

/** Whether a text is a secret: `whsec_` and 24 to 64 bytes in standard base64 with padding. */
export function isWebhookSecret(text: string): boolean {
  return keyOf(text) !== undefined
}

/** Whether a text can be the value of `webhook-id`: visible ASCII characters. */
export function isWebhookId(text: string): boolean {
  return text.length <= MAX_ID_LENGTH && /^[\x21-\x7e]+$/.test(text)
}

/**
 * The headers that sign a message with each of the secrets.
 * @throws TypeError if a secret or the id is malformed, or if there is no secret
 */
export function signedHeaders(
  { id, at, body }: Message,
  secrets: readonly Secret[],
): Readonly<Record<string, string>> {
  if (!isWebhookId(id)) throw new TypeError('a webhook id consists of visible ASCII characters')
  if (secrets.length === 0) throw new TypeError('a webhook needs a secret')
  const timestamp = String(Math.floor(at / 1000))
  const signatures = secrets.map((secret) => {
    const key = keyOf(secret.reveal())
    if (!key) throw new TypeError('a webhook secret is whsec_ and 24 to 64 bytes in base64')
    return `v1,${digest(key, `${id}.${timestamp}.`, body).toString('base64')}`
  })
  return { [ID]: id, [TIMESTAMP]: timestamp, [SIGNATURE]: signatures.join(' ') }
}

/** What a signature is verified with. */
export interface Expected {
  /** A signature by any of them suffices. Malformed ones match nothing. */
  readonly secrets: readonly Secret[]
  /** In milliseconds since 1970. */
  readonly now: number
}

/**
 * Verifies a message, given the bytes of its body as they were received. The time is checked last: only a sender with
 * the secret learns that its clock is wrong.
 */
export function verifySigned(
  headers: HeadersIn,
  body: string | Uint8Array,
  { secrets, now }: Expected,
): Verified {
  const id = headers[ID]
  const timestamp = headers[TIMESTAMP]
  const signatures = headers[SIGNATURE]
  if (typeof id !== 'string' || typeof timestamp !== 'string' || typeof signatures !== 'string')
    return { kind: 'invalid', reason: 'headers' }
  if (!isWebhookId(id) || !/^\d{1,12}$/.test(timestamp) || signatures.length > MAX_SIGNATURE_LENGTH)
    return { kind: 'invalid', reason: 'headers' }

  const given = signatures.split(' ').flatMap((each) => (each.startsWith('v1,') ? [each.slice(3)] : []))
  const isSigned = secrets.some((secret) => {
    const key = keyOf(secret.reveal())
    return key !== undefined && matchesAny(digest(key, `${id}.${timestamp}.`, body), given, 'base64')
  })
  if (!isSigned) return { kind: 'invalid', reason: 'signature' }
  const at = Number(timestamp) * 1000
  return isInTime(at, now) ? { kind: 'valid', id, at } : { kind: 'invalid', reason: 'time' }
}

/** Whether the time of a message differs from the clock by at most the tolerance, in either direction. */
export function isInTime(at: number, now: number): boolean {
  return Math.abs(now - at) <= TOLERANCE_MS
}

/** HMAC-SHA256 of a text followed by a body. */
export function digest(key: string | Uint8Array, before: string, body: string | Uint8Array): Buffer {
  return createHmac('sha256', key).update(before).update(body).digest()
}

/** Whether any of the signatures, as they were sent, is the expected one; compared in constant time. */
export function matchesAny(
  expected: Buffer,
  signatures: readonly string[],
  encoding: 'base64' | 'hex',
): boolean {
  const right = Buffer.from(expected.toString(encoding))
  return signatures.some((signature) => {
    const given = Buffer.from(signature)
    return given.length === right.length && timingSafeEqual(given, right)
  })
}

/** The key in a secret; undefined if it is malformed. */
function keyOf(text: string): Buffer | undefined {
  if (!text.startsWith(SECRET_PREFIX)) return undefined
  const encoded = text.slice(SECRET_PREFIX.length)
  const key = Buffer.from(encoded, 'base64')
  // Decoding skips what is not base64; two readers of such a text could find different keys.
  if (key.toString('base64') !== encoded) return undefined
  return key.length < MIN_KEY_BYTES || key.length > MAX_KEY_BYTES ? undefined : key
}

/**
 * Encrypts the `requestState` that 2026-07-28 clients carry between the rounds of a call: AES-256-GCM, bound to the
 * call and its caller, with an expiry, usable once.
 */
import { createCipheriv, createDecipheriv, createHash, randomBytes } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Call, RequestState } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { canonical, isObject } from '../core/json/json.ts'

/** Converts the state of an input request to an opaque text for the client, and back. */
export interface RequestStateCodec {
  close(state: RequestState, binding: string): string
  /** @throws STATE_INVALID if the text is forged, belongs to another call, or was used before; STATE_EXPIRED */
  open(text: string, binding: string): RequestState
}

/** The maximum number of remembered used states. */
const MAX_USED_STATES = 100_000
const IV = 12
const TAG = 16

/**
 * AES-256-GCM over the state, bound to the call, usable once and valid for `ttl` milliseconds. `now` is the clock, in
 * milliseconds. The first key encrypts, any of the keys decrypts.
 */
export function createRequestStateCodec(
  now: () => number,
  ttl = 600_000,
  keys = ownKeys(),
): RequestStateCodec {
  // An LRU cache with `max` would allocate memory for all entries at once.
  const used = new LRUCache<string, true>({ maxSize: MAX_USED_STATES, sizeCalculation: () => 1, ttl })

  return {
    close(state, binding) {
      const iv = randomBytes(IV)
      const cipher = createCipheriv('aes-256-gcm', keys()[0] ?? fail(), iv).setAAD(Buffer.from(binding))
      const body = JSON.stringify({ state, until: now() + ttl })
      const sealed = Buffer.concat([cipher.update(body, 'utf8'), cipher.final()])
      return Buffer.concat([iv, cipher.getAuthTag(), sealed]).toString('base64url')
    },

    open(text, binding) {
      const opened = decryptWithAny(text, binding, keys())
      if (!isObject(opened) || !isObject(opened.state) || typeof opened.until !== 'number') throw invalid()
      if (opened.until < now()) throw new GatewayError('STATE_EXPIRED', 'requestState has expired.', again)
      // The nonce is unique to each encrypted text. Other encodings of the same base64 have the same nonce.
      const nonce = Buffer.from(text, 'base64url').subarray(0, IV).toString('base64')
      if (used.has(nonce)) throw invalid()
      used.set(nonce, true)
      return opened.state
    },
  }
}

/** What an encrypted state is bound to: the caller, and every part of the call that a retry repeats. */
export function bindingOf(call: Pick<Call, 'principal' | 'target' | 'params'>): string {
  const { _meta, inputResponses, requestState, ...rest } = call.params.fields
  const text = canonical([call.principal.id, call.target.upstream ?? '', call.target.method, rest])
  return createHash('sha256').update(text).digest('base64')
}

function ownKeys(): () => readonly Buffer[] {
  const keys = [randomBytes(32)]
  return () => keys
}

function fail(): never {
  throw new TypeError('at least one encryption key is required')
}

const again = { suggestion: 'Make the call again without requestState.' }

function decryptWithAny(text: string, binding: string, keys: readonly Buffer[]): unknown {
  const failures: unknown[] = []
  for (const key of keys) {
    try {
      return decrypt(text, binding, key)
    } catch (error) {
      failures.push(error)
    }
  }
  throw failures[0]
}

function decrypt(text: string, binding: string, key: Buffer): unknown {
  const bytes = Buffer.from(text, 'base64url')
  if (bytes.length <= IV + TAG) throw invalid()
  try {
    const decipher = createDecipheriv('aes-256-gcm', key, bytes.subarray(0, IV), { authTagLength: TAG })
    decipher.setAAD(Buffer.from(binding)).setAuthTag(bytes.subarray(IV, IV + TAG))
    const body = Buffer.concat([decipher.update(bytes.subarray(IV + TAG)), decipher.final()])
    return JSON.parse(body.toString('utf8'))
  } catch (cause) {
    throw invalid(cause)
  }
}

function invalid(cause?: unknown): GatewayError {
  return new GatewayError('STATE_INVALID', 'requestState is not valid for this call.', { ...again, cause })
}

/**
 * Seals the `requestState` that 2026-07-28 clients carry between the rounds of a call: bound to the call and its
 * caller, with a time of expiry, usable once.
 */
import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import type { Call, RequestState } from '../core/call.ts'
import { GatewayError } from '../core/error.ts'
import { exactly, isObject } from '../core/json/json.ts'
import { createSeal } from '../core/seal.ts'
import { expiryByWorld } from '../core/world.ts'

/** Turns the state of a question into an opaque text for the client to keep, and back. */
export interface RequestStateCodec {
  close(state: RequestState, binding: string): string
  /** @throws STATE_INVALID for a text that is forged, of another call, or used before; STATE_EXPIRED */
  open(text: string, binding: string): RequestState
  /** The process that closed a state, where others can reach it. The state can still be opened. Never throws. */
  processOf(text: string, binding: string): string | undefined
}

/** How many used states are remembered. */
const MAX_USED_STATES = 100_000
/** How long a state can be used, in milliseconds. */
const TTL_MS = 600_000
const PURPOSE = 'request-state'
/**
 * The member of a state that names the process which closed it. That one may have what the call relies on, such as a call that
 * waits or a connection, and knows which states were used.
 */
const PROCESS_KEY = 'owner'

/**
 * States that can be used once, for `ttl` milliseconds. `now` is the clock, in milliseconds since 1970. The first of the
 * keys seals, any of them opens. `process` identifies this process, where others can reach it.
 */
export function createRequestStateCodec(
  now: () => number,
  ttl = TTL_MS,
  keys?: () => readonly Buffer[],
  process?: string,
): RequestStateCodec {
  const seal = createSeal(now, keys)
  // An LRU cache with `max` would allocate memory for all entries at once.
  const used = new LRUCache<string, true>({
    maxSize: MAX_USED_STATES,
    sizeCalculation: () => 1,
    ttl,
    ...expiryByWorld,
  })

  return {
    close: (state, binding) => {
      const value = process === undefined ? state : { ...state, [PROCESS_KEY]: process }
      return seal.close(value, { purpose: PURPOSE, binding }, now() + ttl)
    },

    open(text, binding) {
      const opened = seal.open(text, { purpose: PURPOSE, binding })
      if (opened.kind === 'expired')
        throw new GatewayError('STATE_EXPIRED', 'requestState has expired.', again)
      if (opened.kind === 'invalid') throw invalid(opened.cause)
      const { value, nonce } = opened
      if (!isObject(value) || used.has(nonce)) throw invalid()
      used.set(nonce, true)
      const { [PROCESS_KEY]: _process, ...state } = value
      return state
    },

    processOf(text, binding) {
      const opened = seal.open(text, { purpose: PURPOSE, binding })
      const closedBy =
        opened.kind === 'valid' && isObject(opened.value) ? opened.value[PROCESS_KEY] : undefined
      return typeof closedBy === 'string' ? closedBy : undefined
    },
  }
}

/** What a sealed state is bound to: who called, and everything of the call that a retry repeats. */
export function bindingOf(call: Pick<Call, 'principal' | 'target' | 'params'>): string {
  const { _meta, inputResponses, requestState, ...rest } = call.params.fields
  const text = exactly([call.principal.id, call.target.upstream ?? '', call.target.method, rest])
  return hash('sha256', text, 'base64')
}

const again = { suggestion: 'Make the call again without requestState.' }

function invalid(cause?: unknown): GatewayError {
  return new GatewayError('STATE_INVALID', 'requestState is not valid for this call.', { ...again, cause })
}

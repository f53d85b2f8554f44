/**
 * How a gateway proves to one in front of it that it holds a key. The one in front puts a challenge into `_meta` of its
 * `initialize` or `server/discover`; the answer holds a proof in `_meta`: a compact JWS (RFC 7515) over the challenge,
 * with the public key in its header. Invariant: a proof names who it was made for, so a server that passes a challenge
 * on to a gateway, and the proof back, proves nothing: it is made for the address that was called, not for others.
 */
import { isObject } from '../core/json/json.ts'
import type { CommandReach, UrlReach } from '../core/settings.ts'
import { NS } from './meta-keys.ts'

/** The members of `_meta`. */
export const CHALLENGE_KEY = `${NS}/challenge`
export const PROOF_KEY = `${NS}/proof`

/** What has to be signed. */
export interface Challenge {
  /** Random, and used once. */
  readonly nonce: string
  /** The URL the gateway was called at, or `stdio`. */
  readonly audience: string
}

/** The audience of what is reached over a pipe. */
export const PIPE = 'stdio'

const MAX_LENGTH = 2048

/** The challenge a request holds, if it is one. */
export function readChallenge(meta: Readonly<Record<string, unknown>>): Challenge | undefined {
  const { [CHALLENGE_KEY]: found } = meta
  if (!isObject(found)) return undefined
  const { nonce, audience } = found
  const isText = (value: unknown): value is string => typeof value === 'string' && value.length <= MAX_LENGTH
  return isText(nonce) && isText(audience) ? { nonce, audience } : undefined
}

/** What a proof is made for: the address without its path, which proxies change. */
export function audienceOf(reach: CommandReach | UrlReach): string {
  return reach.kind === 'command' ? PIPE : new URL(reach.url).origin
}

/** What is signed. No other thing that a gateway signs has `gateway_proof`. */
export function proofClaims({ nonce, audience }: Challenge): Readonly<Record<string, unknown>> {
  return { gateway_proof: 1, nonce, audience }
}

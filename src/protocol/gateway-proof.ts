/**
 * How a gateway proves possession of a key to another gateway in front of it. The front gateway puts a challenge into
 * `_meta` of its `initialize` or `server/discover`; the response contains a proof in `_meta`: a compact JWS (RFC 7515)
 * over the challenge, with the public key in its header. Invariant: a proof names its audience, so a server that relays
 * a challenge to a gateway and returns the proof proves nothing: the proof is for the address that was called, not for
 * another one.
 */
import { NS } from '../core/identity.ts'
import { isObject } from '../core/json/json.ts'
import type { CommandReach, UrlReach } from '../core/settings.ts'

/** The `_meta` keys. */
export const CHALLENGE_KEY = `${NS}/challenge`
export const PROOF_KEY = `${NS}/proof`

/** The content to be signed. */
export interface Challenge {
  /** Random, and used once. */
  readonly nonce: string
  /** The URL at which the gateway was called, or `stdio`. */
  readonly audience: string
}

/** The audience of a gateway reached over a pipe. */
export const PIPE = 'stdio'

const MAX_LENGTH = 2048

/** The challenge in a request; undefined if there is no valid one. */
export function readChallenge(meta: Readonly<Record<string, unknown>>): Challenge | undefined {
  const { [CHALLENGE_KEY]: found } = meta
  if (!isObject(found)) return undefined
  const { nonce, audience } = found
  const isText = (value: unknown): value is string => typeof value === 'string' && value.length <= MAX_LENGTH
  return isText(nonce) && isText(audience) ? { nonce, audience } : undefined
}

/** The audience of a proof: the address without its path, which proxies change. */
export function audienceOf(reach: CommandReach | UrlReach): string {
  return reach.kind === 'command' ? PIPE : new URL(reach.url).origin
}

/** The signed claims. Nothing else that a gateway signs has `gateway_proof`. */
export function proofClaims({ nonce, audience }: Challenge): Readonly<Record<string, unknown>> {
  return { gateway_proof: 1, nonce, audience }
}

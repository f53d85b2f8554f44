/**
 * Verifies that a server is the gateway whose key is configured, before anything else is accepted from it: functions
 * such as confirmations are then left to that gateway. Each connection has its own challenge.
 */
import { world } from '../../core/world.ts'
import { GatewayError } from '../../core/error.ts'
import type { Payload } from '../../core/payload.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { audienceOf, CHALLENGE_KEY, PROOF_KEY, proofClaims } from '../../protocol/gateway-proof.ts'

/** One challenge, and the verification of the response. */
export interface Proof {
  /** The handshake request with the challenge. */
  withChallenge(params: Payload): Payload
  /** The response without the proof. @throws SERVER_UNAVAILABLE */
  verify(answer: Payload): Promise<Payload>
}

/** For a server without a configured key. */
const noProof: Proof = { withChallenge: (params) => params, verify: (answer) => Promise.resolve(answer) }

/** The proof a new connection to a server has to provide. */
export function proofFor({ gatewayKey, reach }: UpstreamSettings): Proof {
  if (gatewayKey === undefined) return noProof
  const challenge = { nonce: world.randomBytes(24).toString('base64url'), audience: audienceOf(reach) }
  const claims = proofClaims(challenge)
  return {
    withChallenge: (params) => params.withMeta({ [CHALLENGE_KEY]: challenge }),
    verify: async (answer) => {
      const meta = answer.at('_meta')?.fields ?? {}
      await verify(meta[PROOF_KEY], { key: gatewayKey, claims })
      return answer.withMeta({ [PROOF_KEY]: undefined })
    },
  }
}

interface Expected {
  /** The thumbprint of the key (RFC 7638); `auto` for any key: the address alone then says which gateway it is. */
  readonly key: string
  readonly claims: Readonly<Record<string, unknown>>
}

async function verify(proof: unknown, { key, claims }: Expected): Promise<void> {
  if (typeof proof !== 'string') {
    throw refused(
      'it sent no proof. Is it a gateway of this version, and is this address configured there as its own?',
    )
  }
  const jose = await import('jose')
  const verified = await jose
    .jwtVerify(proof, jose.EmbeddedJWK, { algorithms: ['ES256'] })
    .catch((cause: unknown) => Promise.reject(refused('the signature of its proof is not valid', cause)))
  const { jwk } = verified.protectedHeader
  const thumbprint = jwk && (await jose.calculateJwkThumbprint(jwk))
  if (key !== 'auto' && thumbprint !== key) throw refused(`it has another key (${thumbprint})`)
  const isOurs = Object.entries(claims).every(([name, value]) => verified.payload[name] === value)
  if (!isOurs) throw refused('its proof was made for another challenge')
}

function refused(reason: string, cause?: unknown): GatewayError {
  const message = 'The server did not prove that it is the gateway identified by "gateway_key".'
  return new GatewayError('SERVER_UNAVAILABLE', message, {
    cause,
    forOperator: `the server is not the gateway identified by gateway_key: ${reason}`,
    isUnsent: true,
  })
}

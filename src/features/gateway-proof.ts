/**
 * Proves this gateway's identity to a gateway in front of it, which then leaves to this one what both would do:
 * confirmation, idempotency keys, provenance. Only a gateway with this one's key in its configuration requests it.
 */
import { CHALLENGE_KEY, PROOF_KEY, readChallenge } from '../protocol/gateway-proof.ts'
import type { Feature } from './feature.ts'
import { gatewayProofSchema } from './settings/describe.ts'

/** Answers the challenge of a gateway in front. */
export const gatewayProof: Feature<Record<never, never>> = {
  ...gatewayProofSchema,
  create: (_settings, { identity: { prove } }) => ({
    responseMiddleware: (method) => {
      if (method !== 'server/discover') return undefined
      return (next) => async (call) => {
        const challenge = readChallenge(call.meta)
        if (!challenge) return next(call)
        const { [CHALLENGE_KEY]: _challenge, ...meta } = call.meta
        // The challenge is for this gateway only.
        const params = call.params.withMeta({ [CHALLENGE_KEY]: undefined })
        const [outcome, proof] = await Promise.all([next({ ...call, meta, params }), prove(challenge)])
        if (outcome.kind !== 'result' || proof === undefined) return outcome
        return { kind: 'result', result: outcome.result.withMeta({ [PROOF_KEY]: proof }) }
      }
    },
  }),
}

import type { Json } from './server/json.ts'

/** Features that are off where a test is about what servers say of themselves, and nothing beside it. */
export const undescribed: Json = {
  manifest: 'off',
  dashdash: 'off',
  help: 'off',
  skills: 'off',
  agent_profile: 'off',
  contract: 'off',
}

/** The features of a gateway through which messages are followed: little is added to them, and no confirmation is requested. */
export function plainFeatures(given: unknown): unknown {
  if (given === 'none') return given
  return { ...undescribed, confirm: 'off', provenance: 'off', ...Object(given) }
}

/** The same where capabilities are looked at whole. */
export const unadvertised: unknown = plainFeatures({
  idempotency: 'off',
  transactions: 'off',
  receipts: 'off',
  state: 'off',
  stream: 'off',
  events: 'off',
  dry_run: 'off',
})

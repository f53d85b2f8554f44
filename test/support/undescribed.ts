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

/** The features of a gateway whose messages are looked at whole: nothing is added to them, and nobody is asked. */
export function plainFeatures(given: unknown): unknown {
  if (given === 'none') return given
  const off = { confirm: 'off', provenance: 'off', idempotency: 'off', transactions: 'off', receipts: 'off' }
  return { ...undescribed, ...off, ...Object(given) }
}

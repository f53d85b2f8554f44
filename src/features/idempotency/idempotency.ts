import type { Feature } from '../feature.ts'

/** Runs calls with an idempotency key once. */
export const idempotency: Feature<unknown> = {
  name: 'idempotency',
  place: 'features',
  schema: { type: 'object', default: {}, properties: {} },
  create: () => ({}),
}

import type { Feature } from '../feature.ts'

/** Groups calls so that all of them can be undone. */
export const transactions: Feature<unknown> = {
  name: 'transactions',
  place: 'features',
  schema: { type: 'object', default: {}, properties: {} },
  create: () => ({}),
}

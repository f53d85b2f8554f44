import type { Feature } from '../feature.ts'

/** Asks a person before what can do harm. */
export const confirm: Feature<unknown> = {
  name: 'confirm',
  place: 'features',
  schema: { type: 'object', default: {}, properties: {} },
  create: () => ({}),
}

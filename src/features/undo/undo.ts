import type { Feature } from '../feature.ts'

/** Writes down what was done, and how it is undone. */
export const undo: Feature<unknown> = {
  name: 'undo',
  place: 'features',
  schema: { type: 'object', default: {}, properties: {} },
  create: () => ({}),
}

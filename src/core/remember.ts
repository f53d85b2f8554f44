import { durationSchema } from './units.ts'

/** The JSON Schema of for how long, and for how many calls, one approval holds. */
export const rememberSchema = {
  additionalProperties: false,
  properties: {
    for: { ...durationSchema, default: '10m', description: 'For how long one approval holds.' },
    max: {
      type: 'integer',
      minimum: 1,
      maximum: 10000,
      default: 20,
      errorMessage: 'must be a number from 1 to 10000',
      description: 'For how many calls it holds.',
    },
  },
} as const

/** For how many calls, or how long, one approval holds; and the setting that ends confirmations. */
import { durationSchema } from './time/units.ts'

// For how long, and for how many calls, one approval holds.
// The configuration lets it hold for every call it names, or offers it: then the person who is asked chooses. An
// approval that holds for one call only has no such value at all.

/** That one approval holds for several calls of a tool. */
export interface Remember {
  /** In milliseconds. */
  readonly for: number
  /** How many calls in all. */
  readonly max: number
  /** It holds for one call, unless the person who is asked chooses this. */
  readonly offer?: boolean
}

/** The JSON Schema of for how long, and for how many calls, one approval holds. */
export const rememberSchema = {
  type: ['object', 'boolean', 'string'],
  pattern: '^(off|false)$',
  not: { const: true },
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
    offer: {
      type: 'boolean',
      default: false,
      description: 'Whether it holds only where the person who is asked chooses so.',
    },
  },
  errorMessage: 'must be off, or a mapping such as { for: 10m, max: 20 }',
} as const

/** For what one approval holds, in words. */
export function rememberText({ for: milliseconds, max }: Remember): string {
  return `${max} calls of this tool within ${duration(milliseconds)}`
}

function duration(milliseconds: number): string {
  const minutes = milliseconds / 60_000
  return Number.isInteger(minutes) ? `${minutes} min` : `${Math.ceil(milliseconds / 1000)} s`
}

// The line of configuration that ends confirmations of a tool. It is shown where people decide,
// models never: they could write it themselves.

/** What to write where. */
export interface StopAsking {
  /** The place in the configuration, with dots between its keys. */
  readonly under: string
  /** A line of YAML. */
  readonly write: string
}

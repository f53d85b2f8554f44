/** How many calls, and for how long, one approval covers; and the setting that ends confirmations. */
import { durationSchema } from './time/units.ts'

// The duration and number of calls that one approval covers. The configuration applies this to every confirmation, or
// offers it as a choice to the person who confirms. An approval for a single call has no such value.

/** An approval covers several calls of a tool. */
export interface Remember {
  /** In milliseconds. */
  readonly for: number
  /** The total number of calls. */
  readonly max: number
  /** An approval covers one call, unless the person who confirms chooses this. */
  readonly offer?: boolean
}

/** The JSON Schema of the duration and number of calls that an approval covers. */
export const rememberSchema = {
  type: ['object', 'boolean', 'string'],
  pattern: '^(off|false)$',
  not: { const: true },
  additionalProperties: false,
  properties: {
    for: { ...durationSchema, default: '10m', description: 'How long one approval is valid.' },
    max: {
      type: 'integer',
      minimum: 1,
      maximum: 10000,
      default: 20,
      errorMessage: 'must be a number from 1 to 10000',
      description: 'How many calls one approval covers.',
    },
    offer: {
      type: 'boolean',
      default: false,
      description: 'Whether it applies only if the person who confirms chooses it.',
    },
  },
  errorMessage: 'must be off, or a mapping such as { for: 10m, max: 20 }',
} as const

/** What one approval covers, for people. */
export function rememberText({ for: milliseconds, max }: Remember): string {
  return `${max} calls of this tool within ${duration(milliseconds)}`
}

function duration(milliseconds: number): string {
  const minutes = milliseconds / 60_000
  return Number.isInteger(minutes) ? `${minutes} min` : `${Math.ceil(milliseconds / 1000)} s`
}

// The configuration line that ends confirmations of a tool. It is displayed where people decide, never to models, which
// could write it themselves.

/** A line to add to the configuration. */
export interface StopAsking {
  /** The place in the configuration, with dots between its keys. */
  readonly under: string
  /** A line of YAML. */
  readonly write: string
}

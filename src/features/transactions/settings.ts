import { durationSchema } from '../../core/units.ts'

/** The settings of transactions. Times are milliseconds. */
export interface Settings {
  readonly timeout: number
  readonly max_lifetime: number
  readonly uncompensable: 'reject' | 'allow'
  readonly on_step_failure: 'keep' | 'rollback'
  readonly retention: number
  readonly max_active: number
  readonly max_steps: number
  readonly compat: boolean
}

/** The JSON Schema of the settings. */
export const settingsSchema = {
  type: 'object',
  default: {},
  properties: {
    timeout: {
      ...durationSchema,
      default: '5m',
      description: 'How long a transaction may be idle before it is rolled back, unless its caller says.',
    },
    max_lifetime: {
      ...durationSchema,
      default: '1h',
      description: 'How long a transaction may take in all; then it is rolled back.',
    },
    uncompensable: {
      enum: ['reject', 'allow'],
      default: 'reject',
      description:
        'What becomes of a step nobody knows how to undo: it does not run, or it runs and is reported when the others are undone.',
    },
    auto_undo: {
      type: 'boolean',
      default: false,
      description:
        'Undo tools nobody said how to undo by another tool of their server, where names and schemas leave no doubt: what gatehouse plan calls sure.',
    },
    on_step_failure: {
      enum: ['keep', 'rollback'],
      default: 'keep',
      description: 'What a step that fails does to its transaction: nothing, or it is rolled back at once.',
    },
    retention: {
      ...durationSchema,
      default: '24h',
      description: 'How long a transaction that is over can be asked about, and its id is taken.',
    },
    max_active: count(10_000, 100, 'How many transactions each caller may have at a time.'),
    max_steps: count(1000, 100, 'How many steps a transaction may have.'),
    compat: {
      type: 'boolean',
      default: true,
      description: 'Whether what a step is also stands at `transaction` of its result.',
    },
  },
} as const

function count(most: number, usual: number, description: string) {
  const errorMessage = `must be a number from 1 to ${most}`
  return { type: 'integer', minimum: 1, maximum: most, default: usual, errorMessage, description } as const
}

/** What is done with what callers say they want. */
export interface Settings {
  /** The call is made and a better tool named, or it is not made where there is a better tool. */
  readonly mode: 'advise' | 'redirect'
  /** How many times better than the called tool another must fit. */
  readonly margin: number
  /** Servers are told too. */
  readonly forward: boolean
  readonly log_intent: boolean
  /** Tools of other servers may be named, where all are offered together. */
  readonly across: boolean
  readonly compat: boolean
}

/** The JSON Schema of the settings of intents. */
export const settingsSchema = {
  type: 'object',
  properties: {
    mode: {
      enum: ['advise', 'redirect'],
      default: 'advise',
      description:
        'What becomes of a call where another tool fits better what its caller wants: it is made and the other tool is named, or the other tool is named and it is not made.',
    },
    margin: {
      type: 'number',
      minimum: 1,
      maximum: 100,
      default: 1.5,
      errorMessage: 'must be a number from 1',
      description: 'How many times better another tool must fit to be named.',
    },
    forward: {
      type: 'boolean',
      default: false,
      description: 'Whether the server is told what the caller wants.',
    },
    log_intent: {
      type: 'boolean',
      default: false,
      description: 'Whether the log tells what callers want; it may say something of people.',
    },
    across: {
      type: 'boolean',
      default: false,
      description: 'Whether tools of other servers may be named, where all servers are offered together.',
    },
    compat: {
      type: 'boolean',
      default: true,
      description: 'Whether a suggestion also stands at `suggestion` of a result.',
    },
  },
} as const

import type { BuiltinTool } from '../feature.ts'
import { MAX_ID_LENGTH } from './ids.ts'

const id = {
  type: 'string',
  minLength: 1,
  maxLength: MAX_ID_LENGTH,
  description: 'Names the transaction; chosen by the caller.',
}

const changing = { readOnlyHint: false, idempotentHint: true, openWorldHint: false }

const compensations = {
  type: 'array',
  items: {
    type: 'object',
    properties: {
      step_id: { type: 'string' },
      status: { enum: ['compensated', 'compensation_failed'] },
      error: { type: 'object' },
    },
    required: ['step_id', 'status'],
  },
}

/** The tool that begins a transaction, which is idle for so many seconds at most unless its caller says. */
export const beginTool = (timeout: number): BuiltinTool['definition'] => ({
  name: 'begin_transaction',
  title: 'Begin a transaction',
  description:
    'Begins a transaction. Calls that carry its id as transaction_id become its steps, which can be undone together until it is committed.',
  inputSchema: {
    type: 'object',
    properties: {
      transaction_id: id,
      timeout_seconds: {
        type: 'integer',
        minimum: 1,
        default: timeout,
        description: 'After how many seconds without a step it is rolled back.',
      },
      description: { type: 'string', description: 'What it does, for people.' },
    },
    required: ['transaction_id'],
  },
  outputSchema: {
    type: 'object',
    properties: {
      status: { const: 'begun' },
      transaction_id: { type: 'string' },
      expires_at: { type: 'string' },
      timeout_seconds: { type: 'integer' },
    },
    required: ['status', 'transaction_id'],
  },
  annotations: { ...changing, destructiveHint: false, idempotentHint: false },
})

/** The tool that ends a transaction well. */
export const commitTool = {
  name: 'commit_transaction',
  title: 'Commit a transaction',
  description: 'Ends a transaction. What its steps did stays, and can not be undone with it any more.',
  inputSchema: {
    type: 'object',
    properties: { transaction_id: id },
    required: ['transaction_id'],
  },
  outputSchema: {
    type: 'object',
    properties: {
      status: { const: 'committed' },
      transaction_id: { type: 'string' },
      steps_completed: { type: 'integer' },
      steps_in_doubt: { type: 'array', items: { type: 'object' } },
      message: { type: 'string' },
      needs_attention: { type: 'boolean' },
      was_replay: { type: 'boolean' },
    },
    required: ['status', 'transaction_id', 'steps_completed'],
  },
  annotations: { ...changing, destructiveHint: false },
} as const

/** The tool that undoes a transaction. */
export const rollbackTool = {
  name: 'rollback_transaction',
  title: 'Roll a transaction back',
  description:
    'Undoes what the steps of a transaction did, the last one first, and tells what could not be undone.',
  inputSchema: {
    type: 'object',
    properties: {
      transaction_id: id,
      reason: { type: 'string', description: 'Why, for people.' },
    },
    required: ['transaction_id'],
  },
  outputSchema: {
    type: 'object',
    properties: {
      transaction_id: { type: 'string' },
      status: { enum: ['rolled_back', 'partially_rolled_back'] },
      reason: { type: 'string' },
      steps_compensated: compensations,
      needs_attention: { type: 'boolean' },
      next_retry_at: { type: 'string' },
      was_replay: { type: 'boolean' },
    },
    required: ['transaction_id', 'steps_compensated'],
  },
  annotations: { ...changing, destructiveHint: true },
} as const

/** The tool that tells how a transaction stands. */
export const statusTool = {
  name: 'get_transaction',
  title: 'Get a transaction',
  description:
    'Tells how a transaction stands, step by step; without an id, all transactions of the caller in few words.',
  inputSchema: { type: 'object', properties: { transaction_id: id } },
  outputSchema: {
    type: 'object',
    properties: {
      transaction_id: { type: 'string' },
      status: { type: 'string' },
      steps: { type: 'array', items: { type: 'object' } },
      steps_compensated: compensations,
      needs_attention: { type: 'boolean' },
      transactions: { type: 'array', items: { type: 'object' } },
    },
  },
  annotations: { readOnlyHint: true, openWorldHint: false },
} as const

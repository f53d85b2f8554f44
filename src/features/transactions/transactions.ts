/** The feature `transactions`: begin, commit, roll back, status, and calls as steps. */
import { isoTime } from '../../core/time/waiting.ts'
import { NS } from '../../core/identity.ts'
import { isAsked } from '../../core/settings.ts'
import { world } from '../../core/world.ts'
import type { Call, Handler } from '../../core/call.ts'
import { GatewayError, invalidParam } from '../../core/error.ts'
import { background } from '../../core/log.ts'
import { hasExtension, TRANSACTION_ID } from '../../protocol/meta-keys.ts'
import { toStoredPrincipal } from '../../records/principal.ts'
import {
  stepsInDoubt,
  hasEnded,
  type Transaction,
  unknownTransaction,
  urgentFirst,
} from '../../records/transactions.ts'
import { newTransaction, committed } from '../../records/transitions.ts'
import { asTool, objectSchema } from '../builtin-tool.ts'
import type { Feature, BuiltinTool } from '../feature.ts'
import { callerValues, modelArguments, recordingStates, type Reserved, rewinding } from '../offers.ts'
import { RewindWorker } from './rewinding.ts'
import {
  MAX_ID_LENGTH,
  readId,
  createTransactionService,
  type TransactionService,
  keyFor,
  requireIdempotency,
  rollBack,
} from './service.ts'
import { answer, commitShape, rollbackShape, statusShape, summaryShape } from './shapes.ts'
import { makeStep, settledTransaction, tryStep } from './steps.ts'
import { type TransactionSettings, transactionsSchema } from '../settings/effect.ts'

type Deps = TransactionService['deps']

const reserved: Reserved = {
  argument: `_${TRANSACTION_ID}`,
  value: TRANSACTION_ID,
  schema: {
    type: 'string',
    maxLength: MAX_ID_LENGTH,
    description: 'Optional. The id of the transaction of which this call is a step, from begin_transaction.',
  },
  isFor: ({ classification }) => classification.op !== 'read',
}

/** Groups calls so that all of them can be undone together. */
export const transactions: Feature<TransactionSettings | false> = {
  ...transactionsSchema,
  create: (settings, deps) => {
    const service = createTransactionService(settings, deps)
    const rewinds = new RewindWorker(service)
    const begin = answerBegin(service)
    const commit = answerCommit(service)
    const rollback = answerRollback(service)
    const status = answerStatus(service)
    const timeoutSeconds = Math.floor(Math.min(service.limits.timeout, service.limits.max_lifetime) / 1000)
    return {
      calls: {
        middleware: ({ method, isBuiltin }) => {
          if (method !== 'tools/call' || isBuiltin) return undefined
          return (next) => (call) => {
            if (call.internal || !hasExtension(call, TRANSACTION_ID)) return next(call)
            return makeStep(call, next, service)
          }
        },
        dryRun: ({ isBuiltin }) => {
          if (isBuiltin) return undefined
          return (next) => (call) =>
            hasExtension(call, TRANSACTION_ID) ? tryStep(call, next, service) : next(call)
        },
      },
      builtins: {
        methods: {
          'transaction/begin': begin,
          'transaction/commit': commit,
          'transaction/rollback': rollback,
          'transaction/status': status,
        },
        tools: [
          asTool(beginTool(timeoutSeconds), begin),
          asTool(commitTool, commit),
          asTool(rollbackTool, rollback),
          asTool(statusTool, status),
        ],
        extensions: (upstream) => {
          const isAvailable = settings(upstream) !== false && deps.features.isOn('idempotency', upstream)
          // Without tools or methods no transaction can begin.
          if (!isAvailable || !isAsked(deps.gateway.settings)) return {}
          const maxLifetimeSeconds = Math.floor(service.limits.max_lifetime / 1000)
          return { [`${NS}/transactions`]: { timeoutSeconds, maxLifetimeSeconds } }
        },
      },
      offers: [
        callerValues.offer([{ name: TRANSACTION_ID }]),
        modelArguments.offer((upstream) =>
          deps.gateway.settings.metaTools !== 'off' && deps.features.isOn('idempotency', upstream)
            ? [reserved]
            : [],
        ),
        rewinding.offer(rewinds),
      ],
      start: () => {
        rewinds.start()
        return service.reaper.start()
      },
      close: async () => {
        rewinds.stop()
        service.reaper.stop()
        service.worker.close()
      },
    }
  },
}

const id = {
  type: 'string',
  minLength: 1,
  maxLength: MAX_ID_LENGTH,
  description: 'The id of the transaction, chosen by the caller.',
}

const changing = { readOnlyHint: false, idempotentHint: true, openWorldHint: false }

const compensations = {
  type: 'array',
  items: objectSchema(['step_id', 'status'], {
    step_id: { type: 'string' },
    status: { enum: ['compensated', 'compensation_failed'] },
    state: {
      enum: ['old', 'other', 'unknown'],
      description:
        'Whether the state was the old one after the step was undone; unknown if that cannot be read.',
    },
    error: { type: 'object' },
  }),
}

/** The tool that begins a transaction; `timeout` is the default idle timeout in seconds. */
const beginTool = (timeout: number): BuiltinTool['definition'] => ({
  name: 'begin_transaction',
  title: 'Begin a transaction',
  description:
    'Begins a transaction. Calls that carry its id as transaction_id become its steps, which can be undone together until it is committed.',
  inputSchema: objectSchema(['transaction_id'], {
    transaction_id: id,
    timeout_seconds: {
      type: 'integer',
      minimum: 1,
      default: timeout,
      description: 'After how many seconds without a step the transaction is rolled back.',
    },
    description: { type: 'string', description: 'Its purpose, for people.' },
  }),
  outputSchema: objectSchema(['status', 'transaction_id'], {
    status: { const: 'begun' },
    transaction_id: { type: 'string' },
    expires_at: { type: 'string' },
    timeout_seconds: { type: 'integer' },
  }),
  annotations: { ...changing, destructiveHint: false, idempotentHint: false },
})

/** The tool that commits a transaction. */
const commitTool = {
  name: 'commit_transaction',
  title: 'Commit a transaction',
  description: 'Commits a transaction. The effects of its steps stay, and can no longer be undone with it.',
  inputSchema: objectSchema(['transaction_id'], { transaction_id: id }),
  outputSchema: objectSchema(['status', 'transaction_id', 'steps_completed'], {
    status: { const: 'committed' },
    transaction_id: { type: 'string' },
    steps_completed: { type: 'integer' },
    steps_in_doubt: { type: 'array', items: { type: 'object' } },
    message: { type: 'string' },
    needs_attention: { type: 'boolean' },
    was_replay: { type: 'boolean' },
  }),
  annotations: { ...changing, destructiveHint: false },
} as const

/** The tool that rolls a transaction back. */
const rollbackTool = {
  name: 'rollback_transaction',
  title: 'Roll a transaction back',
  description: 'Undoes the steps of a transaction, the last one first, and reports what could not be undone.',
  inputSchema: objectSchema(['transaction_id'], {
    transaction_id: id,
    reason: { type: 'string', description: 'The reason, for people.' },
    force: {
      type: 'boolean',
      default: false,
      description:
        'Undo steps although something else changed the state since, and overwrite that change. Only after a rollback refused with CONFLICT and its difference was looked at; it then tries the failed steps again.',
    },
  }),
  outputSchema: objectSchema(['transaction_id', 'steps_compensated'], {
    transaction_id: { type: 'string' },
    status: { enum: ['rolled_back', 'partially_rolled_back'] },
    reason: { type: 'string' },
    steps_compensated: compensations,
    needs_attention: { type: 'boolean' },
    next_retry_at: { type: 'string' },
    was_replay: { type: 'boolean' },
  }),
  annotations: { ...changing, destructiveHint: true },
} as const

/** The tool that returns the status of a transaction. */
const statusTool = {
  name: 'get_transaction',
  title: 'Get a transaction',
  description:
    'Returns the status of a transaction, step by step; without an id, a summary of all transactions of the caller.',
  inputSchema: { type: 'object', properties: { transaction_id: id } },
  outputSchema: objectSchema([], {
    transaction_id: { type: 'string' },
    status: { type: 'string' },
    steps: { type: 'array', items: { type: 'object' } },
    steps_compensated: compensations,
    needs_attention: { type: 'boolean' },
    transactions: { type: 'array', items: { type: 'object' } },
  }),
  annotations: { readOnlyHint: true, openWorldHint: false },
} as const

/** Answers `transaction/begin`. */
function answerBegin(service: TransactionService): Handler {
  const { deps, limits, repository, worker, reaper } = service
  return async (call) => {
    requireIdempotency(deps)
    const id = idOf(call)
    const description = textOf(call, 'description')
    const timeout = Math.min(timeoutOf(call) ?? limits.timeout, limits.max_lifetime)
    if (reaper.count(keyFor(call, '')) >= limits.max_active) throw tooMany(limits.max_active)
    const key = keyFor(call, id)
    const releaseReservation = reaper.reserve(key)
    const transaction = newTransaction({
      id,
      principal: toStoredPrincipal(call.principal),
      ...(description !== undefined && { description }),
      timeout,
      lifetime: limits.max_lifetime,
      now: world.now(),
    })
    const isOpened = await worker
      .register()
      .then(() => repository.open(transaction))
      .finally(releaseReservation)
    if (!isOpened) {
      throw new GatewayError(
        'TRANSACTION_CONFLICT',
        'A transaction with this id already exists or existed.',
        {
          field: 'transaction_id',
          suggestion: 'Begin it with an id that has not been used before.',
        },
      )
    }
    reaper.track(key, transaction)
    return answer({
      status: 'begun',
      transaction_id: id,
      expires_at: isoTime(transaction.expiresAt),
      timeout_seconds: Math.floor(timeout / 1000),
    })
  }
}

/** Answers `transaction/commit`. */
function answerCommit(service: TransactionService): Handler {
  const { repository, queue, reaper, actions, deps, limits } = service
  return async (call) => {
    const key = keyFor(call, idOf(call))
    return queue(key, call.signal, async () => {
      const before = await settledTransaction(key, call.signal, service)
      if (before.status === 'committed') return answer({ ...commitShape(before), was_replay: true })
      const transaction = await repository.change(key, committed(world.now()))
      reaper.track(key, transaction)
      reportInDoubt(transaction, deps)
      const extended = transaction.steps.map(async ({ deed, upstream }) => {
        await Promise.all(deps.features.offered(recordingStates, upstream).map((recorded) => recorded(deed)))
        await actions.keep(deed, limits.retention)
      })
      background(Promise.all(extended), deps.log)
      return answer(commitShape(transaction))
    })
  }
}

/** Logs the steps of a committed transaction with an unknown outcome: an operator has to check them. */
function reportInDoubt(transaction: Transaction, { log }: Deps): void {
  const { id, principal } = transaction
  const steps = stepsInDoubt(transaction).map((step) => `${step.id}: OUTCOME_UNKNOWN`)
  if (steps.length > 0)
    log.error('transaction.needs_attention', { transaction: id, principal: principal.id, steps })
}

/** Answers `transaction/rollback`, once everything is undone as far as possible. */
function answerRollback(service: TransactionService): Handler {
  return async (call) => {
    const key = keyFor(call, idOf(call))
    const reason = textOf(call, 'reason')
    const isForced = flagOf(call, 'force')
    const { principal: caller, signal } = call
    const before = await service.repository.find(key)
    if (!before) throw unknownTransaction()
    const isTriedAgain = isForced && before.status === 'partially_rolled_back'
    if (hasEnded(before) && before.status !== 'committed' && !isTriedAgain) {
      return answer({ ...rollbackShape(before), was_replay: true })
    }
    return answer(rollbackShape(await rollBack(key, { reason, caller, signal, isForced }, service)))
  }
}

/** How many transactions a list contains at most. */
const MAX_LISTED = 100

/** Answers `transaction/status`: of one transaction, or a summary of all transactions of the caller. */
function answerStatus({ repository, actions }: TransactionService): Handler {
  return async (call) => {
    if (call.params.fields.transaction_id === undefined) {
      const all = (await repository.list(call.principal.id)).map(({ transaction }) => transaction)
      return answer({ transactions: all.toSorted(urgentFirst).slice(0, MAX_LISTED).map(summaryShape) })
    }
    const transaction = await repository.find(keyFor(call, idOf(call)))
    if (!transaction) throw unknownTransaction()
    const known = await actions.findAll(transaction.steps.map(({ deed }) => deed))
    return answer(statusShape(transaction, known))
  }
}

function idOf({ params }: Call): string {
  return readId(params.fields.transaction_id, 'transaction_id')
}

/** The maximum length of a text for people; the rest is cut off. */
const MAX_TEXT_LENGTH = 1000

function textOf({ params }: Call, field: string): string | undefined {
  const value = params.fields[field]
  if (value === undefined) return undefined
  if (typeof value !== 'string') throw invalidParam(field, 'must be a text')
  return value.slice(0, MAX_TEXT_LENGTH).toWellFormed()
}

function flagOf({ params }: Call, field: string): boolean {
  const value = params.fields[field]
  if (value === undefined || typeof value === 'boolean') return value === true
  throw invalidParam(field, 'must be true or false')
}

/** In milliseconds. */
function timeoutOf({ params }: Call): number | undefined {
  const { timeout_seconds: seconds } = params.fields
  if (seconds === undefined) return undefined
  if (typeof seconds === 'number' && Number.isSafeInteger(seconds) && seconds > 0) return seconds * 1000
  throw invalidParam('timeout_seconds', 'must be a whole number above 0')
}

function tooMany(maximum: number): GatewayError {
  return new GatewayError('QUOTA_EXHAUSTED', `You have ${maximum} active transactions, the maximum.`, {
    suggestion: 'Commit or roll back one of them first.',
  })
}

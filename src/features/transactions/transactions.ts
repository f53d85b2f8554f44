import { hasExtension, NS, TRANSACTION_ID } from '../../wire/extensions.ts'
import type { Feature, Reserved } from '../feature.ts'
import { asTool } from '../own-tool.ts'
import { answerBegin, answerCommit, answerRollback, answerStatus } from './answers.ts'
import { createTransactionService } from './desk.ts'
import { MAX_ID_LENGTH } from './ids.ts'
import { type Settings, settingsSchema } from './settings.ts'
import { makeStep } from './steps.ts'
import { beginTool, commitTool, rollbackTool, statusTool } from './tools.ts'

const reserved: Reserved = {
  argument: `_${TRANSACTION_ID}`,
  value: TRANSACTION_ID,
  schema: {
    type: 'string',
    maxLength: MAX_ID_LENGTH,
    description: 'Optional. The transaction this call is a step of, as begin_transaction named it.',
  },
  isFor: ({ classification }) => classification.op !== 'read',
}

/** Groups calls so that all of them can be undone. */
export const transactions: Feature<Settings | false> = {
  name: 'transactions',
  place: 'features',
  isLeftToGateway: true,
  schema: settingsSchema,
  create: (settings, deps) => {
    const desk = createTransactionService(settings, deps)
    const begin = answerBegin(desk)
    const commit = answerCommit(desk)
    const rollback = answerRollback(desk)
    const status = answerStatus(desk)
    const timeoutSeconds = Math.floor(Math.min(desk.limits.timeout, desk.limits.max_lifetime) / 1000)
    return {
      middleware: ({ method, isBuiltin }) => {
        if (method !== 'tools/call' || isBuiltin) return undefined
        return (next) => (call) => {
          if (call.internal || !hasExtension(call, TRANSACTION_ID)) return next(call)
          return makeStep(call, next, desk)
        }
      },
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
      values: [{ name: TRANSACTION_ID }],
      reserved: (upstream) => (deps.hasTools && deps.isOn('idempotency', upstream) ? [reserved] : []),
      extensions: (upstream) => {
        const isThere = settings(upstream) !== false && deps.isOn('idempotency', upstream)
        // Nobody begins one where nobody can ask for it.
        if (!isThere || !deps.isAsked) return {}
        const maxLifetimeSeconds = Math.floor(desk.limits.max_lifetime / 1000)
        return { [`${NS}/transactions`]: { timeoutSeconds, maxLifetimeSeconds } }
      },
      start: () => desk.watch.start(),
      close: async () => {
        desk.watch.stop()
        desk.worker.close()
      },
    }
  },
}

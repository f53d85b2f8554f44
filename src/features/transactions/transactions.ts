import { hasExtension, NS } from '../../wire/extensions.ts'
import type { Feature } from '../feature.ts'
import { asTool } from '../own-tool.ts'
import { answerBegin, answerCommit, answerRollback, answerStatus } from './answers.ts'
import { createDesk } from './desk.ts'
import { type Settings, settingsSchema } from './settings.ts'
import { makeStep } from './steps.ts'
import { beginTool, commitTool, rollbackTool, statusTool } from './tools.ts'

/** Groups calls so that all of them can be undone. */
export const transactions: Feature<Settings | false> = {
  name: 'transactions',
  place: 'features',
  schema: settingsSchema,
  create: (settings, deps) => {
    const desk = createDesk(settings, deps)
    const begin = answerBegin(desk)
    const commit = answerCommit(desk)
    const rollback = answerRollback(desk)
    const status = answerStatus(desk)
    const timeoutSeconds = Math.floor(desk.limits.timeout / 1000)
    return {
      policy: ({ method, isOwn }) => {
        if (method !== 'tools/call' || isOwn) return undefined
        return (next) => (call) => {
          if (call.errand || !hasExtension(call, 'transaction_id')) return next(call)
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
      extensions: (upstream) => {
        if (settings(upstream) === false || !deps.isOn('idempotency')) return {}
        const maxLifetimeSeconds = Math.floor(desk.limits.lifetime / 1000)
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

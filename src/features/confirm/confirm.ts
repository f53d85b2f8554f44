import { createApprovals } from '../../records/approvals.ts'
import type { Feature } from '../feature.ts'
import { FLAG, TOKEN } from './around.ts'
import { confirmationPolicy } from './gate.ts'
import { describing } from './lists.ts'
import { createApprovalCache } from './memory.ts'
import { templateOf } from './message.ts'
import { reservedOf } from './reserved.ts'
import { isAsked, ruleOf } from './rules.ts'
import { type Settings, settingsSchema } from './settings.ts'
import { Waiting } from './waiting.ts'

/** Asks a person before what can do harm: the one at the client, or others on a page of the gateway. */
export const confirm: Feature<Settings> = {
  name: 'confirm',
  place: 'features',
  isLeftToGateway: true,
  schema: settingsSchema,
  create: (settings, deps) => {
    const approvals = createApprovals(deps.store, Date.now)
    const memory = createApprovalCache(deps.store, Date.now)
    const waiting = new Waiting(approvals.find)
    return {
      middleware: (target) => {
        const { upstream, method, name } = target
        const server = upstream === undefined ? undefined : deps.server(upstream)
        if (target.isBuiltin || !server) return undefined
        const own = settings(upstream)
        if (method === 'tools/list') return describing(server, own, deps)
        if (method !== 'tools/call' || name === undefined) return undefined
        const rule = ruleOf(name, server, own)
        return rule && confirmationPolicy({ rule, settings: own, server, deps, approvals, memory, waiting })
      },
      logFields: (entry) => {
        const server = deps.server(entry.upstream)
        const rule = server && ruleOf(entry.name, server, settings(entry.upstream))
        if (!rule || !isAsked(rule, entry)) return {}
        const message = templateOf(rule, entry, server)
        return { confirmation: { message, isOutOfBand: rule.isOutOfBand } }
      },
      values: [{ name: FLAG }, { name: TOKEN }],
      reserved: (upstream) => reservedOf(settings(upstream), upstream, deps),
      close: async () => waiting.close(),
    }
  },
}

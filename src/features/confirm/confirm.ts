/** The feature `confirm`: which calls a person has to confirm, and what lists say of it. */
import type { Middleware } from '../../core/call.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { CONFIRMATION_KEY, isAskedFor, withoutFlag } from '../../protocol/meta-keys.ts'
import { createApprovals } from '../../records/approvals.ts'
import { describingTools } from '../describing.ts'
import type { Feature } from '../feature.ts'
import type { Services } from '../feature.ts'
import { createApprovalCache } from './grant.ts'
import { FLAG, TOKEN, reservedOf, settingsSchema } from './context.ts'
import { confirmationPolicy } from './policy.ts'
import { templateOf } from './request.ts'
import { isAsked, ruleOf, riskOf, type Settings } from './rules.ts'
import { Waiting } from './waiting.ts'

type Deps = Pick<
  Services,
  'log' | 'store' | 'servers' | 'descriptions' | 'identity' | 'pages' | 'features' | 'gateway'
>

/** Asks a person before what can do harm: the one at the client, or others on a page of the gateway. */
export const confirm: Feature<Settings> = {
  name: 'confirm',
  place: 'features',
  isLeftToGateway: true,
  schema: settingsSchema,
  create: (settings, deps) => {
    const approvals = createApprovals(deps.store, Date.now)
    const memory = createApprovalCache(deps.store, Date.now)
    const waiting = new Waiting((id) => approvals.find(id))
    return {
      middleware: (target) => {
        const { upstream, method, name } = target
        const server = upstream === undefined ? undefined : deps.servers.settings(upstream)
        if (target.isBuiltin || !server) return undefined
        const own = settings(upstream)
        if (method === 'tools/list') return describing(server, own, deps)
        if (method !== 'tools/call' || name === undefined) return undefined
        const rule = ruleOf(name, server, own)
        return rule && confirmationPolicy({ rule, settings: own, server, deps, approvals, memory, waiting })
      },
      toolFacts: (entry) => {
        const server = deps.servers.settings(entry.upstream)
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

/** Says in a list of tools which ones people are asked about; nothing where there can be none. */
function describing(server: UpstreamSettings, settings: Settings, deps: Deps): Middleware | undefined {
  const isAnyNamed = Object.values(server.tools).some(
    ({ confirm, approval, approvals, approvers, typeToConfirm, cost }) =>
      (confirm ?? approval ?? approvals ?? approvers ?? typeToConfirm) !== undefined ||
      cost?.category === 'requires_approval',
  )
  if (settings.level === 'none' && !isAnyNamed) return undefined
  const about = { server, settings, deps }
  const plain = describingTools((tool) => described(tool, { ...about, isInMeta: false }))
  const whole = describingTools((tool) => described(tool, { ...about, isInMeta: true }))
  return (next) => {
    const [inPlain, inWhole] = [plain(next), whole(next)]
    return (call) =>
      (isAskedFor(call, CONFIRMATION_KEY) ? inWhole : inPlain)(withoutFlag(call, CONFIRMATION_KEY))
  }
}

interface With {
  /** Whether what stands beside the other members also stands in `_meta`. */
  readonly isInMeta: boolean
  readonly server: UpstreamSettings
  readonly settings: Settings
  readonly deps: Deps
}

function described(tool: Payload, { server, settings, deps, isInMeta }: With): Payload {
  const entry = isObject(tool.value) ? deps.servers.describe(server.name, tool.fields) : undefined
  const rule = entry && ruleOf(entry.name, server, settings)
  if (!entry || !rule || !isAsked(rule, entry)) return tool
  const risk = riskOf(rule, entry)
  const members = {
    requires_confirmation: true,
    confirmation_message: templateOf(rule, entry, server),
    risk_level: risk,
  }
  const annotations = tool.at('annotations') ?? Payload.of({})
  const beside = tool.with({
    ...(settings.compat && members),
    ...(risk === 'destructive' && { annotations: annotations.with({ destructiveHint: true }) }),
  })
  if (settings.compat && !isInMeta && !rule.isOutOfBand) return beside
  const own = rule.isOutOfBand ? { ...members, approval: 'out_of_band', needed: rule.needed } : members
  return beside.withMeta({ [CONFIRMATION_KEY]: own })
}

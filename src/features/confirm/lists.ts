import type { Middleware } from '../../core/call.ts'
import { isObject } from '../../core/json.ts'
import { Payload } from '../../core/payload.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { CONFIRMATION_KEY, isAskedFor, withoutFlag } from '../../wire/extensions.ts'
import type { Deps } from '../feature.ts'
import { describingTools } from '../tool-lists.ts'
import { templateOf } from './message.ts'
import { isAsked, riskOf, ruleOf } from './rules.ts'
import type { Settings } from './settings.ts'

/** Says in a list of tools which ones people are asked about; nothing where there can be none. */
export function describing(server: UpstreamSettings, settings: Settings, deps: Deps): Middleware | undefined {
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
  const entry = isObject(tool.value) ? deps.listed(server.name, tool.fields) : undefined
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

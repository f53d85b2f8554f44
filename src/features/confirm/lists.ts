import type { Outcome, Policy } from '../../core/call.ts'
import { isObject } from '../../core/json.ts'
import { Payload } from '../../core/payload.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import type { Deps } from '../feature.ts'
import { CONFIRMATION } from './answer.ts'
import { templateOf } from './message.ts'
import { isAsked, riskOf, ruleOf } from './rules.ts'
import type { Settings } from './settings.ts'

/** Says in a list of tools which ones people are asked about; nothing where there can be none. */
export function describing(server: UpstreamSettings, settings: Settings, deps: Deps): Policy | undefined {
  const isAnyNamed = Object.values(server.tools).some(
    ({ confirm, approval, approvals, approvers, typeToConfirm }) =>
      (confirm ?? approval ?? approvals ?? approvers ?? typeToConfirm) !== undefined,
  )
  if (settings.level === 'none' && !isAnyNamed) return undefined
  const describe = (tool: Payload): Payload => described(tool, { server, settings, deps })
  let last: { readonly text: string; readonly tools: Payload | undefined } | undefined
  return (next) => async (call) => {
    const outcome = await next(call)
    const tools = outcome.kind === 'result' ? outcome.result.at('tools') : undefined
    if (outcome.kind !== 'result' || !tools || !Array.isArray(tools.value)) return outcome
    if (last?.text !== tools.text) last = { text: tools.text, tools: changed(tools, describe) }
    return last.tools ? withTools(outcome, last.tools) : outcome
  }
}

function withTools(outcome: Outcome & { readonly kind: 'result' }, tools: Payload): Outcome {
  return { kind: 'result', result: outcome.result.with({ tools }) }
}

/** The same list with its entries changed; nothing where none is. */
function changed(tools: Payload, describe: (tool: Payload) => Payload): Payload | undefined {
  const before = tools.items
  const after = before.map(describe)
  if (after.every((tool, index) => tool === before[index])) return undefined
  return Payload.text(`[${after.map(({ text }) => text).join(',')}]`)
}

interface With {
  readonly server: UpstreamSettings
  readonly settings: Settings
  readonly deps: Deps
}

function described(tool: Payload, { server, settings, deps }: With): Payload {
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
  const own = rule.isOutOfBand ? { ...members, approval: 'out_of_band', needed: rule.needed } : members
  return tool
    .with({
      ...(settings.compat && members),
      ...(risk === 'destructive' && { annotations: annotations.with({ destructiveHint: true }) }),
    })
    .withMeta({ [CONFIRMATION]: own })
}

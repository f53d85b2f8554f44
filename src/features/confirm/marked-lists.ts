/** How lists of tools announce which of them a person has to confirm. */
import type { Middleware } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { isObject } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { settingOf, type UpstreamSettings } from '../../core/settings.ts'
import { reportedRisk, statedTool } from '../../core/stated-tool.ts'
import { CONFIRMATION_KEY, isAskedFor, withoutFlag } from '../../protocol/meta-keys.ts'
import type { Services } from '../feature.ts'
import { callUndos } from '../offers.ts'
import type { ConfirmSettings } from '../settings/effect.ts'
import { describingTools } from '../tool-lists.ts'
import { templateOf } from './request.ts'
import { isSkippedIfUndoable, needsConfirmation, riskOf, ruleOf } from './rules.ts'

type Deps = Pick<Services, 'servers' | 'features'>

/** Marks the tools that need confirmation in lists; undefined if there can be none. */
export function markTools(
  server: UpstreamSettings,
  settings: ConfirmSettings,
  deps: Deps,
): Middleware | undefined {
  const isAnyNamed = Object.values(server.tools).some(
    ({ confirm, approval, approvals, approvers, typeToConfirm, cost }) =>
      (confirm ?? approval ?? approvals ?? approvers ?? typeToConfirm) !== undefined ||
      cost?.category === 'requires_approval',
  )
  if (settings.level === 'none' && !isAnyNamed) return undefined
  const about = { server, settings, deps }
  const plain = describingTools((tool, all) => markTool(tool, { ...about, all, isInMeta: false }))
  const withMeta = describingTools((tool, all) => markTool(tool, { ...about, all, isInMeta: true }))
  return (next) => {
    const [listPlain, listWithMeta] = [plain(next), withMeta(next)]
    return (call) =>
      (isAskedFor(call, CONFIRMATION_KEY) ? listWithMeta : listPlain)(withoutFlag(call, CONFIRMATION_KEY))
  }
}

interface MarkOptions {
  /** Whether the members are also added to `_meta`. */
  readonly isInMeta: boolean
  /** The tools of the list. */
  readonly all: readonly Payload[]
  readonly server: UpstreamSettings
  readonly settings: ConfirmSettings
  readonly deps: Deps
}

function markTool(tool: Payload, options: MarkOptions): Payload {
  const { server, settings, deps, isInMeta } = options
  const entry = isObject(tool.value) ? deps.servers.describe(server.name, tool.fields) : undefined
  const rule = entry && ruleOf(entry.name, server, settings)
  if (!entry || !rule || !needsConfirmation(rule, entry)) return tool
  const risk = riskOf(rule, entry)
  const hasOwnRisk = settingOf(server.tools, entry.name, 'risk') !== undefined
  const members = {
    requires_confirmation: true,
    confirmation_message: templateOf(rule, entry, server),
    risk_level: hasOwnRisk ? risk : reportedRisk(statedTool(tool.fields).risk, risk, false),
  }
  const isUndone = isSkippedIfUndoable(rule, entry, server, settings) && canSecure(entry, options)
  const annotations = tool.at('annotations') ?? Payload.of({})
  // A hint that the server gives is kept; the call has to be confirmed either way.
  const isUnsaid = typeof annotations.fields.destructiveHint !== 'boolean'
  const marked = tool.with({
    ...(settings.compat && !isUndone && members),
    ...(risk === 'destructive' && isUnsaid && { annotations: annotations.with({ destructiveHint: true }) }),
  })
  if (settings.compat && !isInMeta && !rule.isOutOfBand) return marked
  const metaMembers = rule.isOutOfBand
    ? { ...members, approval: 'out_of_band', needed: rule.needed }
    : { ...members, ...(isUndone && { unless: 'exact_undo' }) }
  return marked.withMeta({ [CONFIRMATION_KEY]: metaMembers })
}

/** Whether calls of a tool can be undone exactly, given the list that it is in: proofs apply to the tools that they call as well. */
function canSecure({ name, proved }: Descriptor, { server, deps, all }: MarkOptions): boolean {
  if (!proved) return false
  const entries = all.flatMap(({ value, fields }) =>
    isObject(value) ? (deps.servers.describe(server.name, fields) ?? []) : [],
  )
  const entry = entries.find((each) => each.name === name)
  const [undo] = deps.features.offered(callUndos, server.name)
  return entry !== undefined && undo?.canSecure(entry, entries) === true
}

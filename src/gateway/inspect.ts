/** How the gateway classifies and handles one tool, for `gatehouse explain`. */
import { settingsFor } from '../features/feature.ts'
import { type Runtime, unconfiguredUndo } from './runtime.ts'
import type { Descriptor, LongCalls } from '../core/descriptor.ts'
import { atLeast } from '../core/judgement/call.ts'
import { pageArguments } from '../core/judgement/pages.ts'
import { type UpstreamSettings, settingOf } from '../core/settings.ts'
import type { StopAsking } from '../core/remember.ts'
import { isProvedExact, judgeUndo, type UndoJudgement } from '../core/undo/judge-undo.ts'
import { confirm } from '../features/confirm/confirm.ts'
import { templateOf } from '../features/confirm/request.ts'
import { isSkippedIfUndoable, needsConfirmation, ruleOf } from '../features/confirm/rules.ts'
import type { ConfirmSettings, EventSettings } from '../features/settings/effect.ts'
import { events } from '../features/events/events.ts'
import { successType } from '../features/events/sources/writes.ts'
import { longCallsOf, progress } from '../features/progress/progress.ts'
import { type Requirement, requirementOf } from '../features/permissions/gate.ts'
import { rememberedNames } from '../features/state/remember.ts'
import type { StateSettings } from '../features/settings/authorize.ts'
import { state } from '../features/state/state.ts'
import { undo } from '../features/undo/undo.ts'
import { stream } from '../features/stream/stream.ts'

/** A tool, and how the gateway handles it. */
export interface Inspected {
  readonly entry: Descriptor
  /** The scopes a caller needs: one of each group. */
  readonly scopes: Requirement
  readonly confirmation: ConfirmationRule
  readonly undoing: UndoJudgement
  /** What becomes of a call that takes long; absent if the gateway does not follow it. */
  readonly longCalls?: LongCalls | undefined
  /** How its pages are collected; absent if they are not. */
  readonly pages?: { readonly arguments: readonly string[]; readonly when: 'always' | 'on_request' }
  /** The type of events that a success is, and who receives it; absent if it is none. */
  readonly event?: { readonly type: string; readonly receivers: 'own' | 'all' }
  /** The arguments that a call may leave out once they are remembered. */
  readonly remembered?: readonly string[]
}

/** Whether confirmation is required before a tool runs. */
interface ConfirmationRule {
  /** `by_arguments`: only calls whose arguments require it. */
  readonly when: 'always' | 'by_arguments' | 'in_transactions' | 'never'
  /** Calls that can be undone exactly are not confirmed, if the store of the gateway lasts. */
  readonly unless?: 'exact_undo'
  /** Other people decide, not the user of the client. */
  readonly isOutOfBand: boolean
  /** What happens if the client cannot ask its user. */
  readonly fallback?: ConfirmSettings['fallback']
  readonly message?: string
  /** The setting that turns the confirmation off. */
  readonly stop?: StopAsking
  /** The reasons as text. */
  readonly why: readonly string[]
}

/** Describes how a tool is handled, given all tools of its server. */
export function inspect(
  entry: Descriptor,
  all: readonly Descriptor[],
  { settings }: Runtime,
): Inspected | undefined {
  const server = settings.upstreams.find(({ name }) => name === entry.upstream)
  if (!server) return undefined
  const confirmSettings = settingsFor(confirm, settings, server.name) || undefined
  const progressSettings = settingsFor(progress, settings, server.name)
  const unconfigured = unconfiguredUndo(settings, server.name)
  const undoing = judgeUndo(entry, all, { tools: server.tools, ...unconfigured })
  const undoSettings = settingsFor(undo, settings, server.name)
  const isKept = undoSettings && undoSettings.history !== 'off'
  const isUndone = isKept && unconfigured.usesProofs && isProvedExact(undoing)
  return {
    entry,
    scopes: entry.isBuiltin ? [] : requirementOf(entry, server),
    confirmation: confirmationOf(entry, server, confirmSettings, isUndone),
    undoing,
    longCalls:
      progressSettings === false ? undefined : longCallsOf(progressSettings, entry.name, server.tools),
    ...pagesOf(entry, settings),
    ...eventOf(entry, settingsFor(events, settings, server.name)),
    remembered: entry.isBuiltin ? [] : rememberedOf(entry, settingsFor(state, settings, server.name)),
  }
}

function pagesOf(entry: Descriptor, settings: Runtime['settings']): Pick<Inspected, 'pages'> {
  const own = settingsFor(stream, settings, entry.upstream)
  const selecting = own && entry.classification.op === 'read' ? pageArguments(entry.definition) : []
  if (!own || selecting.length === 0) return {}
  return {
    pages: { arguments: selecting.map(({ name }) => name), when: own.collect ? 'always' : 'on_request' },
  }
}

function eventOf(entry: Descriptor, settings: EventSettings | false): Pick<Inspected, 'event'> {
  const type = settings ? successType(entry, settings.writes) : undefined
  if (!settings || settings.writes === 'off' || type === undefined || entry.isBuiltin) return {}
  return { event: { type, receivers: settings.writes } }
}

function rememberedOf(entry: Descriptor, settings: StateSettings | false): readonly string[] {
  return (settings && rememberedNames(settings.remember)?.(entry)) || []
}

function confirmationOf(
  entry: Descriptor,
  server: UpstreamSettings,
  settings: ConfirmSettings | undefined,
  isUndone: boolean,
): ConfirmationRule {
  if (!settings) return { when: 'never', isOutOfBand: false, why: ['features.confirm is off'] }
  const rule = ruleOf(entry.name, server, settings)
  const why = [...configuredReasons(entry, server, settings), `its risk is ${entry.classification.risk}`]
  if (!rule) return { when: 'never', isOutOfBand: false, why }
  if (!needsConfirmation(rule, entry) && !rule.isPivot) return { when: 'never', isOutOfBand: false, why }
  const when = needsConfirmation(rule, atLeast(entry))
    ? 'always'
    : needsConfirmation(rule, entry)
      ? 'by_arguments'
      : 'in_transactions'
  const isSkipped = isUndone && isSkippedIfUndoable(rule, entry, server, settings)
  return {
    when,
    ...(isSkipped && { unless: 'exact_undo' as const }),
    isOutOfBand: rule.isOutOfBand,
    fallback: settings.fallback,
    message: templateOf(rule, entry, server),
    ...(rule.stop && { stop: rule.stop }),
    why,
  }
}

const keys = [
  ['confirm', 'confirm'],
  ['pivot', 'pivot'],
  ['typeToConfirm', 'type_to_confirm'],
  ['approval', 'approval'],
  ['approvals', 'approvals'],
  ['approvers', 'approvers'],
] as const

/** The settings that decide about confirmation. */
function configuredReasons(
  { name }: Descriptor,
  { tools }: UpstreamSettings,
  { level }: ConfirmSettings,
): string[] {
  const found = keys.flatMap(([key, written]) => {
    const setting = settingOf(tools, name, key)
    return setting ? [`the configuration has ${written}: ${String(setting.value)} for ${setting.glob}`] : []
  })
  return found.length > 0 ? found : [`features.confirm requires confirmation from level ${level} on`]
}

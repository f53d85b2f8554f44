/** What is known of one tool and decided about it, for `gatehouse explain`. */
import { settingsFor } from '../features/feature.ts'
import { type Runtime, isUndoDerived } from './runtime.ts'
import type { Descriptor } from '../core/descriptor.ts'
import { type UpstreamSettings, settingOf } from '../core/settings.ts'
import type { StopAsking } from '../core/remember.ts'
import { judgeUndo, type UndoJudgement } from '../core/undo/judge-undo.ts'
import { confirm } from '../features/confirm/confirm.ts'
import { templateOf } from '../features/confirm/request.ts'
import { needsConfirmation, ruleOf } from '../features/confirm/rules.ts'
import type { Settings as ConfirmSettings } from '../features/confirm/rules.ts'
import { type Requirement, requirementOf } from '../features/permissions/gate.ts'

/** A tool, and what the gateway does about it. */
export interface Inspected {
  readonly entry: Descriptor
  /** The scopes a caller needs: of each group one. */
  readonly scopes: Requirement
  readonly asking: Asking
  readonly undoing: UndoJudgement
}

/** Whether a person is asked before a tool runs. */
interface Asking {
  readonly when: 'always' | 'in_transactions' | 'never'
  /** Others are asked, not the person at the client. */
  readonly isOutOfBand: boolean
  /** What happens where the client cannot ask a person. */
  readonly fallback?: ConfirmSettings['fallback']
  readonly message?: string
  /** What to write to be asked no more. */
  readonly stop?: StopAsking
  /** For people. */
  readonly why: readonly string[]
}

/** Tells what is done about a tool, given all tools of its server. */
export function inspect(
  entry: Descriptor,
  all: readonly Descriptor[],
  { settings }: Runtime,
): Inspected | undefined {
  const server = settings.upstreams.find(({ name }) => name === entry.upstream)
  if (!server) return undefined
  const own = settingsFor(confirm, settings, server.name) || undefined
  const isDerived = isUndoDerived(settings, server.name)
  return {
    entry,
    scopes: entry.isBuiltin ? [] : requirementOf(entry, server),
    asking: askingOf(entry, server, own),
    undoing: judgeUndo(entry, all, { tools: server.tools, isDerived }),
  }
}

function askingOf(
  entry: Descriptor,
  server: UpstreamSettings,
  settings: ConfirmSettings | undefined,
): Asking {
  if (!settings) return { when: 'never', isOutOfBand: false, why: ['features.confirm is off'] }
  const rule = ruleOf(entry.name, server, settings)
  const why = [...said(entry, server, settings), `its risk is ${entry.classification.risk}`]
  if (!rule) return { when: 'never', isOutOfBand: false, why }
  if (!needsConfirmation(rule, entry) && !rule.isPivot) return { when: 'never', isOutOfBand: false, why }
  const when = needsConfirmation(rule, entry) ? 'always' : 'in_transactions'
  return {
    when,
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

/** What the configuration says that has to do with asking. */
function said({ name }: Descriptor, { tools }: UpstreamSettings, { level }: ConfirmSettings): string[] {
  const found = keys.flatMap(([key, written]) => {
    const setting = settingOf(tools, name, key)
    return setting ? [`the configuration says ${written}: ${String(setting.value)} for ${setting.glob}`] : []
  })
  return found.length > 0 ? found : [`features.confirm asks from this level on: ${level}`]
}

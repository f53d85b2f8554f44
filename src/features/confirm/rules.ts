/** Which confirmation rule applies to a tool: from its settings, its risk, its cost, or its place in a transaction. */
import type { Call } from '../../core/call.ts'
import { stepSlot } from '../../records/transactions.ts'
import { type Descriptor, type Risk, riskRanks, type Cost } from '../../core/descriptor.ts'
import { asObject } from '../../core/json/json.ts'
import type { Remember, StopAsking } from '../../core/remember.ts'
import { type UpstreamSettings, settingOf } from '../../core/settings.ts'
import { statesConfirmation } from '../../core/stated-tool.ts'
import { verbClass } from '../../core/judgement/lexicon.ts'
import { yamlKey } from '../../core/text/escape.ts'
import type { ConfirmSettings } from '../settings/effect.ts'

/** The confirmation rule of one tool. */
export interface Rule {
  /** The lowest rank of risk that requires confirmation. */
  readonly from: number
  /** The tool is a pivot: its calls in transactions require confirmation. */
  readonly isPivot: boolean
  /** A tool without a hint that it is not destructive counts as destructive. */
  readonly isLiteral: boolean
  readonly template?: string
  /** The cost of the call, in words, if that is why confirmation is required. */
  readonly price?: string
  /** The argument whose value has to be typed. */
  readonly typed?: string
  /** Other people approve it. */
  readonly isOutOfBand: boolean
  readonly needed: number
  readonly approvers: readonly string[]
  /** To which further calls an approval applies, always or if the person chooses so. */
  readonly remember?: Remember
  /** The configuration that stops these confirmations, if the gateway's own classification requires them. */
  readonly stop?: StopAsking
}

const levels = { all: 0, reversible: 1, destructive: 2, none: 3 } as const

/** The rule for a tool; undefined where the configuration alone excludes a confirmation. */
export function ruleOf(name: string, server: UpstreamSettings, settings: ConfirmSettings): Rule | undefined {
  const { tools } = server
  const confirmSetting = settingOf(tools, name, 'confirm')?.value
  const risk = settingOf(tools, name, 'risk')?.value
  const typed = settingOf(tools, name, 'typeToConfirm')?.value
  const approval = settingOf(tools, name, 'approval')?.value
  const needed = settingOf(tools, name, 'approvals')?.value
  const approvers = settingOf(tools, name, 'approvers')?.value
  const ownRemember = settingOf(tools, name, 'remember')?.value
  const cost = settingOf(tools, name, 'cost')?.value
  const isCostly = cost?.category === 'requires_approval'
  const isPivot = settingOf(tools, name, 'pivot')?.value === true
  const isOutOfBand = approval ? approval === 'out_of_band' : (needed ?? approvers) !== undefined
  // Settings on how to confirm imply that confirmation is required, but not for tools that only read.
  const isImplied = isOutOfBand || typed !== undefined
  const minRank = isImplied ? Math.min(levels.reversible, levels[settings.level]) : levels[settings.level]
  const from = isCostly
    ? levels.all
    : confirmSetting === undefined
      ? minRank
      : isNever(confirmSetting)
        ? levels.none
        : levels.all
  if (from === levels.none && !isPivot) return undefined
  // Explicitly configured confirmations are required each time, unless the tool's own settings say otherwise.
  const isExplicit = isImplied || isCostly || confirmSetting !== undefined
  const isOffered = !isExplicit || (ownRemember !== undefined && !isImplied && !isCostly)
  const remember = rememberOf(ownRemember ?? settings.remember, isOffered)
  return {
    from,
    isPivot,
    isLiteral: settings.unannotated === 'confirm' && risk === undefined,
    ...(typeof confirmSetting === 'string' && !isNever(confirmSetting) && { template: confirmSetting }),
    ...(isCostly && { price: priceOf(cost) }),
    ...(typed !== undefined && { typed }),
    isOutOfBand,
    needed: needed ?? 1,
    approvers: approvers ?? [],
    ...(remember && { remember }),
    ...(!isExplicit && !isPivot && { stop: stopOf(name, server) }),
  }
}

/** The setting that stops confirmations of a tool: the nearest existing place in the configuration, and the line to add. */
function stopOf(tool: string, { name, tools }: UpstreamSettings): StopAsking {
  const under = `upstreams.${name}`
  const setting = 'confirm: never'
  if (Object.hasOwn(tools, tool)) return { under: `${under}.tools.${yamlKey(tool)}`, write: setting }
  const write = `${yamlKey(tool)}: { ${setting} }`
  if (Object.keys(tools).length > 0) return { under: `${under}.tools`, write }
  return { under, write: `tools: { ${write} }` }
}

function rememberOf(remember: false | Remember, isOffered: boolean): Remember | undefined {
  return remember === false || (remember.offer === true && !isOffered) ? undefined : remember
}

/** What the person may choose: that the decision applies to further calls of this tool. */
export function offerOf(
  { remember }: Rule,
  { classification }: Descriptor,
  call: Call,
): Remember | undefined {
  const { client, principal } = call
  if (!remember?.offer || remember.max < 2) return undefined
  // Each program that is executed is a different one.
  if (classification.op === 'execute') return undefined
  // Steps of transactions are confirmed separately.
  if (stepSlot.of(call)) return undefined
  // One decision would apply to every caller of the gateway.
  return principal.isEverybody && client.session === undefined ? undefined : remember
}

function priceOf({ units, label }: Cost): string {
  const named = label ?? (units === 1 ? 'unit' : 'units')
  return units === undefined ? (label ?? 'something') : `${units} ${named}`
}

function isNever(confirmSetting: boolean | string): boolean {
  return confirmSetting === false || confirmSetting === 'never'
}

/** Whether the tool need not be looked up, because no call of it outside of a transaction requires confirmation. */
export function neverNeedsConfirmation({ from }: Rule, call: Call): boolean {
  return from === levels.none && !stepSlot.of(call)
}

/** Whether a call of a tool requires confirmation; without the call, whether one could. */
export function needsConfirmation(rule: Rule, entry: Descriptor, call?: Call): boolean {
  if (riskRanks[riskOf(rule, entry)] >= rule.from || (rule.isPivot && call && stepSlot.of(call))) return true
  return rule.from !== levels.none && statesConfirmation(entry.definition)
}

/**
 * Whether calls of a tool need no confirmation if they are undone exactly: that they overwrite something is the only reason to
 * ask. The owner, the server, a cost or the level may have others.
 */
export function isSkippedIfUndoable(
  rule: Rule,
  { classification, definition, name }: Descriptor,
  { trust, tools }: UpstreamSettings,
  { exact_undo: exactUndo }: ConfirmSettings,
): boolean {
  const { op, verb } = classification
  // Only of the confirmations that the gateway's own classification requires it is known how to stop them.
  const isOwnReason = rule.stop !== undefined && !rule.isLiteral && !statesConfirmation(definition)
  const isOutward = verb !== undefined && verbClass(verb) === 'outward'
  const isConfigured = settingOf(tools, name, 'risk') !== undefined
  return (
    exactUndo === 'skip' &&
    trust &&
    isOwnReason &&
    rule.from > levels.all &&
    op === 'write' &&
    !isOutward &&
    !isConfigured
  )
}

/** The risk of a tool. */
export function riskOf({ isLiteral }: Rule, { classification, definition }: Descriptor): Risk {
  if (!isLiteral || classification.risk === 'destructive') return classification.risk
  const hints = asObject(definition.annotations)
  // A missing `destructiveHint` means that a tool may be destructive, unless it only reads (2025-03-26 server/tools).
  const hasHint = typeof hints.destructiveHint === 'boolean' || hints.readOnlyHint === true
  return hasHint ? classification.risk : 'destructive'
}

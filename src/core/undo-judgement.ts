/**
 * Judges how a tool is undone: by what is configured, else by what its server's list suggests. What `explain` and
 * `plan` print, what documents say, and what is done when a call is undone all come from here.
 * Invariant: there is a rule, which is what is really done, only where the configuration gives it, or where a
 * proposal without doubts may be used.
 */
import type { Descriptor } from './entry.ts'
import { isSure, type Proposal, proposeUndo } from './inverse.ts'
import type { ToolSettings, UndoSettings } from './settings.ts'
import { settingOf } from './tool-settings.ts'
import { readUndo, type UndoRule, undoRuleOf } from './undo.ts'
import { undoMismatches } from './undo-misfits.ts'

/** How a tool is undone, and how that is known. */
export interface UndoJudgement {
  /** `proposal` is only shown to people: nothing is ever undone by it. */
  readonly from: 'configuration' | 'derivation' | 'proposal' | 'nowhere'
  /** `unsure` where it may do less or more than undo the call; `unneeded` where there is nothing to undo. */
  readonly how: 'exact' | 'approximate' | 'unsure' | 'impossible' | 'unneeded'
  /** What is done, where it is configured or may be derived. */
  readonly rule?: UndoRule
  /** The same, or what is proposed, as the configuration says it. */
  readonly undo?: string | UndoSettings
  /** Why, for people. */
  readonly why: readonly string[]
  /** Why it is not sure, or can not work, for people. */
  readonly doubts: readonly string[]
}

interface Given {
  /** What the configuration says of the tools of the server. */
  readonly tools: Readonly<Record<string, ToolSettings>>
  /** What the server's list suggests may be used where nothing is configured. */
  readonly isDerived: boolean
}

/** Judges how a tool is undone, given all tools of its server. @throws TypeError where its setting can not be read */
export function judgeUndo(
  entry: Descriptor,
  all: readonly Descriptor[],
  { tools, isDerived }: Given,
): UndoJudgement {
  const { name, classification, definition } = entry
  if (classification.op === 'read')
    return { from: 'nowhere', how: 'unneeded', why: ['it only reads'], doubts: [] }
  const configured = settingOf(tools, name, 'undo')
  const rule = undoRuleOf(tools, name)?.rule
  if (configured && rule) {
    const why = [`the configuration says so for ${configured.glob}`]
    if (rule.kind === 'none') return { from: 'nowhere', how: 'impossible', rule, why, doubts: [] }
    const doubts = undoMismatches(rule, entry, all)
    const how = doubts.length > 0 ? 'impossible' : rule.isExact ? 'exact' : 'approximate'
    return { from: 'configuration', how, rule, undo: configured.value, why, doubts }
  }
  const { proposal, misses } = proposeUndo(definition, definitionsOf(all))
  if (proposal) return proposed(proposal, isDerived)
  const why = misses.length > 0 ? misses : ['no tool of the server is known to undo it']
  return { from: 'nowhere', how: 'impossible', why, doubts: [] }
}

function proposed(proposal: Proposal, isDerived: boolean): UndoJudgement {
  const { undo, why, doubts } = proposal
  if (!isSure(proposal)) return { from: 'proposal', how: 'unsure', undo, why, doubts }
  const rule = readUndo(undo)
  const how = rule.kind !== 'none' && rule.isExact ? 'exact' : 'approximate'
  return isDerived
    ? { from: 'derivation', how, rule, undo, why, doubts }
    : { from: 'proposal', how, undo, why, doubts }
}

type Definitions = readonly Descriptor['definition'][]

/** The definitions of entries; the same list for the same entries, so that it is looked through once. */
function definitionsOf(all: readonly Descriptor[]): Definitions {
  const found = known.get(all) ?? all.map(({ definition }) => definition)
  known.set(all, found)
  return found
}

const known = new WeakMap<readonly Descriptor[], Definitions>()

/**
 * Decides how a tool is undone: by its configuration, or else by a proof of a pack, or else by what its server's list
 * suggests. The output of `explain` and `plan`, documents, and actual undo calls are all based on it. Invariant: there is
 * a rule, which is what is executed, only if the configuration gives one, or if a proof or a proposal without caveats may
 * be used.
 */
import type { Descriptor } from '../descriptor.ts'
import type { ProvedTool } from '../proof.ts'
import type { Root } from '../json/path.ts'
import { changedTool, proofText } from '../pack.ts'
import { isSame } from '../json/json.ts'
import { hint, argumentMismatches, pathMismatch } from '../schema/argument-mismatches.ts'
import { type ToolSettings, settingOf } from '../settings.ts'
import { type Expression, pathsOf, type UndoSettings } from './expression.ts'
import { isSure, proposeUndo } from './inverse.ts'
import { type Proposal } from './restore.ts'
import { readUndo, type UndoRule, undoRuleOf } from './rules.ts'

/** How a tool is undone, and the source of that knowledge. */
export interface UndoJudgement {
  /** A `proposal` is only displayed to people and never executed. */
  readonly from: 'configuration' | 'derivation' | 'proposal' | 'nowhere'
  /** `unsure` if it may undo less or more than the call; `unneeded` if there is nothing to undo. */
  readonly how: 'exact' | 'approximate' | 'unsure' | 'impossible' | 'unneeded'
  /** The rule restored the state in calls of a real server. */
  readonly isProved?: true
  /** The executed rule, if it is configured or may be derived. */
  readonly rule?: UndoRule
  /** The rule or the proposal, in the form of the configuration. */
  readonly undo?: string | UndoSettings
  /** The reasons, for people. */
  readonly why: readonly string[]
  /** Why it is not certain, or cannot work, for people. */
  readonly caveats: readonly string[]
}

interface UndoContext {
  /** The configured settings of the server's tools. */
  readonly tools: Readonly<Record<string, ToolSettings>>
  /** Whether rules may be derived from the server's list if nothing is configured. */
  readonly isDerived: boolean
  /** Whether proved rules may be used if nothing is configured, also where others are not derived. */
  readonly usesProofs?: boolean
}

/** Decides how a tool is undone, given all tools of its server. @throws TypeError if its setting is invalid */
export function judgeUndo(
  entry: Descriptor,
  all: readonly Descriptor[],
  { tools, isDerived, usesProofs = isDerived }: UndoContext,
): UndoJudgement {
  const { name, classification, definition } = entry
  if (classification.op === 'read')
    return { from: 'nowhere', how: 'unneeded', why: ['it only reads'], caveats: [] }
  const configured = settingOf(tools, name, 'undo')
  const rule = undoRuleOf(tools, name)?.rule
  if (configured && rule) {
    const why = [`configured for ${configured.glob}`]
    if (rule.kind === 'none') return { from: 'nowhere', how: 'impossible', rule, why, caveats: [] }
    const caveats = undoMismatches(rule, entry, all)
    const how = caveats.length > 0 ? 'impossible' : rule.isExact ? 'exact' : 'approximate'
    const judged = { from: 'configuration', how, rule, undo: configured.value, why, caveats } as const
    return isAsProved(entry, all, configured.value) ? { ...judged, isProved: true } : judged
  }
  const { proved } = entry
  const changed = proved && changedTool(proved, definitionsOf(all))
  if (proved && changed === undefined) {
    const judged = provedUndo(proved, isDerived || usesProofs)
    if (judged) return judged
  }
  const ignored =
    proved && changed !== undefined ? [`the proof of ${proved.proof.date} is ignored: ${changed}`] : []
  const { proposal, misses } = proposeUndo(definition, definitionsOf(all))
  if (proposal) return proposed({ ...proposal, why: [...ignored, ...proposal.why] }, isDerived)
  const why = misses.length > 0 ? misses : ['no known tool of the server undoes it']
  return { from: 'nowhere', how: 'impossible', why: [...ignored, ...why], caveats: [] }
}

/** Whether a configured undo is the one that was proved for exactly these tools. */
function isAsProved({ proved }: Descriptor, all: readonly Descriptor[], undo: unknown): boolean {
  if (!proved?.proof.proved.includes('undo') || !isSame(proved.settings.undo, undo)) return false
  return changedTool(proved, definitionsOf(all)) === undefined
}

/** Whether a tool restores exactly what is read before it, as it was proved for exactly these tools. */
export function isProvedExact({ rule, how, isProved }: UndoJudgement): boolean {
  return isProved === true && how === 'exact' && rule?.kind === 'restore'
}

/** Whether a judgement is a proposal that the configuration can have as it is. */
export function isUndoProposed({ from, how, undo }: UndoJudgement): boolean {
  return from === 'proposal' && how !== 'unsure' && undo !== undefined
}

/** The judgement by a proof; undefined if it says nothing about the undo. */
function provedUndo({ settings, proof }: ProvedTool, isUsed: boolean): UndoJudgement | undefined {
  const { undo } = settings
  const why = [proofText(proof)]
  // What was seen to fail is not proposed again.
  if (undo === undefined && proof.refuted.includes('undo'))
    return { from: 'nowhere', how: 'impossible', why, caveats: [] }
  if (undo === undefined || !proof.proved.includes('undo')) return undefined
  return { ...proposed({ undo, why, caveats: proof.caveats ?? [] }, isUsed), isProved: true }
}

function proposed(proposal: Proposal, isDerived: boolean): UndoJudgement {
  const { undo, why, caveats } = proposal
  if (!isSure(proposal)) return { from: 'proposal', how: 'unsure', undo, why, caveats }
  const rule = readUndo(undo)
  const how = rule.kind !== 'none' && rule.isExact ? 'exact' : 'approximate'
  return isDerived
    ? { from: 'derivation', how, rule, undo, why, caveats }
    : { from: 'proposal', how, undo, why, caveats }
}

type Definitions = readonly Descriptor['definition'][]

/** The definitions of descriptors; the same list for the same descriptors, so that it is indexed once. */
function definitionsOf(all: readonly Descriptor[]): Definitions {
  const found = known.get(all) ?? all.map(({ definition }) => definition)
  known.set(all, found)
  return found
}

const known = new WeakMap<readonly Descriptor[], Definitions>()

// Checks the calls that undo or verify a tool against its server's list: whether the tools, arguments and fields they
// name exist, and whether the types of their values match.

/** A configured call, and the sources of its values. */
export interface WrittenUndo {
  readonly expression: Expression
  /** The tools it is written for. */
  readonly subjects: readonly Descriptor[]
  /** Whose result `$.result` refers to; by default that of the subjects. */
  readonly resultOf?: 'itself'
  /** The call that reads before; `$.snapshot` refers to its result. */
  readonly snapshot?: Expression
  /** The tool it names must be read-only. */
  readonly mustRead?: true
}

/** The mismatches between a call and the tools of a server, for people. */
export function writtenMismatches(
  written: WrittenUndo,
  upstream: string,
  tools: readonly Descriptor[],
): string[] {
  const { expression, mustRead, subjects, snapshot, resultOf } = written
  const named = (name: string): Descriptor | undefined => tools.find((tool) => tool.name === name)
  const target = named(expression.tool)
  if (!target) {
    const known = tools.map(({ name }) => name)
    return [`${upstream} has no tool ${expression.tool}${hint(expression.tool, known)}`]
  }
  const read = snapshot && named(snapshot.tool)
  const answering = resultOf === 'itself' ? [target] : subjects
  const schemas: Schemas = {
    args: subjects.map(({ name, definition }) => [name, definition.inputSchema]),
    result: answering.map(({ name, definition }) => [name, definition.outputSchema]),
    snapshot: read ? [[read.name, read.definition.outputSchema]] : [],
  }
  return [
    ...(mustRead && target.classification.op !== 'read' ? [notReadOnly(target)] : []),
    ...argumentMismatches(expression, target.definition.inputSchema, schemas),
    ...pathMismatches(expression, schemas),
  ]
}

/** The calls of a rule, by their configuration keys. */
export function callsOf(
  rule: UndoRule,
): readonly (Pick<WrittenUndo, 'expression' | 'snapshot' | 'mustRead'> & { readonly key: string })[] {
  if (rule.kind === 'none') return []
  if (rule.kind === 'call') return [{ key: 'call', expression: rule.call }]
  const { snapshot, restore, absent } = rule
  return [
    { key: 'snapshot', expression: snapshot, mustRead: true },
    { key: 'restore', expression: restore, snapshot },
    ...(absent ? [{ key: 'absent', expression: absent }] : []),
  ]
}

/** The mismatches between a rule and the tools of a server, for one tool it applies to. */
function undoMismatches(rule: UndoRule, subject: Descriptor, tools: readonly Descriptor[]): string[] {
  const found = callsOf(rule).flatMap((call) =>
    writtenMismatches({ ...call, subjects: [subject] }, subject.upstream, tools),
  )
  return [...new Set(found)]
}

/** The schemas that paths lead into, with the names of their tools. */
type Schemas = Readonly<Record<Root, readonly (readonly [string, unknown])[]>>

/** A path has to exist for all of the tools. */
function pathMismatches(expression: Expression, schemas: Schemas): string[] {
  const { find } = expression
  const paths = [...pathsOf(expression), ...(find ? [find] : [])]
  return paths.flatMap((path) =>
    schemas[path.root].flatMap(([tool, schema]) => pathMismatch(path, schema, tool) ?? []),
  )
}

function notReadOnly({ name, classification }: Descriptor): string {
  const [why] = classification.evidence
  const because = why === undefined ? '' : ` (${why})`
  return `${name} is called to read, but is not classified as read-only${because}; set op: read if it is`
}

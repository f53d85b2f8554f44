/**
 * Proves what is claimed about the tools of a server by calling them in a sandbox: that an undo restores the state, that
 * a key makes a call once, that a verifying read is right. Invariant: no tool is called with arguments outside of the
 * sandbox, which the wire checks for every call.
 */
import type { Descriptor } from '../../core/descriptor.ts'
import type { Claim, Proof, ProvedSettings } from '../../core/proof.ts'
import { isObject } from '../../core/json/json.ts'
import { definitionHash, type Pack, type PackedTool } from '../../core/pack.ts'
import { type ToolSettings, settingOf } from '../../core/settings.ts'
import { fieldsUsedBy } from '../../core/undo/argument-mapping.ts'
import { parseExpression, type UndoSettings } from '../../core/undo/expression.ts'
import { judgeUndo, callsOf } from '../../core/undo/judge-undo.ts'
import { readUndo, type UndoRule } from '../../core/undo/rules.ts'
import { proposeVerify } from '../../core/undo/verification.ts'
import {
  type ClaimFinding,
  proveIdempotent,
  proveOnce,
  proveUndo,
  proveVerify,
  type ProofSubject,
} from './claims.ts'
import type { Sandbox } from './sandbox.ts'
import { readsFor } from './state.ts'
import type { Json, ProofCall, ProofTarget, Wire } from './target.ts'
import { filledIn, type GivenCalls, type Trial, type Trials, trialsOf } from './trials.ts'
import { self } from '../../core/identity.ts'

/** What is to be proved about a tool. */
export interface ProofCandidate {
  readonly entry: Descriptor
  readonly undo?: string | UndoSettings
  readonly rule?: UndoRule
  readonly verify?: string
  /** Doubts about the undo from names and schemas, which no call can settle. */
  readonly caveats: readonly string[]
  readonly trials: Trials
  readonly given: GivenCalls | undefined
}

/** What was found out about a tool. */
export interface ToolProof {
  readonly candidate: ProofCandidate
  readonly findings: readonly (ClaimFinding & { readonly duration: number })[]
}

interface CandidateSources {
  readonly tools: Readonly<Record<string, ToolSettings>>
  readonly sandbox: Sandbox
  readonly given: ReadonlyMap<string, GivenCalls>
}

/** The rules of a tool, as configured or else as proposed, and how it is called. */
export function candidateOf(
  entry: Descriptor,
  all: readonly Descriptor[],
  sources: CandidateSources,
): ProofCandidate {
  const { tools, sandbox, given } = sources
  const { name, definition, classification } = entry
  // An earlier proof does not count here.
  const { proved: _earlier, ...unproved } = entry
  const { undo, from, caveats } = judgeUndo(unproved, all, { tools, isDerived: false })
  const reads = all.filter(isReading).map((each) => each.definition)
  const verify = settingOf(tools, name, 'verify')?.value ?? proposeVerify(definition, reads)
  const own = given.get(name)
  const examples = [
    ...(settingOf(tools, name, 'examples')?.value ?? []).map(({ input }) => input),
    ...examplesIn(definition),
  ]
  const isRunning = classification.op === 'execute' && !own
  return {
    entry,
    ...(undo !== undefined && { undo, rule: readUndo(undo) }),
    ...(verify !== undefined && { verify }),
    caveats: from === 'configuration' ? [] : caveats,
    given: own,
    trials: isRunning
      ? { problem: 'it runs what its caller writes', isArgumentNeeded: true }
      : trialsOf(definition, { sandbox, given: own, examples }),
  }
}

/** Whether a tool only reads. */
export function isReading({ classification }: Descriptor): boolean {
  return classification.op === 'read'
}

function examplesIn({ inputSchema }: Json): readonly Json[] {
  const examples: unknown = isObject(inputSchema) ? inputSchema.examples : undefined
  return Array.isArray(examples) ? examples.filter(isObject) : []
}

/** The settings with which a gateway carries out the rules of these tools. */
export function withRules(
  tools: Readonly<Record<string, ToolSettings>>,
  candidates: readonly ProofCandidate[],
): Readonly<Record<string, ToolSettings>> {
  const own = candidates.map(({ entry: { name }, undo, verify }) => {
    const rules = { ...(undo !== undefined && { undo }), ...(verify !== undefined && { verify }) }
    return [name, { ...tools[name], ...rules }] as const
  })
  return { ...tools, ...Object.fromEntries(own) }
}

interface World {
  readonly all: readonly Descriptor[]
  readonly sandbox: Sandbox
  readonly target: ProofTarget
  readonly wire: Wire
  /** Makes a text that no other call has. */
  unique(): string
}

/** Carries out the experiments about a tool. @throws what the gateway throws outside of calls */
export async function proveTool(
  candidate: ProofCandidate,
  claims: readonly Claim[],
  world: World,
): Promise<ToolProof['findings']> {
  const findings: (ClaimFinding & { readonly duration: number })[] = []
  for (const claim of claims) {
    const began = performance.now()
    const found = await proveClaim(candidate, claim, world)
    findings.push({ ...found, duration: performance.now() - began })
  }
  return findings
}

async function proveClaim(candidate: ProofCandidate, claim: Claim, world: World): Promise<ClaimFinding> {
  const { trials, rule, verify, entry } = candidate
  const unproved = (reason: string): ClaimFinding => ({ claim, verdict: 'no proof', reason })
  if ('problem' in trials)
    return unproved(
      trials.isArgumentNeeded ? `${trials.problem}: give some with --arguments FILE` : trials.problem,
    )
  const subject = subjectOf(candidate, trials, world)
  if (claim === 'once') return proveOnce(subject)
  if (claim === 'idempotent') return proveIdempotent(subject, hintOf(entry))
  if (claim === 'verify') {
    return verify === undefined
      ? unproved('no verify is configured, and no read is known that could show the effect')
      : proveVerify(subject, parseExpression(verify))
  }
  if (rule === undefined || rule.kind === 'none')
    return unproved('no undo is configured, and no known tool of the server undoes it')
  return proveUndo(subject, rule)
}

function hintOf({ definition: { annotations } }: Descriptor): unknown {
  return isObject(annotations) ? annotations.idempotentHint : undefined
}

function subjectOf(
  { entry, rule, verify, given }: ProofCandidate,
  trials: Extract<Trials, { readonly isGenerated: boolean }>,
  { all, sandbox, target, wire, unique }: World,
): ProofSubject {
  const reads = all.filter(isReading)
  const expressions = [
    ...(rule?.kind === 'restore' ? [rule.snapshot] : []),
    ...(verify === undefined ? [] : [parseExpression(verify)]),
  ]
  let last = ''
  return {
    tool: entry.name,
    target,
    wire,
    isIdempotent: entry.classification.idempotent,
    next: () => trials.make((last = unique())),
    reads: (args) => {
      const own: readonly ProofCall[] = filledIn(given?.reads ?? [], sandbox, last)
      return readsFor(entry.definition, args, { reads, sandbox, expressions, given: own })
    },
    overwriting: (first) => overwriting(first, trials.make(unique()), rule),
  }
}

/** A trial with the arguments of the first one that the snapshot uses, which name the object, and others of its own. */
function overwriting(first: Trial, second: Trial, rule: UndoRule | undefined): Trial | undefined {
  if (rule?.kind !== 'restore' || first.before.length > 0) return undefined
  const named = fieldsUsedBy(rule.snapshot.arguments)
  const same = Object.entries(first.arguments).filter(([name]) => named.has(name))
  return { before: [], arguments: { ...second.arguments, ...Object.fromEntries(same) } }
}

interface Facts {
  /** What the server calls itself. */
  readonly info: { readonly name: string; readonly version: string }
  readonly date: string
  /** All tools of the server. */
  readonly all: readonly Descriptor[]
}

/** The pack of these proofs: the tools about which something was found out. */
export function packOf(proofs: readonly ToolProof[], facts: Facts): Pack {
  const tools = proofs.flatMap((proof) => {
    const packed = packedTool(proof, facts)
    return packed ? [[proof.candidate.entry.name, packed] as const] : []
  })
  return { package: facts.info.name, tools: Object.fromEntries(tools) }
}

function packedTool({ candidate, findings }: ToolProof, { info, date, all }: Facts): PackedTool | undefined {
  const claimsThat = (verdict: string): Proof['proved'] =>
    findings.filter((each) => each.verdict === verdict).map(({ claim }) => claim)
  const [proved, refuted] = [claimsThat('proved'), claimsThat('refuted')]
  if (proved.length + refuted.length === 0) return undefined
  const { entry, undo, verify, caveats } = candidate
  const isUndone = proved.includes('undo')
  // Its effect was seen, and nothing is known that takes it back.
  const isPivot = refuted.includes('undo') || (undo === undefined && proved.length > 0)
  const settings: ProvedSettings = {
    ...(isUndone && undo !== undefined && { undo }),
    ...(proved.includes('verify') && verify !== undefined && { verify }),
    ...(proved.includes('idempotent') && { idempotent: true }),
    ...(isPivot && { pivot: true }),
  }
  const uses = usesOf(settings, all)
  return {
    definitions: [definitionHash(entry.definition)],
    settings,
    ...(Object.keys(uses).length > 0 && { uses }),
    proof: {
      date,
      server: info.name,
      version: info.version,
      gatehouse: self.version,
      proved,
      refuted,
      ...(isUndone && caveats.length > 0 && { caveats }),
    },
  }
}

/** The definitions of the tools that settings call. */
function usesOf(
  { undo, verify }: ProvedSettings,
  all: readonly Descriptor[],
): Readonly<Record<string, string[]>> {
  const calls = [
    ...(undo === undefined ? [] : callsOf(readUndo(undo)).map(({ expression }) => expression.tool)),
    ...(verify === undefined ? [] : [parseExpression(verify).tool]),
  ]
  const used = all.filter(({ name }) => calls.includes(name))
  return Object.fromEntries(used.map(({ name, definition }) => [name, [definitionHash(definition)]]))
}

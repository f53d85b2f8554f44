/** Writes what was proved as a pack. What was refuted is only named there. */
import type { Descriptor } from '../../core/descriptor.ts'
import { self } from '../../core/identity.ts'
import {
  definitionHash,
  type Pack,
  type PackedTool,
  type Proof,
  type ProvedSettings,
} from '../../core/pack.ts'
import { parseExpression } from '../../core/undo/expression.ts'
import { callsOf } from '../../core/undo/judge-undo.ts'
import { readUndo } from '../../core/undo/rules.ts'
import type { ToolProof } from './prove.ts'

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

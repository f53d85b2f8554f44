/**
 * The proofs of the packs that are part of the gateway, by exact definition. They count for trusted servers only: any
 * server can list the same definition.
 */
import { type Pack, proofIndex, type ProvedTool, provedIn } from '../core/pack.ts'

const packs: readonly Pack[] = []

const index = proofIndex(packs)

/** What is proved about a definition, for a trusted server. */
export function provedOf(
  definition: Readonly<Record<string, unknown>>,
  isTrusted: boolean,
): ProvedTool | undefined {
  const found = isTrusted ? provedIn(index, definition) : undefined
  return found === 'other' ? undefined : found
}

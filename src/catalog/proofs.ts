/**
 * The proofs of the packs that are part of the gateway, by exact definition. They count for trusted servers only: any
 * server can list the same definition.
 */
import { parsePack, proofIndex, provedIn } from '../core/pack.ts'
import type { ProvedTool } from '../core/proof.ts'
import filesystem from './packs/filesystem.json' with { type: 'json' }
import memory from './packs/memory.json' with { type: 'json' }
import redis from './packs/redis.json' with { type: 'json' }

const packs = [filesystem, memory, redis].map((pack) => parsePack(JSON.stringify(pack), pack.package))

const index = proofIndex(packs)

/** What is proved about a definition, for a trusted server. */
export function provedOf(
  definition: Readonly<Record<string, unknown>>,
  isTrusted: boolean,
): ProvedTool | undefined {
  const found = isTrusted ? provedIn(index, definition) : undefined
  return found === 'other' ? undefined : found
}

import type { Recommendation } from '../../core/settings.ts'
import { queryWords, stem, wordsIn } from '../../core/stem.ts'
import { synonymsOf } from '../../core/synonyms.ts'
import { most, type Recommended } from './shape.ts'

/** How much of what a server is recommended for must be asked for, from 0 to 1. */
const MIN_SCORE = 0.5

/** The servers an owner recommends for what is asked for: those whose capability is named, in other words too. */
export function writtenFor(capability: string, written: readonly Recommendation[]): Recommended[] {
  const asked = new Set(queryWords(capability).map(stem))
  return written.flatMap(({ capability: offered, server, registryUrl, authFlow, confidence }) => {
    const words = wordsIn(offered).map(stem)
    const named = words.filter((word) => asked.has(word) || synonymsOf(word).some((each) => asked.has(each)))
    const share = words.length === 0 ? 0 : named.length / words.length
    if (share < MIN_SCORE) return []
    return [{ server, score: Math.min(share, most(confidence)), registryUrl, authFlow }]
  })
}

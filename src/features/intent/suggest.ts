/** Finds tools whose names and descriptions are closer to an intent than the called one. */
import type { Call } from '../../core/call.ts'
import { type Descriptor, riskRanks, type ServerRecord } from '../../core/descriptor.ts'
import { callOf } from '../../core/tool-call.ts'
import { describedTool, rankingsOf } from '../../core/text/ranking.ts'
import type { Services } from '../services.ts'
import type { Rule } from './rules.ts'

type SuggestDeps = Pick<Services, 'log' | 'servers' | 'invoker' | 'descriptions' | 'features'>

/** A tool that fits better what a caller wants than the one it calls. */
export interface Suggestion {
  /** By the name the caller knows it by. */
  readonly recommended_tool: string
  readonly reason: string
}

/** A call with what its caller wants, and how it came. */
interface Wish {
  readonly call: Call
  readonly intent: string
  /** All servers are offered together where it came in. */
  readonly isTogether: boolean
}

interface Choice {
  readonly rules: readonly Rule[]
  readonly margin: number
  /** Tools of other servers count, where all are offered together. */
  readonly across: boolean
}

/** Finds a better tool; nothing where there is none, or where it is not known which tools there are. */
export type Suggest = (wish: Wish, choice: Choice) => Promise<Suggestion | undefined>

/** How much of an intent a tool must say to be named at all, from 0 to 1. */
const MIN_SCORE = 0.25
/** How many of the best tools are looked at. */
const MAX_CANDIDATES = 5

/** Suggests what the owner of a server says, or else the tool whose words fit best: never one of more risk. */
export function createSuggest(deps: SuggestDeps): Suggest {
  const rankingOf = rankingsOf(({ tools }) => tools.map(({ entry }) => describedTool(entry)))

  const named = ({ isTogether }: Wish, { upstream, name }: Descriptor, reason: string): Suggestion => {
    return { recommended_tool: deps.servers.exposedName(upstream, name, isTogether), reason }
  }

  const ruled = async (
    wish: Wish,
    called: Descriptor,
    rules: readonly Rule[],
    record: ServerRecord,
  ): Promise<Suggestion | 'none' | undefined> => {
    for (const { holds, suggest, reason = RULE_REASON } of rules) {
      if (!holds(called.name, wish.intent)) continue
      if (suggest === called.name) return 'none'
      const entry = record.tools.find((tool) => tool.entry.name === suggest)?.entry
      if (entry && (await deps.invoker.isPermitted(callOf(wish.call, entry))))
        return named(wish, entry, reason)
    }
    return undefined
  }

  const ranked = async (
    wish: Wish,
    called: Descriptor,
    margin: number,
    records: readonly ServerRecord[],
  ): Promise<Suggestion | undefined> => {
    const found = rankingOf(records).rank(wish.intent)
    const own = found.find(({ of }) => isSame(of.entry, called))?.score ?? 0
    for (const { of, score, match } of found.slice(0, MAX_CANDIDATES)) {
      if (match < MIN_SCORE || score < margin * own || isSame(of.entry, called)) return undefined
      if (riskRanks[of.entry.classification.risk] > riskRanks[called.classification.risk]) continue
      if (await deps.invoker.isPermitted(callOf(wish.call, of.entry)))
        return named(wish, of.entry, MATCH_REASON)
    }
    return undefined
  }

  return async (wish, { rules, margin, across }) => {
    const { upstream, name } = wish.call.target
    const records = deps.servers.records()
    const record = upstream === undefined ? undefined : await records.of(upstream)
    const called = record?.tools.find(({ entry }) => entry.name === name)?.entry
    if (!record || !called) return undefined
    const found = await ruled(wish, called, rules, record)
    if (found !== undefined) return found === 'none' ? undefined : found
    const isAcross = across && wish.isTogether
    const all = isAcross ? await Promise.all(records.names.map(async (each) => records.of(each))) : [record]
    return ranked(wish, called, margin, all)
  }
}

const RULE_REASON = 'The owner of the server names it for this.'
const MATCH_REASON = 'Its name and description are closer to the stated intent.'

function isSame(one: Descriptor, other: Descriptor): boolean {
  return one.upstream === other.upstream && one.name === other.name
}

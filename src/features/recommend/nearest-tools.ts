import type { Call, Handler, Outcome } from '../../core/call.ts'
import type { Entry } from '../../core/entry.ts'
import { GatewayError, isCancelled } from '../../core/error.ts'
import { nearest } from '../../core/nearest.ts'
import { callOf } from '../../core/other-tool.ts'
import { type DescribedTool, describedTool, rankingsOf } from '../../core/tool-ranking.ts'
import { within } from '../../core/waiting.ts'
import type { Deps } from '../feature.ts'
import { LEAST_MATCH, told } from './shape.ts'

/** How many tools are named, and how many of the best are looked at. */
const NAMED = 3
const LOOKED_AT = 8
/** How near a tool must be to the best one to be named, from 0 to 1. */
const NEAR = 0.75
/** How long lists are waited for, in milliseconds, and how long a name may be to be compared. */
const PATIENCE = 500
const LONGEST = 64

/** Names that are safe to repeat in a message. */
const plain = /^[\w.:/-]{1,128}$/

/** Answers a call of a tool nobody has with the tools that are like it, of those the caller may call. */
export function withNearest(deps: Deps): (call: Call, next: Handler) => Promise<Outcome> {
  const alone = rankingsOf(({ tools }) => tools.map(({ entry }) => described(entry, false)))
  const together = rankingsOf(({ tools }) => tools.map(({ entry }) => described(entry, true)))
  function described(entry: Entry, isTogether: boolean): DescribedTool {
    return describedTool(entry, nameOf(entry, isTogether))
  }
  function nameOf({ upstream, name }: Entry, isTogether: boolean): string {
    return deps.exposed(upstream, name, isTogether)
  }

  const find = async (call: Call): Promise<readonly (DescribedTool & { readonly match: number })[]> => {
    const { upstream, name = '' } = call.target
    const records = deps.records()
    const names = upstream === undefined ? records.names : [upstream]
    const known = await Promise.all(names.map(async (each) => records.of(each)))
    const ranking = (upstream === undefined ? together : alone)(known)
    // Their names are enough here: what describes a tool looks through its schema, which may be large.
    const tools = known.flatMap((record) =>
      record.tools.map(({ entry }) => ({ entry, name: nameOf(entry, upstream === undefined) })),
    )
    const close = name.length > LONGEST ? [] : mistyped(name, tools)
    const ranked = ranking.rank(name.slice(0, LONGEST)).filter(({ match }) => match >= LEAST_MATCH)
    const least = (ranked[0]?.score ?? 0) * NEAR
    const all = [
      ...close.map((of) => ({ ...of, match: 1 })),
      ...ranked.flatMap(({ of, score, match }) => (score < least ? [] : [{ ...of, match }])),
    ]
    const distinct = all.filter(({ name: each }, at) => all.findIndex((one) => one.name === each) === at)
    const looked = distinct.filter((each) => plain.test(each.name)).slice(0, LOOKED_AT)
    const are = await Promise.all(looked.map(({ entry }) => deps.isPermitted(callOf(call, entry))))
    return looked.filter((_, at) => are[at] === true).slice(0, NAMED)
  }

  const explain = async (thrown: unknown, call: Call): Promise<never> => {
    if (!isUnknown(thrown) || isCancelled(call.signal)) throw thrown
    const found = await within(find(call), PATIENCE, []).catch(() => [])
    const [best] = found
    if (!best) throw thrown
    const { name = '' } = call.target
    const capability = plain.test(name) ? name : 'tool'
    throw thrown.with({
      suggestion: `Did you mean ${found.map((each) => each.name).join(' or ')}?`,
      details: {
        ...thrown.extra.details,
        recommendations: found.map(({ name: tool, match: score, entry }) => {
          return { ...told(capability, { server: entry.upstream, score }), recommended_tool: tool }
        }),
      },
    })
  }

  return (call, next) => next(call).catch((thrown: unknown) => explain(thrown, call))
}

function isUnknown(thrown: unknown): thrown is GatewayError {
  return thrown instanceof GatewayError && thrown.code === 'UNKNOWN_TOOL' && !thrown.extra.relayed
}

/** The tool whose name is most like one that was mistyped. */
function mistyped(name: string, tools: readonly DescribedTool[]): DescribedTool[] {
  const names = tools.map((each) => each.name)
  const found = nearest(name, names)
  return tools.filter((each) => each.name === found).slice(0, 1)
}

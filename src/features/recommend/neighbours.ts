import type { Call } from '../../core/call.ts'
import type { Descriptor } from '../../core/entry.ts'
import { callOf } from '../../core/other-tool.ts'
import type { Described, Ranked } from '../../core/ranking.ts'
import type { ServerRecord } from '../../core/record.ts'
import { describedTool, rankingsOf } from '../../core/tool-ranking.ts'
import type { Deps } from '../feature.ts'
import { MIN_MATCH_SCORE, type Recommended } from './shape.ts'

/** A server, or one of its tools. */
interface Offer extends Described {
  readonly upstream: string
  readonly entry?: Descriptor
}

/** How many of the best offers are looked at. */
const MAX_CANDIDATES = 50
/** How many tools of a server are named. */
const MAX_TOOLS_PER_SERVER = 3

/** Finds servers of this gateway by the words of their tools, and by what they are for. */
export type Neighbours = (call: Call, capability: string) => Promise<Recommended[]>

/** Recommends servers of this gateway, with tools the caller is permitted to call; not the one it asks. */
export function createNeighbours(deps: Deps): Neighbours {
  const rankingOf = rankingsOf(offersOf)

  const permitted = async (call: Call, found: readonly Ranked<Offer>[]): Promise<Ranked<Offer>[]> => {
    const are = await Promise.all(
      found.map(async ({ of }) => !of.entry || deps.isPermitted(callOf(call, of.entry))),
    )
    return found.filter((_, at) => are[at] === true)
  }

  return async (call, capability) => {
    const { upstream } = call.target
    const records = deps.records()
    const names = records.names.filter((name) => name !== upstream)
    const known = await Promise.all(names.map(async (name) => records.of(name)))
    const found = rankingOf(known).rank(capability)
    const near = found.filter(({ match }) => match >= MIN_MATCH_SCORE).slice(0, MAX_CANDIDATES)
    return grouped(await permitted(call, near), deps)
  }
}

function grouped(found: readonly Ranked<Offer>[], { page, exposed }: Deps): Recommended[] {
  const servers = [...new Set(found.map(({ of }) => of.upstream))]
  return servers.map((server) => {
    const own = found.filter(({ of }) => of.upstream === server)
    const tools = own.flatMap(({ of: { entry } }) => (entry ? [exposed(server, entry.name, false)] : []))
    return {
      server,
      score: Math.max(...own.map(({ match }) => match)),
      registryUrl: page(`/mcp/${server}`),
      tools: tools.slice(0, MAX_TOOLS_PER_SERVER),
    }
  })
}

function offersOf({ name, info, about, instructions, tools }: ServerRecord): Offer[] {
  const { title, description } = info
  const words = [about.about, ...(about.useWhen ?? []), description, instructions]
  const server = {
    upstream: name,
    name,
    ...(typeof title === 'string' && { title }),
    description: words.filter((each) => typeof each === 'string').join('. '),
  }
  return [server, ...tools.map(({ entry }) => ({ ...describedTool(entry), upstream: name }))]
}

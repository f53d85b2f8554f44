/** The sources of recommendations: the configuration, the connected servers, and a public registry. */
import { LRUCache } from 'lru-cache'
import type { Call } from '../../core/call.ts'
import { isPermitted } from '../own-calls.ts'
import type { Descriptor, ServerRecord } from '../../core/descriptor.ts'
import { isObject } from '../../core/json/json.ts'
import { expiryByWorld } from '../../core/world.ts'
import { fits } from '../../core/text/pattern.ts'
import {
  type Described,
  type Ranked,
  describedTool,
  rankingsOf,
  createRanking,
} from '../../core/text/ranking.ts'
import { actionOf } from '../../core/text/synonyms.ts'
import { queryWords, stem } from '../../core/text/words.ts'
import { callOf } from '../../core/tool-call.ts'
import type { Services } from '../feature.ts'
import type { DiscoverySettings } from './settings.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'invoker' | 'pages' | 'gateway'>

/** A server, or one of its tools. */
interface Offer extends Described {
  readonly upstream: string
  readonly entry?: Descriptor
}

/** How many of the best matches are considered. */
const MAX_CANDIDATES = 50
/** How many tools of a server are named. */
const MAX_TOOLS_PER_SERVER = 3

/** Finds servers of this gateway by their tools and descriptions. */
type Neighbours = (call: Call, capability: string) => Promise<Recommended[]>

/** Recommends servers of this gateway, with tools that the caller may call; never the server that is asked. */
export function createNeighbours(deps: Deps): Neighbours {
  const rankingOf = rankingsOf(offersOf)

  const permitted = async (call: Call, found: readonly Ranked<Offer>[]): Promise<Ranked<Offer>[]> => {
    const isAllowed = await Promise.all(
      found.map(async ({ of }) => !of.entry || isPermitted(deps, callOf(call, of.entry))),
    )
    return found.filter((_, at) => isAllowed[at] === true)
  }

  return async (call, capability) => {
    const { upstream } = call.target
    const records = deps.servers.records()
    const names = records.names.filter((name) => name !== upstream)
    const known = await Promise.all(names.map(async (name) => records.of(name)))
    const found = rankingOf(known).rank(capability)
    const near = found.filter(({ match }) => match >= MIN_MATCH_SCORE).slice(0, MAX_CANDIDATES)
    return groupByServer(await permitted(call, near), deps)
  }
}

function groupByServer(
  found: readonly Ranked<Offer>[],
  { pages: { url: page }, servers: { exposedName: exposed } }: Deps,
): Recommended[] {
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

/** Searches a registry for servers. */
type Search = (word: string) => Promise<readonly Described[]>

/** How many searches are cached, for how long in milliseconds, and how many run concurrently. */
const MAX_CACHED_SEARCHES = 200
const SEARCH_TTL_MS = 600_000
const MAX_CONCURRENT_SEARCHES = 4
/** How many words of a query are searched for, and how many servers are requested for each. */
const MAX_SEARCH_WORDS = 2
const MAX_SERVERS_PER_WORD = 50

/** Searches servers in a registry; failures only reduce the results. */
export function createRegistry({
  log,
  gateway: { fetchJson },
}: Deps): (capability: string, settings: DiscoverySettings) => Promise<Recommended[]> {
  const known = new LRUCache<string, readonly Described[]>({
    max: MAX_CACHED_SEARCHES,
    ttl: SEARCH_TTL_MS,
    ...expiryByWorld,
  })
  let running = 0

  const searchIn =
    (registry: string): Search =>
    async (word) => {
      const url = `${registry}/v0.1/servers?search=${encodeURIComponent(word)}&version=latest&limit=${MAX_SERVERS_PER_WORD}`
      const cached = known.get(url)
      if (cached || running >= MAX_CONCURRENT_SEARCHES) return cached ?? []
      running += 1
      try {
        const found = parseServers(await fetchJson(url))
        known.set(url, found)
        return found
      } catch (error) {
        log.warn('discovery.unanswered', { registry, cause: String(error).replaceAll(url, registry) })
        return []
      } finally {
        running -= 1
      }
    }

  return async (capability, { registry: configuredUrl, publishers }) => {
    if (configuredUrl === false || !configuredUrl.startsWith('http')) return []
    const registry = configuredUrl.replace(/\/$/, '')
    const allowed = [publishers].flat()
    if (allowed.length === 0) return []
    const found = await Promise.all(searchWords(capability).map(searchIn(registry)))
    const servers = new Map(found.flat().map((each) => [each.name, each] as const))
    const permitted = [...servers.values()].filter(({ name }) => isPublishedBy(name, allowed))
    return createRanking(permitted)
      .rank(capability)
      .filter(({ match }) => match >= MIN_MATCH_SCORE)
      .map(({ of: { name }, match }) => ({
        server: name,
        score: match,
        registryUrl: `${registry}/v0.1/servers/${encodeURIComponent(name)}/versions/latest`,
      }))
  }
}

/** Registries match names only, so the longest words that name things are searched for. */
function searchWords(capability: string): string[] {
  const words = [...new Set(queryWords(capability))].filter((word) => actionOf(stem(word)) === undefined)
  return words.toSorted((one, other) => other.length - one.length).slice(0, MAX_SEARCH_WORDS)
}

function isPublishedBy(name: string, publishers: readonly string[]): boolean {
  const [publisher = ''] = name.split('/')
  return publishers.some((glob) => fits(glob, publisher) || fits(glob, name))
}

/** Names in a registry: a namespace and a name. */
const NAME_PATTERN = /^[a-zA-Z0-9.-]{3,100}\/[a-zA-Z0-9._-]{1,100}$/

function parseServers({ servers }: Readonly<Record<string, unknown>>): Described[] {
  const list: readonly unknown[] = Array.isArray(servers) ? servers : []
  return list.flatMap((each) => {
    if (!isObject(each)) return []
    const { name, title, description } = isObject(each.server) ? each.server : each
    if (typeof name !== 'string' || !NAME_PATTERN.test(name) || isWithdrawn(each)) return []
    const words = typeof description === 'string' ? description : ''
    return [{ name, description: words, ...(typeof title === 'string' && { title }) }]
  })
}

function isWithdrawn({ _meta: meta, status }: Readonly<Record<string, unknown>>): boolean {
  const official = isObject(meta) ? meta['io.modelcontextprotocol.registry/official'] : undefined
  const statusValue = isObject(official) ? official.status : status
  return statusValue === 'deleted' || statusValue === 'deprecated'
}

/** A server that may have the required capability. */
export interface Recommended {
  readonly server: string
  /** From 0 to 1. */
  readonly score: number
  /** The server's page or registry entry. */
  readonly registryUrl?: string | undefined
  readonly authFlow?: string | undefined
  /** Its best matching tools, as its own clients call them. */
  readonly tools?: readonly string[]
}

/** The minimum match of a server to be recommended, from 0 to 1. */
const MIN_MATCH_SCORE = 0.3

/** The minimum scores of high and of medium confidence. */
const HIGH_CONFIDENCE_SCORE = 0.66
const MEDIUM_CONFIDENCE_SCORE = 0.33

/** A recommendation as clients see it. */
export function recommendationView(capability: string, found: Recommended): Record<string, unknown> {
  const { server, score, registryUrl, authFlow, tools = [] } = found
  return {
    capability,
    server,
    server_name: server,
    ...(registryUrl !== undefined && { registry_url: registryUrl }),
    ...(authFlow !== undefined && { auth_flow: authFlow }),
    match_confidence:
      score >= HIGH_CONFIDENCE_SCORE ? 'high' : score >= MEDIUM_CONFIDENCE_SCORE ? 'medium' : 'low',
    score: Math.round(score * 100) / 100,
    ...(tools.length > 0 && { tools }),
  }
}

/** The highest score of a confidence level. */
export function maxScoreOf(confidence: 'high' | 'medium' | 'low'): number {
  return { high: 1, medium: HIGH_CONFIDENCE_SCORE - 0.01, low: MEDIUM_CONFIDENCE_SCORE - 0.01 }[confidence]
}

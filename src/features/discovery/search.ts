/** Where recommendations come from: the owner's list, the connected servers, and a public registry. */
import { LRUCache } from 'lru-cache'
import type { Call } from '../../core/call.ts'
import type { Descriptor, ServerRecord } from '../../core/descriptor.ts'
import { isObject } from '../../core/json/json.ts'
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

type Deps = Pick<Services, 'log' | 'servers' | 'invoker' | 'pages' | 'gateway'>

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
type Neighbours = (call: Call, capability: string) => Promise<Recommended[]>

/** Recommends servers of this gateway, with tools the caller is permitted to call; not the one it asks. */
export function createNeighbours(deps: Deps): Neighbours {
  const rankingOf = rankingsOf(offersOf)

  const permitted = async (call: Call, found: readonly Ranked<Offer>[]): Promise<Ranked<Offer>[]> => {
    const are = await Promise.all(
      found.map(async ({ of }) => !of.entry || deps.invoker.isPermitted(callOf(call, of.entry))),
    )
    return found.filter((_, at) => are[at] === true)
  }

  return async (call, capability) => {
    const { upstream } = call.target
    const records = deps.servers.records()
    const names = records.names.filter((name) => name !== upstream)
    const known = await Promise.all(names.map(async (name) => records.of(name)))
    const found = rankingOf(known).rank(capability)
    const near = found.filter(({ match }) => match >= MIN_MATCH_SCORE).slice(0, MAX_CANDIDATES)
    return grouped(await permitted(call, near), deps)
  }
}

function grouped(
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

/** Servers of a registry, as it lists them. */
type Search = (word: string) => Promise<readonly Described[]>

/** How many answers of the registry are kept, for how long in milliseconds, and how many are waited for at a time. */
const MAX_CACHED_SEARCHES = 200
const SEARCH_TTL_MS = 600_000
const MAX_CONCURRENT_SEARCHES = 4
/** How many words of what is wanted are searched for, and how many servers are asked for each. */
const MAX_SEARCH_WORDS = 2
const MAX_SERVERS_PER_WORD = 50

/** Looks for servers in a registry; what it does not answer is only missing. */
export function createRegistry({
  log,
  gateway: { fetchJson },
}: Deps): (capability: string, settings: Settings) => Promise<Recommended[]> {
  const known = new LRUCache<string, readonly Described[]>({ max: MAX_CACHED_SEARCHES, ttl: SEARCH_TTL_MS })
  let busy = 0

  const searchIn =
    (registry: string): Search =>
    async (word) => {
      const url = `${registry}/v0.1/servers?search=${encodeURIComponent(word)}&version=latest&limit=${MAX_SERVERS_PER_WORD}`
      const kept = known.get(url)
      if (kept || busy >= MAX_CONCURRENT_SEARCHES) return kept ?? []
      busy += 1
      try {
        const found = listedIn(await fetchJson(url))
        known.set(url, found)
        return found
      } catch (error) {
        log.warn('discovery.unanswered', { registry, cause: String(error).replaceAll(url, registry) })
        return []
      } finally {
        busy -= 1
      }
    }

  return async (capability, { registry: written, publishers }) => {
    if (!/^https?:/.test(written)) return []
    const registry = written.replace(/\/$/, '')
    const allowed = [publishers].flat()
    if (allowed.length === 0) return []
    const found = await Promise.all(searchedFor(capability).map(searchIn(registry)))
    const servers = new Map(found.flat().map((each) => [each.name, each] as const))
    const permitted = [...servers.values()].filter(({ name }) => isOf(name, allowed))
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

/** Registries compare names alone, so the words are searched for that name things: the longest ones. */
function searchedFor(capability: string): string[] {
  const words = [...new Set(queryWords(capability))].filter((word) => actionOf(stem(word)) === undefined)
  return words.toSorted((one, other) => other.length - one.length).slice(0, MAX_SEARCH_WORDS)
}

function isOf(name: string, publishers: readonly string[]): boolean {
  const [publisher = ''] = name.split('/')
  return publishers.some((glob) => fits(glob, publisher) || fits(glob, name))
}

/** Names in a registry: a namespace and a name of its own. */
const shape = /^[a-zA-Z0-9.-]{3,100}\/[a-zA-Z0-9._-]{1,100}$/

function listedIn({ servers }: Readonly<Record<string, unknown>>): Described[] {
  const list: readonly unknown[] = Array.isArray(servers) ? servers : []
  return list.flatMap((each) => {
    if (!isObject(each)) return []
    const { name, title, description } = isObject(each.server) ? each.server : each
    if (typeof name !== 'string' || !shape.test(name) || isGone(each)) return []
    const words = typeof description === 'string' ? description : ''
    return [{ name, description: words, ...(typeof title === 'string' && { title }) }]
  })
}

function isGone({ _meta: meta, status }: Readonly<Record<string, unknown>>): boolean {
  const official = isObject(meta) ? meta['io.modelcontextprotocol.registry/official'] : undefined
  const recommendationView = isObject(official) ? official.status : status
  return recommendationView === 'deleted' || recommendationView === 'deprecated'
}

/** A server that may have what is wanted. */
export interface Recommended {
  readonly server: string
  /** From 0 to 1. */
  readonly score: number
  /** Where the server is found. */
  readonly registryUrl?: string | undefined
  readonly authFlow?: string | undefined
  /** Its tools that fit best, as its own clients call them. */
  readonly tools?: readonly string[]
}

/** How much of what is wanted must be said for it to be named at all, from 0 to 1. */
const MIN_MATCH_SCORE = 0.3

/** From which score on a match is of high confidence, and from which of medium. */
const HIGH_CONFIDENCE_SCORE = 0.66
const MEDIUM_CONFIDENCE_SCORE = 0.33

/** A recommendation as clients read it. */
export function told(capability: string, found: Recommended): Record<string, unknown> {
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

/** The highest score that still is of a confidence. */
export function most(confidence: 'high' | 'medium' | 'low'): number {
  return { high: 1, medium: HIGH_CONFIDENCE_SCORE - 0.01, low: MEDIUM_CONFIDENCE_SCORE - 0.01 }[confidence]
}

/** Where servers are looked for, besides the configuration and this gateway. */
export interface Settings {
  /** The URL of an MCP registry; it receives the search words. */
  readonly registry: string
  /** Whose servers of the registry may be named. */
  readonly publishers: string | readonly string[]
}

/** The JSON Schema of the settings of recommending servers. */
export const settingsSchema = {
  type: 'object',
  properties: {
    registry: {
      type: ['string', 'boolean'],
      default: 'off',
      pattern: '^(off|false|https://\\S+|http://(localhost|127\\.0\\.0\\.1|\\[::1\\])(:\\d+)?(/\\S*)?)$',
      not: { const: true },
      errorMessage: 'must be off, or the URL of an MCP registry with https://',
      description:
        'The MCP registry that is asked for servers this gateway does not have. It learns what callers look for.',
      examples: ['https://catalog.example.com'],
    },
    publishers: {
      type: ['array', 'string'],
      items: { type: 'string', minLength: 1, errorMessage: 'must be a namespace or glob' },
      default: [],
      errorMessage: 'must be a list of namespaces or globs such as io.github.modelcontextprotocol',
      description:
        'Whose servers of the registry may be named, by the part of their name before the slash, or a glob of it. Empty by default: none.',
      examples: [['io.github.modelcontextprotocol', 'com.example.*']],
    },
  },
} as const

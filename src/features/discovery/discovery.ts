/**
 * Recommends servers for a required capability, and suggests similar tools for calls of unknown tools. The
 * sources are the configuration, the connected servers, and a public registry.
 */
import type { Finding } from '../../core/findings.ts'
import { LRUCache } from 'lru-cache'
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { isPermitted } from '../own-calls.ts'
import { type Descriptor, type Risk, riskRanks, type ServerRecord } from '../../core/descriptor.ts'
import { GatewayError, isCancelled } from '../../core/error.ts'
import { leadingVerb, nameEvidence } from '../../core/judgement/words.ts'
import type { Recommendation } from '../../core/settings.ts'
import {
  describedTool,
  rankingsOf,
  type Described,
  type Ranked,
  createRanking,
} from '../../core/text/ranking.ts'
import { synonymsOf, actionOf } from '../../core/text/synonyms.ts'
import { queryWords, stem, wordsIn, distance } from '../../core/text/words.ts'
import { profileSlot } from '../../core/slot.ts'
import { within } from '../../core/time/waiting.ts'
import { callOf } from '../../core/tool-call.ts'
import { answered, asTool, pageOf, objectSchema } from '../builtin-tool.ts'
import type { Feature, SettingsOf, Services } from '../feature.ts'
import { type DiscoverySettings, discoverySchema } from '../settings/upstream.ts'
import { isObject } from '../../core/json/json.ts'
import { expiryByWorld } from '../../core/world.ts'
import { fits } from '../../core/text/pattern.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'invoker' | 'pages' | 'gateway'>

/** Finds servers by capability, and the tools that an unknown name may refer to. */
export const discovery: Feature<DiscoverySettings | false> = {
  ...discoverySchema,
  create: (settings, deps) => {
    const answer = answerRecommend(settings, deps)
    const withSuggestedTools = withSuggestions(deps)
    return {
      responseMiddleware: (method) => {
        if (method !== 'tools/call') return undefined
        return (next) => (call) =>
          settings(call.target.upstream) === false ? next(call) : withSuggestedTools(call, next)
      },
      builtins: {
        methods: { 'servers/recommend': answer },
        tools: [asTool(recommendTool, answer)],
      },
      http: {
        pages: [
          {
            path: '/recommend_servers',
            handle: async (call) => {
              const outcome = await answer(call)
              if (outcome.kind !== 'result') return outcome
              return pageOf({ text: outcome.result.text, type: 'application/json', maxAge: 0 })
            },
          },
        ],
      },
      problems: async () => problemsOf(settings()),
    }
  },
}

const recommendTool = {
  name: 'recommend_servers',
  title: 'Recommend servers',
  description: 'Recommends servers with a capability that this server lacks.',
  inputSchema: objectSchema(['capability_needed'], {
    capability_needed: { type: 'string', description: 'The required capability, in a few words.' },
  }),
  outputSchema: objectSchema(['capability_needed', 'recommendations'], {
    capability_needed: { type: 'string' },
    recommendations: {
      type: 'array',
      items: objectSchema(['capability', 'server', 'server_name', 'match_confidence', 'score'], {
        capability: { type: 'string' },
        server: { type: 'string' },
        server_name: { type: 'string' },
        registry_url: { type: 'string' },
        auth_flow: { type: 'string' },
        match_confidence: { enum: ['high', 'medium', 'low'] },
        score: { type: 'number' },
        tools: { type: 'array', items: { type: 'string' } },
      }),
    },
  }),
  annotations: { readOnlyHint: true, openWorldHint: false },
} as const

const nothing = Promise.resolve([])

/** How many servers are recommended, and the maximum length of a query, in characters. */
const MAX_SERVERS = 10
const MAX_CAPABILITY_LENGTH = 500

/** Answers `servers/recommend`: configured recommendations first, then servers of this gateway, then a registry. */
function answerRecommend(settings: SettingsOf<DiscoverySettings | false>, deps: Deps): Handler {
  const findNeighbours = createNeighbours(deps)
  const searchRegistry = createRegistry(deps)
  return async (call) => {
    const { upstream } = call.target
    const capability = requested(call)
    const configured = (upstream === undefined ? deps.servers.names() : [upstream]).flatMap(
      (name) => deps.servers.settings(name)?.recommend ?? [],
    )
    const serverSettings = settings(upstream)
    const [neighbourMatches, registryMatches] = await Promise.all([
      findNeighbours(call, capability),
      serverSettings === false ? nothing : searchRegistry(capability, serverSettings),
    ])
    const sorted = [matchConfigured(capability, configured), neighbourMatches, registryMatches].flatMap(
      (each) => each.toSorted((one, other) => other.score - one.score),
    )
    const distinct = sorted.filter(
      ({ server }, index) => sorted.findIndex((each) => each.server === server) === index,
    )
    const recommendations = distinct.slice(0, MAX_SERVERS).map((each) => recommendationView(capability, each))
    return answered({ capability_needed: capability, recommendations })
  }
}

function requested({ params }: Call): string {
  const { capability_needed: needed, capability = needed } = params.fields
  if (typeof capability !== 'string' || capability.trim() === '') {
    throw invalid('must name the required capability, in a few words')
  }
  if (capability.length > MAX_CAPABILITY_LENGTH)
    throw invalid(`may have at most ${MAX_CAPABILITY_LENGTH} characters`)
  return capability
}

function invalid(what: string): GatewayError {
  const field = 'capability_needed'
  return new GatewayError('INVALID_INPUT', `Invalid params: ${field} ${what}.`, { field, reason: 'shape' })
}

function problemsOf(settings: DiscoverySettings | false): Finding[] {
  if (settings === false || !String(settings.registry).startsWith('http')) return []
  if ([settings.publishers].flat().length > 0) return []
  const message =
    'a registry requires publishers: those whose servers may be recommended, such as [io.github.someone]'
  return [{ path: ['features', 'discovery', 'registry'], at: 'key', message }]
}

/** Which part of a configured capability the query has to name, from 0 to 1. */
const MIN_SCORE = 0.5

/** The configured recommendations whose capability the query names, synonyms included. */
function matchConfigured(capability: string, configured: readonly Recommendation[]): Recommended[] {
  const queryStems = new Set(queryWords(capability).map(stem))
  return configured.flatMap(({ capability: offered, server, registryUrl, authFlow, confidence }) => {
    const words = wordsIn(offered).map(stem)
    const named = words.filter(
      (word) => queryStems.has(word) || synonymsOf(word).some((each) => queryStems.has(each)),
    )
    const share = words.length === 0 ? 0 : named.length / words.length
    if (share < MIN_SCORE) return []
    return [{ server, score: Math.min(share, maxScoreOf(confidence)), registryUrl, authFlow }]
  })
}

// The tools that an unknown name may refer to: by spelling and by meaning, among those the caller may call.

/** How many tools are suggested, and how many candidates are considered. */
const MAX_SUGGESTIONS = 3
const MAX_CANDIDATES = 8
/** The minimum score relative to the best match, from 0 to 1. */
const MIN_RELATIVE_SCORE = 0.75
/** Which part of the name a tool has to match to be suggested, from 0 to 1. */
const NEAREST_TOOLS_MIN_SCORE = 0.5
/** How long lists are awaited, in milliseconds, and the maximum length of a name to compare. */
const LIST_TIMEOUT_MS = 500
const MAX_NAME_LENGTH = 64

/** Names that are safe to repeat in a message. */
const plain = /^[\w.:/-]{1,128}$/

/** Adds suggestions of similar, callable tools to the error for an unknown tool. */
function withSuggestions(deps: Deps): (call: Call, next: Handler) => Promise<Outcome> {
  const ranking = rankingsOf(({ tools }) => tools.map(({ entry }) => describedTool(entry)))

  /** The servers that a name may belong to, and the name without the server's prefix, which says nothing about a tool. */
  const interpretName = ({ target: { upstream, name = '' } }: Call, names: readonly string[]): Subject => {
    if (upstream !== undefined) return { names: [upstream], requested: name, exposed: name }
    // Of the servers `a` and `a-b`, `a_b_c` is attributed to the longer name.
    const servers = names.filter((each) => prefixOf(each) !== '' && name.startsWith(prefixOf(each)))
    const server = servers.toSorted((one, other) => other.length - one.length)[0]
    if (server === undefined) return { names, requested: name, exposed: name }
    return { names: [server], requested: name.slice(prefixOf(server).length), exposed: name }
  }
  const prefixOf = (upstream: string): string => deps.servers.exposedName(upstream, 'x', true).slice(0, -1)

  const find = async (call: Call): Promise<readonly Found[]> => {
    const records = deps.servers.records()
    const { names, requested, exposed } = interpretName(call, records.names)
    const known = await Promise.all(names.map(async (each) => records.of(each)))
    const isTogether = call.target.upstream === undefined
    const toFound = (entry: Descriptor, match: number): Found => {
      return { entry, match, name: deps.servers.exposedName(entry.upstream, entry.name, isTogether) }
    }
    // Names suffice here: describing a tool goes through its schema, which may be large.
    const tools = known.flatMap((record) => record.tools.map(({ entry }) => entry))
    const similarlySpelled = requested.length > MAX_NAME_LENGTH ? [] : closestSpelling(requested, tools)
    const risks = new Map(names.map((each) => [each, riskOfName(requested, each)] as const))
    const ranked = ranking(known)
      .rank(requested.slice(0, MAX_NAME_LENGTH))
      .filter(({ match }) => match >= NEAREST_TOOLS_MIN_SCORE)
    const minScore = (ranked[0]?.score ?? 0) * MIN_RELATIVE_SCORE
    const all = [
      ...similarlySpelled.filter(
        ({ entry }) =>
          isSameVerb(requested, entry) || !isRiskier(entry, risks.get(entry.upstream) ?? 'destructive'),
      ),
      // The intent of an unknown name is unknown too: only tools that change nothing are suggested for it.
      ...ranked
        .filter(({ of, score }) => {
          return score >= minScore && !isRiskier(of.entry, risks.get(of.entry.upstream) ?? 'safe')
        })
        .map(({ of, match }) => ({ entry: of.entry, match })),
    ].map(({ entry, match }) => toFound(entry, match))
    const distinct = all.filter(
      ({ name: each }, index) => all.findIndex((one) => one.name === each) === index,
    )
    const candidates = distinct
      .filter(({ name }) => plain.test(name) && name !== exposed)
      .slice(0, MAX_CANDIDATES)
    const isAllowed = await Promise.all(candidates.map(({ entry }) => isPermitted(deps, callOf(call, entry))))
    return candidates.filter((_, index) => isAllowed[index] === true).slice(0, MAX_SUGGESTIONS)
  }

  const explain = async (thrown: unknown, call: Call): Promise<never> => {
    if (!isUnknown(thrown) || isCancelled(call.signal)) throw thrown
    // A profile has names of its own, and does not name what it hides.
    if (profileSlot.of(call) !== undefined) throw thrown
    const suggestions = await within(find(call), LIST_TIMEOUT_MS, []).catch(() => [])
    const [best] = suggestions
    if (!best) throw thrown
    const { name = '' } = call.target
    const capability = plain.test(name) ? name : 'tool'
    throw thrown.with({
      suggestion: `Did you mean ${suggestions.map((each) => each.name).join(' or ')}?`,
      details: {
        ...thrown.extra.details,
        recommendations: suggestions.map(({ name: tool, match: score, entry }) => {
          return {
            ...recommendationView(capability, { server: entry.upstream, score }),
            recommended_tool: tool,
          }
        }),
      },
    })
  }

  return (call, next) => next(call).catch((thrown: unknown) => explain(thrown, call))
}

function isUnknown(thrown: unknown): thrown is GatewayError {
  if (!(thrown instanceof GatewayError) || thrown.code !== 'UNKNOWN_TOOL' || thrown.extra.relayed)
    return false
  // The error for an ambiguous name already says which tools it may mean.
  return thrown.extra.reason !== 'ambiguous'
}

/** What an unknown name may refer to. */
interface Subject {
  readonly names: readonly string[]
  /** The name without the prefix of its server, and the name as called. */
  readonly requested: string
  readonly exposed: string
}

/** A suggested tool, its name for the caller, and its similarity to the called name, up to 1. */
interface Found {
  readonly name: string
  readonly entry: Descriptor
  readonly match: number
}

/** The tool with the most similar name, for typos: at most one letter in five differs. */
function closestSpelling(name: string, tools: readonly Descriptor[]): Omit<Found, 'name'>[] {
  const close = tools.flatMap((entry) => {
    const edits = distance(name, entry.name)
    const isClose = edits <= Math.max(1, Math.floor(Math.min(name.length, entry.name.length) / 5))
    return isClose && name.length > 2 ? [{ entry, match: 1 - edits / Math.max(name.length, 1) }] : []
  })
  return close.toSorted((one, other) => other.match - one.match).slice(0, 1)
}

/** The risk that the verbs of a name imply; undefined if it has no known verb. */
function riskOfName(name: string, server: string): Risk | undefined {
  const risks = nameEvidence(name, server).map(({ effect }): Risk => {
    return effect === 'read' ? 'safe' : effect === 'write' ? 'reversible' : 'destructive'
  })
  return risks.toSorted((one, other) => riskRanks[other] - riskRanks[one])[0]
}

function isSameVerb(name: string, { name: other, upstream }: Descriptor): boolean {
  const verb = leadingVerb(name, upstream)
  return verb !== undefined && verb === leadingVerb(other, upstream)
}

function isRiskier({ classification }: Descriptor, risk: Risk): boolean {
  return riskRanks[classification.risk] > riskRanks[risk]
}

/** A server, or one of its tools. */
interface Offer extends Described {
  readonly upstream: string
  readonly entry?: Descriptor
}

/** How many of the best matches are considered. */
const MAX_NEAR_TOOLS = 50
/** How many tools of a server are named. */
const MAX_TOOLS_PER_SERVER = 3

/** Finds servers of this gateway by their tools and descriptions. */
type Neighbours = (call: Call, capability: string) => Promise<Recommended[]>

/** Recommends servers of this gateway, with tools that the caller may call; never the server that is asked. */
function createNeighbours(deps: Deps): Neighbours {
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
    const near = found.filter(({ match }) => match >= MIN_MATCH_SCORE).slice(0, MAX_NEAR_TOOLS)
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
function createRegistry({
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
interface Recommended {
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
function recommendationView(capability: string, found: Recommended): Record<string, unknown> {
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
function maxScoreOf(confidence: 'high' | 'medium' | 'low'): number {
  return { high: 1, medium: HIGH_CONFIDENCE_SCORE - 0.01, low: MEDIUM_CONFIDENCE_SCORE - 0.01 }[confidence]
}

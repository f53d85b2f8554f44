/** Recommends servers for a wanted capability, and answers calls of unknown tools with similar ones. */
import type { Call, Handler } from '../../core/call.ts'
import { GatewayError } from '../../core/error.ts'
import type { Finding } from '../../core/finding.ts'
import type { Recommendation } from '../../core/settings.ts'
import { synonymsOf } from '../../core/text/synonyms.ts'
import { queryWords, stem, wordsIn } from '../../core/text/words.ts'
import { answered, asTool, pageOf } from '../builtin-tool.ts'
import type { Feature, SettingsOf } from '../feature.ts'
import type { Services } from '../services.ts'
import { withNearest } from './nearest-tools.ts'
import {
  createNeighbours,
  createRegistry,
  type Settings,
  settingsSchema,
  told,
  most,
  type Recommended,
} from './search.ts'

type Deps = Pick<Services, 'log' | 'servers' | 'invoker' | 'pages' | 'gateway'>

/** Tells which server has what is wanted, and which tool an unknown name may have meant. */
export const discovery: Feature<Settings | false> = {
  name: 'discovery',
  place: 'features',
  isLeftToGateway: true,
  schema: settingsSchema,
  create: (settings, deps) => {
    const answer = answerRecommend(settings, deps)
    const nearest = withNearest(deps)
    return {
      methods: { 'servers/recommend': answer },
      tools: [asTool(recommendTool, answer)],
      pages: [
        {
          path: '/recommend_servers',
          handle: async (call) => {
            const outcome = await answer(call)
            if (outcome.kind === 'input_required') return outcome
            return pageOf({ text: outcome.result.text, type: 'application/json', maxAge: 0 })
          },
        },
      ],
      responseMiddleware: (method) => {
        if (method !== 'tools/call') return undefined
        return (next) => (call) =>
          settings(call.target.upstream) === false ? next(call) : nearest(call, next)
      },
      problems: async () => problemsOf(settings()),
    }
  },
}

const recommendTool = {
  name: 'recommend_servers',
  title: 'Recommend servers',
  description: 'Names servers that have a capability this server does not have.',
  inputSchema: {
    type: 'object',
    properties: {
      capability_needed: { type: 'string', description: 'What is wanted, in a few words.' },
    },
    required: ['capability_needed'],
  },
  outputSchema: {
    type: 'object',
    properties: {
      capability_needed: { type: 'string' },
      recommendations: {
        type: 'array',
        items: {
          type: 'object',
          properties: {
            capability: { type: 'string' },
            server: { type: 'string' },
            server_name: { type: 'string' },
            registry_url: { type: 'string' },
            auth_flow: { type: 'string' },
            match_confidence: { enum: ['high', 'medium', 'low'] },
            score: { type: 'number' },
            tools: { type: 'array', items: { type: 'string' } },
          },
          required: ['capability', 'server', 'server_name', 'match_confidence', 'score'],
        },
      },
    },
    required: ['capability_needed', 'recommendations'],
  },
  annotations: { readOnlyHint: true, openWorldHint: false },
} as const

const nothing = Promise.resolve([])

/** How many servers are named, and how long what is wanted may be, in characters. */
const MAX_SERVERS = 10
const MAX_CAPABILITY_LENGTH = 500

/** Answers `servers/recommend`: what the configuration says first, then servers of this gateway, then a registry. */
function answerRecommend(settings: SettingsOf<Settings | false>, deps: Deps): Handler {
  const neighbours = createNeighbours(deps)
  const registry = createRegistry(deps)
  return async (call) => {
    const { upstream } = call.target
    const capability = wanted(call)
    const written = (upstream === undefined ? deps.servers.names() : [upstream]).flatMap(
      (name) => deps.servers.settings(name)?.recommend ?? [],
    )
    const own = settings(upstream)
    const [near, far] = await Promise.all([
      neighbours(call, capability),
      own === false ? nothing : registry(capability, own),
    ])
    const sorted = [writtenFor(capability, written), near, far].flatMap((each) =>
      each.toSorted((one, other) => other.score - one.score),
    )
    const distinct = sorted.filter(
      ({ server }, at) => sorted.findIndex((each) => each.server === server) === at,
    )
    const recommendations = distinct.slice(0, MAX_SERVERS).map((each) => told(capability, each))
    return answered({ capability_needed: capability, recommendations })
  }
}

function wanted({ params }: Call): string {
  const { capability_needed: needed, capability = needed } = params.fields
  if (typeof capability !== 'string' || capability.trim() === '') {
    throw invalid('must say what is wanted, in a few words')
  }
  if (capability.length > MAX_CAPABILITY_LENGTH)
    throw invalid(`may have at most ${MAX_CAPABILITY_LENGTH} characters`)
  return capability
}

function invalid(what: string): GatewayError {
  const field = 'capability_needed'
  return new GatewayError('INVALID_INPUT', `Invalid params: ${field} ${what}.`, { field, reason: 'shape' })
}

function problemsOf(settings: Settings | false): Finding[] {
  if (settings === false || !String(settings.registry).startsWith('http')) return []
  if ([settings.publishers].flat().length > 0) return []
  const message = 'a registry needs publishers: whose servers may be named, such as [io.github.someone]'
  return [{ path: ['features', 'discovery', 'registry'], at: 'key', message }]
}

/** How much of what a server is recommended for must be asked for, from 0 to 1. */
const MIN_SCORE = 0.5

/** The servers an owner recommends for what is asked for: those whose capability is named, in other words too. */
function writtenFor(capability: string, written: readonly Recommendation[]): Recommended[] {
  const asked = new Set(queryWords(capability).map(stem))
  return written.flatMap(({ capability: offered, server, registryUrl, authFlow, confidence }) => {
    const words = wordsIn(offered).map(stem)
    const named = words.filter((word) => asked.has(word) || synonymsOf(word).some((each) => asked.has(each)))
    const share = words.length === 0 ? 0 : named.length / words.length
    if (share < MIN_SCORE) return []
    return [{ server, score: Math.min(share, most(confidence)), registryUrl, authFlow }]
  })
}

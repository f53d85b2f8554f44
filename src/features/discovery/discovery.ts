/** Recommends servers for a wanted capability, and answers calls of unknown tools with similar ones. */
import type { Call, Handler, Outcome } from '../../core/call.ts'
import { type Descriptor, type Risk, riskRanks } from '../../core/descriptor.ts'
import { GatewayError, isCancelled } from '../../core/error.ts'
import type { Finding } from '../../core/finding.ts'
import { leadingVerb, nameEvidence } from '../../core/judgement/words.ts'
import type { Recommendation } from '../../core/settings.ts'
import { describedTool, rankingsOf } from '../../core/text/ranking.ts'
import { synonymsOf } from '../../core/text/synonyms.ts'
import { queryWords, stem, wordsIn, distance } from '../../core/text/words.ts'
import { within } from '../../core/time/waiting.ts'
import { callOf } from '../../core/tool-call.ts'
import { answered, asTool, pageOf } from '../builtin-tool.ts'
import type { Feature, SettingsOf } from '../feature.ts'
import type { Services } from '../feature.ts'
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

// The tools that an unknown name may have meant: by spelling and by meaning, of those the caller may call.

/** How many tools are named, and how many of the best are looked at. */
const MAX_SUGGESTIONS = 3
const MAX_CANDIDATES = 8
/** How near a tool must be to the best one to be named, from 0 to 1. */
const MIN_RELATIVE_SCORE = 0.75
/** How much of a name must be said by a tool for that to be named, from 0 to 1. */
const NEAREST_TOOLS_MIN_SCORE = 0.5
/** How long lists are waited for, in milliseconds, and how long a name may be to be compared. */
const LIST_TIMEOUT_MS = 500
const MAX_NAME_LENGTH = 64

/** Names that are safe to repeat in a message. */
const plain = /^[\w.:/-]{1,128}$/

/** Answers a call of an unknown tool with similar tools, of those the caller may call. */
function withNearest(deps: Deps): (call: Call, next: Handler) => Promise<Outcome> {
  const ranking = rankingsOf(({ tools }) => tools.map(({ entry }) => describedTool(entry)))

  /** The servers a name may be of, and what is left of it without the server's own: that says nothing of a tool. */
  const subjectOf = ({ target: { upstream, name = '' } }: Call, names: readonly string[]): Subject => {
    if (upstream !== undefined) return { names: [upstream], wanted: name, exposed: name }
    // Of `a` and `a-b`, `a_b_c` is taken for one of the longer name.
    const servers = names.filter((each) => name.startsWith(prefixOf(each)))
    const server = servers.toSorted((one, other) => other.length - one.length)[0]
    if (server === undefined) return { names, wanted: name, exposed: name }
    return { names: [server], wanted: name.slice(prefixOf(server).length), exposed: name }
  }
  const prefixOf = (upstream: string): string => deps.servers.exposedName(upstream, 'x', true).slice(0, -1)

  const find = async (call: Call): Promise<readonly Found[]> => {
    const records = deps.servers.records()
    const { names, wanted, exposed } = subjectOf(call, records.names)
    const known = await Promise.all(names.map(async (each) => records.of(each)))
    const isTogether = call.target.upstream === undefined
    const found = (entry: Descriptor, match: number): Found => {
      return { entry, match, name: deps.servers.exposedName(entry.upstream, entry.name, isTogether) }
    }
    // Their names are enough here: what describes a tool looks through its schema, which may be large.
    const tools = known.flatMap((record) => record.tools.map(({ entry }) => entry))
    const typed = wanted.length > MAX_NAME_LENGTH ? [] : mistyped(wanted, tools)
    const risks = new Map(names.map((each) => [each, riskOfName(wanted, each)] as const))
    const ranked = ranking(known)
      .rank(wanted.slice(0, MAX_NAME_LENGTH))
      .filter(({ match }) => match >= NEAREST_TOOLS_MIN_SCORE)
    const least = (ranked[0]?.score ?? 0) * MIN_RELATIVE_SCORE
    const all = [
      ...typed.filter(
        ({ entry }) =>
          isSameVerb(wanted, entry) || !isRiskier(entry, risks.get(entry.upstream) ?? 'destructive'),
      ),
      // The intent of an unknown name is unknown too: only tools that change nothing are suggested for it.
      ...ranked
        .filter(({ of, score }) => {
          return score >= least && !isRiskier(of.entry, risks.get(of.entry.upstream) ?? 'safe')
        })
        .map(({ of, match }) => ({ entry: of.entry, match })),
    ].map(({ entry, match }) => found(entry, match))
    const distinct = all.filter(({ name: each }, at) => all.findIndex((one) => one.name === each) === at)
    const looked = distinct
      .filter(({ name }) => plain.test(name) && name !== exposed)
      .slice(0, MAX_CANDIDATES)
    const are = await Promise.all(looked.map(({ entry }) => deps.invoker.isPermitted(callOf(call, entry))))
    return looked.filter((_, at) => are[at] === true).slice(0, MAX_SUGGESTIONS)
  }

  const explain = async (thrown: unknown, call: Call): Promise<never> => {
    if (!isUnknown(thrown) || isCancelled(call.signal)) throw thrown
    const found = await within(find(call), LIST_TIMEOUT_MS, []).catch(() => [])
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

/** What a call of an unknown name may be about. */
interface Subject {
  readonly names: readonly string[]
  /** The name without that of its server, and the name as it was called. */
  readonly wanted: string
  readonly exposed: string
}

/** A tool that may be meant, by the name the caller would call it, and how much it is like what was called, to 1. */
interface Found {
  readonly name: string
  readonly entry: Descriptor
  readonly match: number
}

/** The tool whose name is most like one that was mistyped: at most one letter in five is another. */
function mistyped(name: string, tools: readonly Descriptor[]): Omit<Found, 'name'>[] {
  const close = tools.flatMap((entry) => {
    const edits = distance(name, entry.name)
    const isClose = edits <= Math.max(1, Math.floor(Math.min(name.length, entry.name.length) / 5))
    return isClose && name.length > 2 ? [{ entry, match: 1 - edits / Math.max(name.length, 1) }] : []
  })
  return close.toSorted((one, other) => other.match - one.match).slice(0, 1)
}

/** The risk that a caller of this name accepts; undefined where the name has no known verb. */
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

function isRiskier({ classification }: Descriptor, than: Risk): boolean {
  return riskRanks[classification.risk] > riskRanks[than]
}

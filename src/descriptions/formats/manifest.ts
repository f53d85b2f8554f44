/**
 * What programs read: the service manifest, notes on listed tools in `_meta` (cost, latency, media), and cards of servers with
 * their entries for MCP registries.
 */
import { NS } from '../../core/identity.ts'
import { isObject } from '../../core/json/json.ts'
import { rates } from '../../core/time/units.ts'
import { latestModern, revisionNames } from '../../core/revisions.ts'
import { asksForToken, type ServerDescription, type ToolDescription } from '../model/description.ts'
import {
  costData,
  costOf,
  endpointsOf,
  installationOf,
  isCollectable,
  latencyOf,
  outputTypesOf,
  paginates,
  requiredScopes,
  scopesOf,
} from '../model/facts.ts'
import { clean, clipped } from '../model/text.ts'
import { alternativeAccess, specVersion } from './dashdash.ts'

type Json = Record<string, unknown>

/** The key of the server of a tool, if tools of several servers may have the same name. */
const UPSTREAM = `${NS}/upstream`
/** The keys of a name or version as the server writes it. */
const WIRE_NAME = `${NS}/wire_name`
const WIRE_VERSION = `${NS}/wire_version`
/** The key of the type of events that a success of a tool is. */
const EVENT = `${NS}/event`
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

/** The version of the manifest format. */
export const manifestVersion = '0.1.0'

/** The service manifest of one server, or of all together. */
export function manifestOf(description: ServerDescription): Json {
  const { tools, front, recommend, links, wireVersion } = description
  const limits = rateLimits(front.rates)
  return {
    manifest_version: manifestVersion,
    server: {
      name: description.name,
      version: description.version,
      mcp_spec_version: latestModern.name,
      description: description.isUp ? description.purpose : `${description.purpose} (unavailable)`,
      ...(links.homepage !== undefined && { homepage: links.homepage }),
    },
    auth: authOf(description),
    tools: tools.map(manifestTool),
    supported_extensions: front.extensions,
    ...(limits && { rate_limits: limits }),
    ...(recommend.length > 0 && {
      recommendations: recommend.map(({ capability, server, registryUrl, authFlow, confidence }) => ({
        capability,
        server_name: server,
        ...(registryUrl !== undefined && { registry_url: registryUrl }),
        ...(authFlow !== undefined && { auth_flow: authFlow }),
        match_confidence: confidence,
      })),
    }),
    ...(wireVersion !== undefined && { _meta: { [WIRE_VERSION]: wireVersion } }),
  }
}

function manifestTool(tool: ToolDescription): Json {
  const { definition, classification, facts, words, name, alias, of, question } = tool
  const { inputSchema, outputSchema } = definition
  const latency = latencyOf(tool)
  const cost = costOf(tool)
  const inputTypes = words.accepts ?? facts.inputTypes
  const outputTypes = outputTypesOf(tool)
  const scopes = [...new Set([...(tool.ownScopes ?? []), ...requiredScopes(facts)])]
  const meta = {
    ...(alias !== name && { [WIRE_NAME]: name }),
    ...(of !== undefined && { [UPSTREAM]: of }),
    ...(tool.event !== undefined && { [EVENT]: tool.event }),
  }
  return {
    name: alias,
    description: tool.description,
    input_schema: isObject(inputSchema) ? inputSchema : { type: 'object' },
    ...(isObject(outputSchema) && { output_schema: outputSchema }),
    ...(inputTypes && { input_types: inputTypes }),
    ...(outputTypes.length > 0 && { output_types: outputTypes }),
    ...inputLimits(tool),
    ...(cost && { cost: costData(cost) }),
    ...(latency && { latency }),
    idempotent: classification.idempotent,
    requires_confirmation: question !== undefined,
    ...(question !== undefined && question !== '' && { confirmation_message: clean(question) }),
    risk_level: tool.risk,
    ...(scopes.length > 0 && { required_scopes: scopes }),
    supports_streaming: isCollectable(tool) || definition.supports_streaming === true,
    supports_pagination: paginates(tool) || definition.supports_pagination === true,
    ...(Object.keys(meta).length > 0 && { _meta: meta }),
  }
}

function authOf(description: ServerDescription): Json {
  const { auth } = description.front
  const scopes = scopesOf(description)
  return {
    methods: auth.methods,
    ...(scopes.length > 0 && {
      scopes: scopes.map(({ name, description, tools }) => {
        return { name, description, grants: tools.map(({ alias }) => alias) }
      }),
    }),
    ...(auth.sessionTtl !== undefined && { session_ttl_seconds: auth.sessionTtl }),
  }
}

function rateLimits(written: readonly string[]): Json | undefined {
  const known = rates(written)
  const within = (window: number): number | undefined => {
    const limits = known.filter((rate) => rate.window === window).map(({ limit }) => limit)
    return limits.length > 0 ? Math.min(...limits) : undefined
  }
  const [minute, day] = [within(MINUTE_MS), within(DAY_MS)]
  const limits = {
    ...(minute !== undefined && { requests_per_minute: minute }),
    ...(day !== undefined && { requests_per_day: day }),
  }
  return Object.keys(limits).length > 0 ? limits : undefined
}

/** Additional `_meta` of a listed tool: cost, latency, media types. */
export function toolNotes(tool: ToolDescription): Json {
  const { cost } = tool.facts
  // What a server says itself is in its entry.
  const latency = tool.definition.latency === undefined ? latencyOf(tool) : undefined
  const media = mediaOf(tool)
  return {
    ...(cost && { [`${NS}/cost`]: costData(cost) }),
    ...(latency && { [`${NS}/latency`]: latency }),
    ...(media && { [MEDIA_KEY]: media }),
  }
}

/** The `_meta` key of the media of a tool. */
export const MEDIA_KEY = `${NS}/multimodal`

/** The same media as members of the list entry, for clients that ask for it or for all. */
export function mediaMembers(tool: ToolDescription, isAsked: boolean): Json {
  const { mediaPlace } = tool.facts
  return mediaPlace === 'always' || (mediaPlace === 'asked' && isAsked) ? (mediaOf(tool) ?? {}) : {}
}

/** For how many tools the remaining quota is included: each is a separate read of a store that may be remote. */
const MAX_COUNTED_TOOLS = 100

/** The first tools with a quota: a rate limit, or a cost in a budget. */
export function countedOf<Tool extends Pick<ToolDescription, 'facts'>>(
  tools: readonly Tool[],
): ReadonlySet<Tool> {
  return new Set(tools.filter(isCounted).slice(0, MAX_COUNTED_TOOLS))
}

function isCounted({ facts: { rates, cost } }: Pick<ToolDescription, 'facts'>): boolean {
  return rates !== undefined || (cost?.units ?? 0) > 0
}

/** The media types of a tool, if it handles more than text and JSON. */
function mediaOf(tool: ToolDescription): Json | undefined {
  // The words of the owner and of the server come before what the schema shows.
  const inputTypes = tool.facts.inputTypes && (tool.words.accepts ?? tool.facts.inputTypes)
  const outputTypes = outputTypesOf(tool)
  const isRich = outputTypes.some((type) => type !== 'text/plain' && type !== 'application/json')
  if (!inputTypes && !isRich) return undefined
  return {
    ...(inputTypes && { input_types: inputTypes }),
    ...(outputTypes.length > 0 && { output_types: outputTypes }),
    ...(inputTypes && inputLimits(tool)),
  }
}

/** The largest input in a call and, where files can be sent as a form before it, where, and the largest of them. */
function inputLimits({ facts, words }: ToolDescription): Json {
  const { upload } = facts
  const own = words.maxInput ?? Infinity
  const inCall = Math.min(facts.maxInput ?? Infinity, own)
  return {
    ...(inCall !== Infinity && { max_input_size_bytes: inCall }),
    ...(upload && {
      binary_transport: 'multipart',
      upload_url: upload.url,
      max_upload_size_bytes: Math.min(upload.max, own),
    }),
  }
}

/** The media type of a server card. */
export const cardType = 'application/mcp-server-card+json'

/** The entry of a server for an MCP registry; unverified. */
export function registryEntry(server: ServerDescription): Json {
  const { name, description, tools } = server
  return {
    name,
    description,
    specVersion,
    install: installationOf(server),
    alternativeAccess: alternativeAccess(server),
    categories: [...new Set(tools.map(({ category }) => category))].toSorted(),
    verified: false,
  }
}

/** The server card, for discovery before connecting: SEP-2127, without tools. */
export function serverCard(server: ServerDescription): Json {
  const { name, version, title, purpose, links, front } = server
  const isSigned = asksForToken(front)
  const authorization = {
    name: 'Authorization',
    isRequired: true,
    isSecret: true,
    placeholder: 'Bearer <token>',
  }
  const remotes = Object.values(endpointsOf(server)).map((url) => ({
    type: 'streamable-http',
    url,
    ...(isSigned && { headers: [authorization] }),
    supportedProtocolVersions: revisionNames,
  }))
  return {
    $schema: 'https://static.modelcontextprotocol.io/schemas/v1/server-card.schema.json',
    name: `${NS}/${name}`,
    version,
    description: clipped(purpose, 100),
    title: clipped(title, 100),
    ...(links.homepage !== undefined && { websiteUrl: links.homepage }),
    ...(links.repository !== undefined && { repository: repositoryOf(links.repository) }),
    ...(remotes.length > 0 && { remotes }),
  }
}

/** The media type of an AI Catalog. */
export const catalogType = 'application/ai-catalog+json'

/** The version of the AI Catalog format that SEP-2127 describes. */
export const catalogVersion = '1.0'

/** An entry of the AI Catalog of a domain (SEP-2127): the card has the title, description and version. */
export function catalogEntry({ name }: ServerDescription, cardUrl: string): Json {
  return { identifier: identifierOf(cardUrl, `mcp:${name}`), type: cardType, url: cardUrl }
}

/** The same as drafts of SEP-2127 had it, for `/.well-known/mcp/catalog.json`. */
export function draftCatalogEntry({ name, title }: ServerDescription, cardUrl: string): Json {
  return { identifier: identifierOf(cardUrl, name), displayName: title, type: cardType, url: cardUrl }
}

function identifierOf(cardUrl: string, path: string): string {
  return `urn:air:${new URL(cardUrl).hostname}:${path}`
}

function repositoryOf(url: string): Json {
  const [source = ''] = new URL(url).hostname.replace(/^www\./, '').split('.')
  return { url, source }
}

/** The service manifest. */
import { rates } from '../../core/time/units.ts'
import { NS } from '../../protocol/meta-keys.ts'
import { latestModern } from '../../protocol/revisions.ts'
import { isObject } from '../../core/json/json.ts'
import {
  costData,
  costOf,
  latencyOf,
  outputTypesOf,
  isCollectable,
  paginates,
  requiredScopes,
  scopesOf,
} from '../model/facts.ts'
import type { ServerDescription, ToolDescription } from '../model/description.ts'
import { clean } from '../model/text.ts'
import { inputLimits } from './tool-notes.ts'

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

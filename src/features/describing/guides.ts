/**
 * Guides for agents: the guide to a server as `ai_help`, `/ai-help` and `/llms.txt` (the feature `help`), and briefings and
 * notices as prompts and resources (the feature `agent_profile`).
 */
import type { Call, Handler } from '../../core/call.ts'
import { unknownResource } from '../../core/error.ts'
import { self } from '../../core/identity.ts'
import { isObject } from '../../core/json/json.ts'
import {
  agentBriefing,
  agentPrompt,
  helpKey,
  helpOf,
  helpText,
  llmsFullText,
  llmsText,
} from '../../descriptions/formats/help.ts'
import { authNotice, headersNotice, versionNotice } from '../../descriptions/sections/sections.ts'
import type { ServerDescription } from '../../descriptions/model/description.ts'
import { CONTRACT_KEY } from '../../protocol/meta-keys.ts'
import { Contracts } from '../../records/contracts.ts'
import { answered, asTool, pageOf, jsonPage, objectSchema } from '../builtin-tool.ts'
import type { BuiltinEntry, BuiltinPage, BuiltinTool, Feature, Services } from '../feature.ts'
import { agentProfileSchema, type HelpSettings, helpSchema } from '../settings/describe.ts'
import {
  describedList,
  type DescribingDeps,
  type DocumentFormat,
  documentFor,
  MARKDOWN,
  markdownPage,
} from './documents.ts'

/** Explains the use of a server to agents: the whole guide, one section, or one tool. */
export const help: Feature<HelpSettings | false> = {
  ...helpSchema,
  create: (settings, deps) => {
    const answer: Handler = async (call) => answered(await helpFor(call, deps))
    const isListed = (upstream?: string): boolean | undefined => (settings(upstream) || {}).listed
    const isOpen = (): boolean => (settings() || { public: false }).public
    return {
      builtins: {
        methods: { ai_help: answer },
        tools: [{ ...readable(asTool(helpTool, answer)), isListed }],
      },
      http: {
        pages: helpPages(isOpen, deps),
      },
    }
  },
}

/** How long a guide may be cached, in seconds. */
const MAX_AGE = 60

const helpTool = {
  name: 'ai_help',
  title: 'How to use this server',
  description:
    'Returns the guide to this server: when to use it, its tools with parameters, effects and errors, limits and rules. ' +
    'With `section`, only one section or one tool.',
  inputSchema: objectSchema([], {
    format: { type: 'string', enum: ['markdown', 'json'], default: 'markdown' },
    section: {
      type: ['string', 'null'],
      description: 'A section such as `quickReference` or `errorHandling`, or the name of a tool.',
    },
  }),
  annotations: { readOnlyHint: true, idempotentHint: true },
}

async function helpFor(call: Call, deps: DescribingDeps): Promise<Record<string, unknown>> {
  const { format, section } = call.params.fields
  const description = await describedList(helpSchema.name, call, deps)
  const request = { format, section }
  return deps.descriptions.document(description, helpKey(description, request), (each) =>
    helpOf(each, request),
  )
}

/** Returns the markdown guide as plain text for models. */
function readable(tool: BuiltinTool): BuiltinTool {
  return {
    ...tool,
    handle: async (call) => {
      const outcome = await tool.handle(call)
      if (outcome.kind !== 'result') return outcome
      const { structuredContent: found } = outcome.result.fields
      if (!isObject(found) || typeof found.content !== 'string') return outcome
      return {
        kind: 'result',
        result: outcome.result.with({ content: [{ type: 'text', text: found.content }] }),
      }
    },
  }
}

const short: DocumentFormat<string> = { key: 'llms', make: llmsText }
const full: DocumentFormat<string> = { key: 'llms-full', make: llmsFullText }

function helpPages(isOpen: () => boolean, deps: DescribingDeps): BuiltinPage[] {
  const guide: Handler = async (call) => {
    const { content, ...rest } = await helpFor(call, deps)
    if (typeof content === 'string') return pageOf({ text: content, type: MARKDOWN, maxAge: MAX_AGE })
    return jsonPage(rest, MAX_AGE)
  }
  const page = (format: DocumentFormat<string>): Handler =>
    markdownPage((call) => documentFor(helpSchema.name, format, call, deps), MAX_AGE)
  return [
    { path: '/ai-help', handle: guide },
    { path: '/ai-help/*', handle: guide },
    { path: '/llms.txt', isOpen, handle: page(short) },
    { path: '/.well-known/llms.txt', isOpen, handle: page(short) },
    { path: '/llms-full.txt', isOpen, handle: page(full) },
  ]
}

/** Briefs agents: prompts and resources of every server that say when to choose it, how to use it, and which rules apply. */
export const agentProfile: Feature<Record<never, never> | false> = {
  ...agentProfileSchema,
  create: (settings, deps) => ({
    responseMiddleware: (method) => {
      if (method !== 'resources/read') return undefined
      return (next) => (call) => {
        const { upstream, name = '' } = call.target
        if (settings(upstream) === false || !isReservedMisuse(name)) return next(call)
        return Promise.reject(unknownResource(name))
      }
    },
    builtins: {
      prompts: () => briefings.map((each) => promptOf(each, deps)),
      resources: (upstream) => resourcesOf(upstream, deps),
    },
  }),
}

type ProfileDeps = DescribingDeps & Pick<Services, 'store'>

/** A text about a server. */
interface Text {
  readonly title: string
  readonly description: string
  readonly make: (description: ServerDescription) => string
}

const briefings: readonly (Text & { readonly name: string; readonly mirror: string })[] = [
  {
    name: 'agent_brief',
    mirror: 'brief',
    title: 'Briefing for agents',
    description: 'What this server is for, when to choose it and when not, and its limits, in short.',
    make: agentBriefing,
  },
  {
    name: 'agent_prompt',
    mirror: 'prompt',
    title: 'Instructions for agents',
    description: 'How to use each tool of this server, within which limits, and what to answer.',
    make: agentPrompt,
  },
]

/** The resources under reserved schemes; nothing else is allowed there. */
const notices: readonly (Text & { readonly uri: string; readonly type: string })[] = [
  {
    uri: 'use://auth',
    title: 'Authentication',
    description: 'How to prove who you are, which claims are read, and which profile is kept.',
    type: 'text/markdown',
    make: authNotice,
  },
  {
    uri: 'use://http-headers',
    title: 'HTTP headers',
    description: 'Which headers are read and sent, those beyond the protocol too.',
    type: 'text/markdown',
    make: headersNotice,
  },
  {
    uri: 'project://version',
    title: 'Version',
    description: 'The version, as reported by the handshake and /health.',
    type: 'text/plain',
    make: versionNotice,
  },
  {
    uri: 'doc://readme',
    title: 'Guide',
    description: 'What this server offers, and how it is used.',
    type: 'text/markdown',
    make: helpText,
  },
]

function promptOf(
  { name, title, description, make }: (typeof briefings)[number],
  deps: ProfileDeps,
): BuiltinEntry {
  return {
    definition: { name, title, description, arguments: [] },
    isListed: true,
    handle: async (call) => {
      const text = await documentFor(agentProfileSchema.name, { key: name, make }, call, deps)
      return answered({ description, messages: [{ role: 'user', content: { type: 'text', text } }] })
    },
  }
}

function resourcesOf(upstream: string | undefined, deps: ProfileDeps): readonly BuiltinEntry[] {
  const service = upstream ?? deps.servers.names().find((_name, _index, all) => all.length === 1) ?? self.name
  const mirrors = briefings.map(({ name, mirror, ...rest }) => {
    return { ...rest, key: name, uri: `${service}://agent/${mirror}`, type: 'text/markdown' }
  })
  const all = [...notices.map((each) => ({ ...each, key: each.uri })), ...mirrors]
  return all.map(({ uri, title, description, type, key, make }) => ({
    definition: { uri, name: uri, title, description, mimeType: type },
    isListed: true,
    handle: async (call) => {
      const text = await documentFor(agentProfileSchema.name, { key, make }, call, deps)
      const meta = uri === VERSION ? await versionsOf(upstream, deps) : undefined
      return answered({ contents: [{ uri, mimeType: type, text, ...(meta && { _meta: meta }) }] })
    },
  }))
}

/** Whether a server misuses a reserved scheme; such resources are not readable under it. */
function isReservedMisuse(uri: string): boolean {
  return /^(?:use|project|doc):/.test(uri) && notices.every((each) => each.uri !== uri)
}

const VERSION = 'project://version'

/** The contract version of each server, beside the version of the gateway. */
async function versionsOf(
  upstream: string | undefined,
  deps: ProfileDeps,
): Promise<Record<string, unknown> | undefined> {
  const contracts = new Contracts(deps.store)
  const names = upstream === undefined ? deps.servers.names() : [upstream]
  const known = await Promise.all(
    names.map(async (name) => {
      const found = await contracts.find(name).catch(() => undefined)
      return [name, found?.versions[0]?.version] as const
    }),
  )
  const versions = Object.fromEntries(known.filter(([, version]) => version !== undefined))
  return Object.keys(versions).length > 0 ? { [CONTRACT_KEY]: versions } : undefined
}

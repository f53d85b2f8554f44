/** Documents for agents as prompts and resources: briefings and notices. */
import type { Call } from '../core/call.ts'
import { self } from '../core/identity.ts'
import { unknownResource } from '../core/error.ts'
import { agentBriefing, agentPrompt, helpText } from '../descriptions/formats/help.ts'
import { authNotice, headersNotice, versionNotice } from '../descriptions/sections/sections.ts'
import type { ServerDescription } from '../descriptions/model/description.ts'
import { Contracts } from '../records/contracts.ts'
import { CONTRACT_KEY } from '../protocol/meta-keys.ts'
import type { Feature, BuiltinEntry, Services } from './feature.ts'
import { answered } from './builtin-tool.ts'
import { describedList } from './describing.ts'
import { agentProfileSchema } from './settings/describe.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'descriptions' | 'features'>

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

function promptOf({ name, title, description, make }: (typeof briefings)[number], deps: Deps): BuiltinEntry {
  return {
    definition: { name, title, description, arguments: [] },
    isListed: true,
    handle: async (call) => {
      const text = await renderDocument(call, deps, { key: name, make })
      return answered({ description, messages: [{ role: 'user', content: { type: 'text', text } }] })
    },
  }
}

function resourcesOf(upstream: string | undefined, deps: Deps): readonly BuiltinEntry[] {
  const service = upstream ?? deps.servers.names().find((_name, _index, all) => all.length === 1) ?? self.name
  const mirrors = briefings.map(({ name, mirror, ...rest }) => {
    return { ...rest, key: name, uri: `${service}://agent/${mirror}`, type: 'text/markdown' }
  })
  const all = [...notices.map((each) => ({ ...each, key: each.uri })), ...mirrors]
  return all.map(({ uri, title, description, type, key, make }) => ({
    definition: { uri, name: uri, title, description, mimeType: type },
    isListed: true,
    handle: async (call) => {
      const text = await renderDocument(call, deps, { key, make })
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

interface DocumentRequest {
  readonly key: string
  readonly make: Text['make']
}

async function renderDocument(call: Call, deps: Deps, { key, make }: DocumentRequest): Promise<string> {
  const description = await describedList(agentProfile.name, call, deps)
  return deps.descriptions.document(description, key, make)
}

/** The contract version of each server, beside the version of the gateway. */
async function versionsOf(
  upstream: string | undefined,
  deps: Deps,
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

import { classify } from '../../src/core/judgement/classify.ts'
import { aliasOf } from '../../src/core/text/alias.ts'
import type { EntryDefinition, ServerRecord, ToolFacts, ToolDetails } from '../../src/core/descriptor.ts'
import type { UpstreamSettings } from '../../src/core/settings.ts'
import { describeAllServers, describeServer } from '../../src/descriptions/model/describe.ts'
import type { Front, ServerDescription, ToolDescription } from '../../src/descriptions/model/description.ts'
import { serverRecord } from './server-record.ts'
import { serverSettings } from './server-settings.ts'

/** What is given of a server to be described; the rest is as little as can be. */
export interface Given {
  readonly record?: Partial<Omit<ServerRecord, 'tools'>>
  readonly settings?: Partial<UpstreamSettings>
  readonly front?: Partial<Front>
  readonly tools?: readonly EntryDefinition[]
  /** What features say of a tool, by its name. */
  readonly facts?: Readonly<Record<string, ToolFacts>>
  readonly seen?: ToolDetails['statistics']
  /** The types of events that no tool has. */
  readonly events?: Parameters<typeof describeServer>[0]['events']
  /** Tools are called by the name of their server and their own. */
  readonly isPrefixed?: boolean
}

/** A gateway that asks for nothing and limits nothing. */
const plainFront: Front = {
  endpoint: 'http://127.0.0.1:8900/mcp',
  version: '0.2.0',
  profile: 'open',
  auth: { methods: ['none'] },
  rates: [],
  limits: [],
  extensions: [],
  hasDryRuns: false,
  hasEvents: false,
  isRecorded: true,
  hasHelp: true,
  isHelpListed: true,
  isSkillListed: true,
  ownTools: 'listed',
}

/** A gateway that does everything a document can tell of. */
export const fullFront: Front = {
  ...plainFront,
  profile: 'corporate',
  auth: {
    methods: ['bearer_token'],
    claims: { sub: 'the identity of the caller', scope: 'the scopes of the caller' },
    issuers: ['https://idp.example.com'],
    sessionTtl: 1800,
    elevateUrl: 'https://idp.example.com/request-access',
  },
  hasDryRuns: true,
  rates: ['60/minute', '1000/day'],
  limits: ['A request may be 1 MB'],
  extensions: ['idempotency', 'transactions', 'human_in_the_loop', 'structured_errors'],
}

/** The server `files`, or another one, as documents are made of it. */
export function describedServer(given: Given = {}): ServerDescription {
  const settings = serverSettings({ ...given.settings, name: given.record?.name ?? 'files' })
  const record = recordOf(given, settings)
  const naming = given.isPrefixed
    ? {
        name: (upstream: string, name: string) => `${upstream}_${name}`,
        event: (upstream: string, name: string) => `${upstream}_${name}`,
        uri: (one: string, uri: string) => `${one}+${uri}`,
      }
    : undefined
  const source = { record, settings, ...(given.events && { events: given.events }) }
  return describeServer(source, { ...plainFront, ...given.front }, naming)
}

/** Several servers as one. */
export function describedServers(given: readonly Given[], front: Partial<Front> = {}): ServerDescription {
  const parts = given.map((each) => describedServer({ ...each, front, isPrefixed: true }))
  return describeAllServers(parts, { ...plainFront, ...front })
}

/** The only tool of a server. */
export function describedTool(
  definition: EntryDefinition,
  facts: ToolFacts = {},
  given: Given = {},
): ToolDescription {
  const [tool] = describedServer({
    ...given,
    tools: [definition],
    facts: { [String(definition.name)]: facts },
  }).tools
  if (!tool) throw new Error('there is no tool')
  return tool
}

/** What everything the gateway does about a tool could be, after what kind of action it is. */
function allFacts(name: string, classification: { readonly op: string; readonly risk: string }): ToolFacts {
  const isRead = classification.op === 'read'
  return {
    scopes: [[`${classification.risk === 'destructive' ? 'delete' : classification.op}:server`]],
    timeout: 30_000,
    ...(!isRead && { isIdempotentWithKey: true }),
    ...(classification.risk === 'destructive' && {
      confirmation: { message: `Run ${name}?`, isOutOfBand: false },
    }),
    ...(classification.op === 'delete' && { rates: ['10/minute'] }),
  }
}

function recordOf({ record, tools = [], facts, seen }: Given, settings: UpstreamSettings): ServerRecord {
  return serverRecord({
    name: settings.name,
    ...record,
    tools: tools.map((definition) => {
      const name = String(definition['name'])
      const classification = classify(definition, settings)
      return {
        entry: { upstream: settings.name, kind: 'tool', name, definition, classification },
        alias: aliasOf(name),
        facts: facts ? (facts[name] ?? {}) : allFacts(name, classification),
        ...(seen && { statistics: seen }),
      }
    }),
  })
}

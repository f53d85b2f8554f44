/** The description of a server, from which all documents are created. */
import type {
  Risk,
  Classification,
  EntryDefinition,
  ToolStatistics,
  ToolFacts,
} from '../../core/descriptor.ts'
import type { Recommendation, ResourceWords, ToolWords } from '../../core/settings.ts'

/** The description of one server, or of all servers together. Texts are clean, but not escaped for Markdown. */
export interface ServerDescription {
  /** Lower-case letters, digits and hyphens. */
  readonly name: string
  readonly title: string
  /** Its purpose, in one sentence. */
  readonly purpose: string
  /** Its purpose and when to use it, at most 1024 characters. */
  readonly description: string
  readonly useWhen: readonly string[]
  readonly notFor: readonly string[]
  readonly emoji?: string
  /** Three numbers; `wireVersion` is the version of the server if it differs. */
  readonly version: string
  readonly wireVersion?: string
  readonly isUp: boolean
  readonly accessLevel: 'read' | 'interact' | 'full'
  readonly links: Links
  readonly install: Readonly<Record<string, string>>
  readonly requires: Record<'auth' | 'env' | 'scopes', readonly string[]>
  readonly contentVersion: string
  /** In milliseconds since 1970. */
  readonly changedAt?: number
  readonly canSubscribe: boolean
  readonly tools: readonly ToolDescription[]
  readonly prompts: readonly EntryDefinition[]
  readonly resources: readonly EntryDefinition[]
  readonly templates: readonly EntryDefinition[]
  /** What the configuration says of resources and templates, by glob of the URI that the server gives them. */
  readonly resourceWords: Readonly<Record<string, ResourceWords>>
  readonly recommend: readonly Recommendation[]
  /** The types of events, besides those of tools. */
  readonly events: readonly EventDescription[]
  /** The servers it consists of; empty for one server. */
  readonly parts: readonly ServerDescription[]
  readonly front: Front
}

/** The description of a type of events, with its exposed name. */
interface EventDescription {
  readonly name: string
  readonly description: string
}

/** Links to alternatives and documentation. */
export interface Links {
  readonly cli: string | null
  readonly api: string | null
  readonly web: string | null
  readonly homepage?: string
  readonly repository?: string
  readonly statusPage?: string
  readonly documentation?: string
}

/** The description of a tool. */
export interface ToolDescription {
  /** The exposed name, and the same in snake case. */
  readonly name: string
  readonly alias: string
  readonly upstream: string
  /** Its server, if tools of several servers may have the same name. */
  readonly of?: string
  readonly title: string
  /** Its description, and the first sentence of it. */
  readonly description: string
  readonly summary: string
  readonly category: string
  readonly effects: readonly string[]
  readonly isDeprecated: boolean
  /** What is false for certain: the server or the configuration says so. Otherwise it may be unknown. */
  readonly denied: ReadonlySet<'idempotent' | 'reversible'>
  /** The required scopes; empty if no token is required. */
  readonly scopes: readonly string[]
  /** The exposed name of the tool that undoes it. */
  readonly undoneBy?: string
  /** The exposed name of the type of events that a success is. */
  readonly event?: string
  readonly definition: EntryDefinition
  readonly classification: Classification
  readonly facts: ToolFacts
  /** What its owner says of it, and what its server says where the owner does not. */
  readonly words: ToolWords
  readonly risk: Risk
  /** The question to the person who has to approve its calls, if one has to. */
  readonly question?: string
  /** The scopes that the server itself says it requires. */
  readonly ownScopes?: readonly string[]
  readonly statistics?: ToolStatistics
}

/** The gateway and its endpoint in a document. Contains no secrets. */
export interface Front {
  /**
   * The URL of the MCP endpoint; absent if clients use stdio, and for all
   * servers together if they have only separate endpoints.
   */
  readonly endpoint?: string
  /** The version of the gateway. */
  readonly version: string
  readonly profile: 'open' | 'corporate'
  readonly auth: FrontAuth
  /** The rate limits per caller, such as `60/minute`. */
  readonly rates: readonly string[]
  /** Other limits, each as a sentence. */
  readonly limits: readonly string[]
  /** Whether calls can be dry runs. */
  readonly hasDryRuns: boolean
  /** The extensions that are on. */
  readonly extensions: readonly Extension[]
  /** Whether clients get events. */
  readonly hasEvents: boolean
  /** Whether every call is recorded in the audit log. */
  readonly isRecorded: boolean
  /** Whether the gateway serves `ai_help`. */
  readonly hasHelp: boolean
  /** Whether `ai_help` is listed: models call only listed tools. */
  readonly isHelpListed: boolean
  /** Whether the skill of each server is listed as a resource. */
  readonly isSkillListed: boolean
  /** Whether the other built-in tools are listed, hidden but callable, or off. */
  readonly ownTools: 'listed' | 'hidden' | 'off'
}

/** How callers authenticate. */
interface FrontAuth {
  readonly methods: readonly AuthMethod[]
  /** The claims of a token that are read, in the order of their checks, and what for. */
  readonly claims?: Readonly<Record<string, string>>
  /** Where clients get tokens. */
  readonly issuers?: readonly string[]
  /** The URL where people request more permissions. */
  readonly elevateUrl?: string
  /** The idle timeout of a session with restricted permissions, in seconds; absent if there are none. */
  readonly sessionTtl?: number
}

/** All extensions, by their names in the manifest. */
type Extension =
  | 'progress_notifications'
  | 'idempotency'
  | 'transactions'
  | 'session_state'
  | 'human_in_the_loop'
  | 'data_references'
  | 'subscribe_notify'
  | 'structured_errors'
  | 'provenance'
  | 'intent_hints'
  | 'server_recommendations'
  | 'multimodal_signatures'
  | 'conformance'

/** All authentication methods, by their names in the manifest. */
export type AuthMethod = 'oauth2_code' | 'bearer_token' | 'none'

/** Whether callers must authenticate. */
export function asksForToken({ auth }: Front): boolean {
  return auth.methods.some((method) => method !== 'none')
}

/** A link to an external page. */
export interface DocumentLink {
  readonly label: string
  readonly url: string
}

const labels = {
  cli: 'Command line',
  api: 'API',
  web: 'Web',
  homepage: 'Homepage',
  repository: 'Source',
  documentation: 'Documentation',
  statusPage: 'Status page',
} as const satisfies Record<keyof Links, string>

/** The known links in the given order, without duplicates. */
export function linksIn(links: Links, order: readonly (keyof Links)[]): DocumentLink[] {
  const seen = new Set<string>()
  return order.flatMap((key) => {
    const url = links[key]
    if (url === undefined || url === null || seen.has(url)) return []
    seen.add(url)
    return [{ label: labels[key], url }]
  })
}

/** A section of a document for agents. */
export interface Section {
  readonly key: string
  readonly heading: string
  /** The content, without the heading. */
  readonly markdown: string
  /** The same as data, by key. */
  readonly data: Readonly<Record<string, unknown>>
}

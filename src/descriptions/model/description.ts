/** The description of a server, from which all documents are made. */
import type { Classification, EntryDefinition, ToolStatistics, ToolFacts } from '../../core/descriptor.ts'
import type { Recommendation, ToolWords } from '../../core/settings.ts'

/** What documents say of one server, or of all servers together. Texts are clean, but not yet markdown. */
export interface ServerDescription {
  /** Lower-case letters, digits and hyphens. */
  readonly name: string
  readonly title: string
  /** What it is for, in a sentence. */
  readonly purpose: string
  /** What it is for and when to use it, at most 1024 characters. */
  readonly description: string
  readonly useWhen: readonly string[]
  readonly notFor: readonly string[]
  readonly emoji?: string
  /** Three numbers; where the server's own version is written in another way, `wireVersion` is that. */
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
  readonly recommend: readonly Recommendation[]
  /** The servers it consists of; none where it is one server. */
  readonly parts: readonly ServerDescription[]
  readonly front: Front
}

/** Other ways to the same, and where to read more. */
export interface Links {
  readonly cli: string | null
  readonly api: string | null
  readonly web: string | null
  readonly homepage?: string
  readonly repository?: string
  readonly statusPage?: string
  readonly documentation?: string
}

/** What documents say of a tool. */
export interface ToolDescription {
  /** The name clients call it by, and the same in snake case. */
  readonly name: string
  readonly alias: string
  readonly upstream: string
  /** Its server again, where tools of several servers may have one name. */
  readonly of?: string
  readonly title: string
  /** Its description, and the first sentence of that. */
  readonly description: string
  readonly summary: string
  readonly category: string
  readonly effects: readonly string[]
  readonly isDeprecated: boolean
  /** The scopes a caller needs for it; none where no token is required. */
  readonly scopes: readonly string[]
  /** The tool that undoes it, by the name clients call it by. */
  readonly undoneBy?: string
  readonly definition: EntryDefinition
  readonly classification: Classification
  readonly facts: ToolFacts
  readonly words: ToolWords
  readonly statistics?: ToolStatistics
}

/** What is known of the gateway a document is about, and of how it is reached. Nothing of it is secret. */
export interface Front {
  /**
   * The URL of the MCP endpoint; absent where clients start the gateway and speak over its stdin and stdout, and
   * for all servers together where each has an endpoint of its own alone.
   */
  readonly endpoint?: string
  /** The version of the gateway. */
  readonly version: string
  readonly profile: 'open' | 'corporate'
  readonly auth: FrontAuth
  /** Such as `60/minute`: how often each caller may call. */
  readonly rates: readonly string[]
  /** Other limits, each as a sentence. */
  readonly limits: readonly string[]
  /** The extensions that are on. */
  readonly extensions: readonly Extension[]
  /** Every call is written to the audit log. */
  readonly isRecorded: boolean
  /** The gateway answers `ai_help`. */
  readonly hasHelp: boolean
  /** Lists of tools have `ai_help`: models call no other. */
  readonly isHelpListed: boolean
  /** Lists of resources have the skill of each server. */
  readonly isSkillListed: boolean
  /** How the other tools of the gateway itself are there: in lists of tools, only to be called, or not at all. */
  readonly ownTools: 'listed' | 'hidden' | 'off'
}

/** How callers show who they are. */
interface FrontAuth {
  readonly methods: readonly AuthMethod[]
  /** The claims of a token that are read, with what they are read for. */
  readonly claims?: Readonly<Record<string, string>>
  /** Where clients get tokens. */
  readonly issuers?: readonly string[]
  /** Where people ask for more rights. */
  readonly elevateUrl?: string
  /** For how long a narrowed session lasts unused, in seconds; absent where there are none. */
  readonly sessionTtl?: number
}

/** The extensions there are, by their names in the manifest. */
type Extension =
  | 'idempotency'
  | 'transactions'
  | 'human_in_the_loop'
  | 'structured_errors'
  | 'provenance'
  | 'intent_hints'
  | 'server_recommendations'
  | 'multimodal_signatures'

/** The ways to authenticate there are, by their names in the manifest. */
export type AuthMethod = 'oauth2_code' | 'bearer_token' | 'none'

/** Whether callers have to show who they are. */
export function asksForToken({ auth }: Front): boolean {
  return auth.methods.some((method) => method !== 'none')
}

/** A page elsewhere on the web. */
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

/** The pages that are known, in an order, each once. */
export function linksIn(links: Links, order: readonly (keyof Links)[]): DocumentLink[] {
  const seen = new Set<string>()
  return order.flatMap((key) => {
    const url = links[key]
    if (url === undefined || url === null || seen.has(url)) return []
    seen.add(url)
    return [{ label: labels[key], url }]
  })
}

/** A part of a document for agents. */
export interface Section {
  readonly key: string
  readonly heading: string
  /** Without the heading. */
  readonly markdown: string
  /** The same as data, under its key and those of what belongs to it. */
  readonly data: Readonly<Record<string, unknown>>
}

import type { Classification } from '../core/entry.ts'
import type { Definition, ToolStatistics, ToolFacts } from '../core/record.ts'
import type { Recommendation, ToolWords } from '../core/settings.ts'
import type { Front } from './front.ts'

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
  readonly prompts: readonly Definition[]
  readonly resources: readonly Definition[]
  readonly templates: readonly Definition[]
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
  /** The scopes a caller needs for it; none where nobody is asked for a token. */
  readonly scopes: readonly string[]
  /** The tool that undoes it, by the name clients call it by. */
  readonly undoneBy?: string
  readonly definition: Definition
  readonly classification: Classification
  readonly facts: ToolFacts
  readonly words: ToolWords
  readonly statistics?: ToolStatistics
}

/**
 * What servers list, as the gateway knows it: descriptors with their classification, and the records of
 * servers.
 */
import type { Variation } from './judgement/lexicon.ts'

/** What a server's own list says of a tool. */
export interface ListedDefinition {
  readonly definition: Readonly<Record<string, unknown>>
  /** Set where the server does not list its tools, so that nothing but the name is known. */
  readonly isUnlisted?: true
}

/** What the gateway knows of a tool, prompt or resource of a server: its own list, and what follows from it. */
export interface Descriptor {
  readonly upstream: string
  readonly kind: 'tool' | 'prompt' | 'resource'
  /** Tool or prompt name, or resource URI, as the server knows it. */
  readonly name: string
  /** The entry of the server's list, as the server wrote it. */
  readonly definition: Readonly<Record<string, unknown>>
  readonly classification: Classification
  /** Set where it is the gateway's own. */
  readonly isBuiltin?: true
  /** Set where its server does not list its tools: its definition is the name alone. */
  readonly isUnlisted?: true
}

/** What kind of action something is, and how that was found out. */
export interface Classification {
  readonly op: Operation
  readonly risk: Risk
  /** Doing it twice is the same as doing it once. */
  readonly idempotent: boolean
  /** Why, in the order it was considered; for people. */
  readonly evidence: readonly string[]
  /** The verb that decided, where one did. */
  readonly verb?: string
  /** How arguments of a call decide what it does; what stands above is the worst of it. */
  readonly varies?: Variation
}

/** `execute` runs what the caller writes, so it can do anything. */
export type Operation = 'read' | 'write' | 'delete' | 'admin' | 'execute'
export type Risk = 'safe' | 'reversible' | 'destructive'

/** How much can go wrong, for comparing. */
export const riskRanks: Readonly<Record<Risk, number>> = { safe: 0, reversible: 1, destructive: 2 }

/** The word people read for each risk. Whether a call can be undone is shown separately. */
export const riskWords: Readonly<Record<Risk, string>> = {
  safe: 'safe',
  reversible: 'write',
  destructive: 'destructive',
}

/** An entry of a list, as a server wrote it. */
export type EntryDefinition = Readonly<Record<string, unknown>>

/** What is known of each server. */
export interface ServerRecords {
  readonly names: readonly string[]
  /** What is known of a server: at once, once it was listed; a server that never answered has no entries. */
  of(upstream: string): ServerRecord | Promise<ServerRecord>
  /** What was known of a server last, without asking it; nothing before it was listed. */
  last(upstream: string): ServerRecord | undefined
  /** Lists a server anew, though it was listed a moment ago: it says that something changed. */
  renew(upstream: string): void
  /** Hears of a server whose lists, or what it says of itself, changed. */
  onChange(listener: (upstream: string) => void): void
}

/** What is known of one server: what its own words, its traffic and its owner say. Every document is made of it. */
export interface ServerRecord {
  /** Its name in the configuration. */
  readonly name: string
  /** Whether it can be reached just now; what it listed last is known even if not. */
  readonly isUp: boolean
  /** What it says of itself: `name`, `title`, `version`, `description`, `websiteUrl`. */
  readonly info: EntryDefinition
  readonly instructions?: string
  /** Its own capabilities. */
  readonly capabilities: EntryDefinition
  /** What its owner wrote. */
  readonly about: About
  readonly tools: readonly ToolDetails[]
  readonly prompts: readonly EntryDefinition[]
  readonly resources: readonly EntryDefinition[]
  readonly resourceTemplates: readonly EntryDefinition[]
  /** A hash of everything it lists. */
  readonly contentVersion: string
  /** When what it lists changed last, in milliseconds since 1970; absent where no change was seen. */
  readonly changedAt?: number
}

/** What is known of one tool. */
export interface ToolDetails {
  readonly entry: Descriptor
  /** Its name in snake case, which can be called too. */
  readonly alias: string
  /** What the gateway does about it, told by the features that do it. */
  readonly facts: ToolFacts
  /** What was seen of its calls; absent before the first. */
  readonly statistics?: ToolStatistics
}

/** What features say of a tool. Unknown facts are absent, never invented. */
export interface ToolFacts {
  /** A person is asked before it runs. */
  readonly confirmation?: { readonly message: string; readonly isOutOfBand: boolean }
  /** How it is undone: the tool that does it, and whether everything is as before then. */
  readonly undo?: { readonly tool?: string; readonly isExact: boolean; readonly description: string }
  /** The scopes a caller needs: of each group one. */
  readonly scopes?: readonly (readonly string[])[]
  /** A retry with the same idempotency key does nothing twice. */
  readonly isIdempotentWithKey?: boolean
  /** Such as `10/minute`. */
  readonly rates?: readonly string[]
  /** The largest request, in bytes. */
  readonly maxInput?: number
  /** How long a call may be silent, in milliseconds. */
  readonly timeout?: number
  readonly cost?: Cost
  readonly inputTypes?: readonly string[]
  readonly outputTypes?: readonly string[]
}

/** What a call costs, as its owner says. */
export interface Cost {
  readonly category: 'free' | 'metered' | 'requires_approval'
  readonly units?: number
  readonly label?: string
}

/** What is left to call, and until when, in milliseconds since 1970. */
export interface Quota {
  readonly remaining: number
  readonly resetsAt?: number
}

/** What is left, and of what: the budget of a caller, a limit of the gateway, or the limit of the server itself. */
export interface RemainingQuota extends Quota {
  readonly of: 'budget' | 'limit' | 'server'
}

/** What was seen of the calls of a tool by this process. */
export interface ToolStatistics {
  /** Half of the last calls took no longer, in milliseconds; absent before the fifth. */
  readonly p50?: number
  /** Media types of what came back. */
  readonly types: readonly string[]
  /** Whether a result named a next page. */
  readonly hasCursor: boolean
}

/** What the owner of a server writes about it; every key can be left out. */
export interface About {
  readonly about?: string
  readonly useWhen?: readonly string[]
  readonly notFor?: readonly string[]
  readonly emoji?: string
  readonly access?: 'read' | 'interact' | 'full'
  /** URLs of other ways to the same thing. */
  readonly cli?: string
  readonly api?: string
  readonly web?: string
  readonly install?: Readonly<Record<string, string>>
  readonly requires?: {
    readonly auth?: readonly string[]
    readonly env?: readonly string[]
    readonly scopes?: readonly string[]
  }
  readonly homepage?: string
  readonly repository?: string
  readonly statusPage?: string
  readonly documentation?: string
}

/** What servers list, as the gateway knows it: descriptors with their classification, and the records of servers. */
import type { Variation } from './judgement/evidence.ts'
import type { ProvedTool } from './proof.ts'

/** A tool, prompt or resource of a server: its list entry and the derived classification. */
export interface Descriptor {
  readonly upstream: string
  readonly kind: 'tool' | 'prompt' | 'resource'
  /** Tool or prompt name, or resource URI, as the server knows it. */
  readonly name: string
  /** The entry of the server's list, unmodified. */
  readonly definition: Readonly<Record<string, unknown>>
  readonly classification: Classification
  /** What a pack has proved about exactly this definition. */
  readonly proved?: ProvedTool
  /** Set for the gateway's own tools, prompts and resources. */
  readonly isBuiltin?: true
  /** Set if its server does not list its tools: the definition contains only the name. */
  readonly isUnlisted?: true
}

/** The kind of action, and the evidence for it. */
export interface Classification {
  readonly op: Operation
  readonly risk: Risk
  /** Whether a repeated call has no further effect. */
  readonly idempotent: boolean
  /** The evidence in the order it was considered, for people. */
  readonly evidence: readonly string[]
  /** The decisive verb, if any. */
  readonly verb?: string
  /** How the arguments of a call decide its effect; the fields above describe the worst case. */
  readonly varies?: Variation
}

/** `execute` runs what the caller writes, so its effect is unbounded. */
export type Operation = 'read' | 'write' | 'delete' | 'admin' | 'execute'
export type Risk = 'safe' | 'reversible' | 'destructive'

/** Ranks of risks, for comparison. */
export const riskRanks: Readonly<Record<Risk, number>> = { safe: 0, reversible: 1, destructive: 2 }

/** The displayed word for each risk. Whether a call can be undone is displayed separately. */
export const riskWords: Readonly<Record<Risk, string>> = {
  safe: 'safe',
  reversible: 'write',
  destructive: 'destructive',
}

/** An entry of a server's list, unmodified. */
export type EntryDefinition = Readonly<Record<string, unknown>>

/** The records of all servers. */
export interface ServerRecords {
  readonly names: readonly string[]
  /** The record of a server, immediately if it was listed before; a server that never answered has no entries. */
  of(upstream: string): ServerRecord | Promise<ServerRecord>
  /** The last known record of a server, without a request to it; undefined before it was first listed. */
  last(upstream: string): ServerRecord | undefined
  /** Lists a server again, even if it was listed a moment ago, because it reported a change. */
  renew(upstream: string): void
  /** Registers a listener for changes of a server's lists or of its description of itself. */
  onChange(listener: (upstream: string) => void): void
}

/**
 * What is known of one server from its own declarations, its traffic and its owner. Every document is generated from
 * it.
 */
export interface ServerRecord {
  /** Its name in the configuration. */
  readonly name: string
  /** Whether it is reachable now; its last list is known even if it is not. */
  readonly isUp: boolean
  /** Its declared `name`, `title`, `version`, `description` and `websiteUrl`. */
  readonly info: EntryDefinition
  readonly instructions?: string
  /** Its own capabilities. */
  readonly capabilities: EntryDefinition
  /** The owner's texts. */
  readonly about: About
  readonly tools: readonly ToolDetails[]
  readonly prompts: readonly EntryDefinition[]
  readonly resources: readonly EntryDefinition[]
  readonly resourceTemplates: readonly EntryDefinition[]
  /** A hash of everything it lists. */
  readonly contentVersion: string
  /** When its lists last changed, in milliseconds since 1970; absent if no change was observed. */
  readonly changedAt?: number
}

/** A tool with everything that is derived from it. */
export interface ToolDetails {
  readonly entry: Descriptor
  /** Its name in snake case, which is callable too. */
  readonly alias: string
  /** How the gateway treats it, as reported by its features. */
  readonly facts: ToolFacts
  /** Observed statistics of its calls; absent before the first call. */
  readonly statistics?: ToolStatistics
}

/** Facts that features report about a tool. Unknown facts are absent. */
export interface ToolFacts {
  /** A person has to confirm before it runs. */
  readonly confirmation?: {
    readonly message: string
    readonly isOutOfBand: boolean
    /** Only calls are confirmed that cannot be undone exactly. */
    readonly isSkippedIfUndoable?: true
  }
  /** How it is undone: by which tool, and whether the undo is exact. */
  readonly undo?: { readonly tool?: string; readonly isExact: boolean; readonly description: string }
  /** The scopes a caller needs: one of each group. */
  readonly scopes?: readonly (readonly string[])[]
  /** The type of events that a success is, as it is named at the address of the server. */
  readonly event?: string
  /** Whether a retry with the same idempotency key has no further effect. */
  readonly isIdempotentWithKey?: boolean
  /** Such as `10/minute`. */
  readonly rates?: readonly string[]
  /** The largest input that fits into a call: what bytes of it are before they are base64, in bytes. */
  readonly maxInput?: number
  /** Where files for its arguments can be sent as a form, and the largest, in bytes: a call then has the reference. */
  readonly upload?: { readonly url: string; readonly max: number }
  /** The longest time without a message from the server during a call, in milliseconds. */
  readonly timeout?: number
  readonly longCalls?: LongCalls
  /** It has an argument that selects a page, so that its pages can be collected with one call, if it has pages. */
  readonly isCollectable?: true
  /** Which calls that write are dry runs: those that request it, or, on a server that is a sandbox, all. */
  readonly dryRuns?: 'on_request' | 'always'
  readonly cost?: Cost
  readonly inputTypes?: readonly string[]
  readonly outputTypes?: readonly string[]
  /** Whether its media types are also members of its list entry: for clients that ask, or for all. */
  readonly mediaPlace?: 'asked' | 'always'
}

/** What becomes of a call that takes long, in milliseconds. */
export interface LongCalls {
  /** How long a call runs before a client that supports tasks gets a task; 0: at once. */
  readonly taskAfter: number
  /** How long its outcome is kept for `operation/resume`. */
  readonly keep: number
  /** How long clients without tasks wait for the outcome; absent: until it is there. */
  readonly answerWithin?: number
}

/** What a call costs, as declared by the owner. */
export interface Cost {
  readonly category: 'free' | 'metered' | 'requires_approval'
  readonly units?: number
  readonly label?: string
}

/** The number of calls left and when the quota resets, in milliseconds since 1970. */
export interface Quota {
  readonly remaining: number
  readonly resetsAt?: number
}

/**
 * What is left, and of which quota: the budget of a caller, a limit of the gateway, or the limit of the server itself.
 */
export interface RemainingQuota extends Quota {
  readonly of: 'budget' | 'limit' | 'server'
}

/** Observed statistics of a tool's calls in this process. */
export interface ToolStatistics {
  /** The median duration of the last calls, in milliseconds; absent before the fifth call. */
  readonly p50?: number
  /** Media types of the results. */
  readonly types: readonly string[]
  /** Whether a result said something about further pages. */
  readonly hasCursor: boolean
}

/** The owner's description of a server; every key is optional. */
export interface About {
  readonly about?: string
  readonly useWhen?: readonly string[]
  readonly notFor?: readonly string[]
  readonly emoji?: string
  readonly access?: 'read' | 'interact' | 'full'
  /** URLs of other interfaces to the same service. */
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

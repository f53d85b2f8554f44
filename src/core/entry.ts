import type { Variation } from './judgement/judge.ts'

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

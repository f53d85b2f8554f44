/** What calls of a real server have proved about a tool. */
import type { UndoSettings } from './undo/expression.ts'

/** Settings of a tool, in the form of the configuration. */
export interface ProvedSettings {
  readonly undo?: string | UndoSettings
  readonly verify?: string
  readonly idempotent?: boolean
  /** No undo is known that works. */
  readonly pivot?: boolean
}

/** What calls of a real server have proved about a tool. */
export interface ProvedTool {
  readonly settings: ProvedSettings
  readonly proof: Proof
  /** The hashes of the definitions of the tools that the settings call. */
  readonly uses: Readonly<Record<string, readonly string[]>>
}

/** What can be proved about a tool. */
export const claims = ['undo', 'once', 'verify', 'idempotent'] as const
export type Claim = (typeof claims)[number]

/** A proof by calls of a real server. */
export interface Proof {
  /** As in ISO 8601: `2026-11-26`. */
  readonly date: string
  /** The name and version that the server gave. */
  readonly server: string
  readonly version: string
  /** The version of the gateway that made the calls. */
  readonly gatehouse: string
  readonly proved: readonly Claim[]
  /** What turned out to be wrong. Its settings are not in the pack. */
  readonly refuted: readonly Claim[]
  /** What the proof did not try, for people: doubts from the names and schemas of the tools. */
  readonly caveats?: readonly string[]
}

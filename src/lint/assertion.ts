import type { Subject } from './subject.ts'

/** How much a rule binds: `forbidden` must not be, `may` is a choice. */
export type Level = 'must' | 'should' | 'forbidden' | 'may'

/** How a server stands to a rule; `repaired` where only the gateway in front of it keeps the rule. */
export type Status = 'pass' | 'repaired' | 'fail' | 'not applicable'

/** What was found, with the tools, prompts or resources it was found at. */
export interface Verdict {
  readonly status: Status
  readonly evidence: readonly string[]
  /** Nothing but the owner of the server can say whether the rule is kept. */
  readonly isOwners?: true
}

/** One rule a server is audited against. */
export interface Assertion {
  /** Its number: `C` and three digits. */
  readonly id: string
  readonly level: Level
  readonly text: string
  /** What to do where it is broken. */
  readonly fix?: string
  check(subject: Subject): Verdict
}

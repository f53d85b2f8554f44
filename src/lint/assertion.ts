/** The contract of an assertion, and help to word its verdict. */
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

/** The rule is kept. */
export function pass(...evidence: string[]): Verdict {
  return { status: 'pass', evidence }
}

/** The rule is broken, and nothing repairs it. */
export function fail(...evidence: string[]): Verdict {
  return { status: 'fail', evidence }
}

/** The gateway keeps the rule, whatever the server does. */
export function repaired(...evidence: string[]): Verdict {
  return { status: 'repaired', evidence }
}

/** The rule is about something this server does not have, or that cannot be seen from here. */
export function notApplicable(...evidence: string[]): Verdict {
  return { status: 'not applicable', evidence }
}

/** Only the owner of the server knows. */
export function ownersToSay(what: string): Verdict {
  return { status: 'not applicable', evidence: [`only its owner can say: ${what}`], isOwners: true }
}

/** Broken where there are problems, else kept. */
export function unless(problems: readonly string[], otherwise: string): Verdict {
  return problems.length > 0 ? fail(...problems) : pass(otherwise)
}

/** A rule about each of several things: `none` says why there is nothing to look at. */
export function each<Item>(
  items: readonly Item[],
  none: string,
  problemsOf: (item: Item) => readonly string[],
): Verdict {
  if (items.length === 0) return notApplicable(none)
  return unless(items.flatMap(problemsOf), `${items.length} looked at`)
}

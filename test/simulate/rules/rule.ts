/** The contract of the rules that hold in every simulation. */
import type { FaultRates } from '../faults.ts'
import type { Entry } from '../history.ts'

/** What a rule sees at the end, when all failures are over and all clients are done. */
export interface FinalState {
  /** The ids of the things that an operation made at a server and that are still there. */
  thingsOf(server: string, order: string): readonly string[]
}

/** One rule. It is given the history entry by entry, and answers with what contradicts it. */
export interface Rule {
  readonly name: string
  observe(entry: Entry): string | undefined
  finish?(state: FinalState): string | undefined
}

/** What a rule knows besides the history. */
interface Facts {
  /** When an answer of the store did not reach a process last, in milliseconds; undefined if each did. */
  missedAt(process: number): number | undefined
}

/** A rule of one simulation. */
export type CreateRule = (rates: FaultRates, facts: Facts) => Rule

/** A key belongs to one caller and one server. */
export function keyOf({
  principal,
  server,
  key,
}: {
  readonly principal: string
  readonly server: string
  readonly key: string
}): string {
  return `${principal} ${server} ${key}`
}

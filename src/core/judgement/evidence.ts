/**
 * What one observation says of a tool. Evidence is ranked by the worst effect it stands for; the judgement of a tool
 * is its worst evidence that reassurance does not answer.
 */

/** What a tool does, from harmless to worst. `execute` runs what the caller writes. */
export type Effect = 'read' | 'write' | 'destructive' | 'execute'

/** One observation and what follows from it. */
export interface Evidence {
  readonly effect: Effect
  /** For people: a short clause, as in `its name says "delete"`. */
  readonly text: string
  /** Its server may take it back with `destructiveHint: false`, where the server is trusted. */
  readonly isSoft?: true
  /** It concerns calls that use this argument so, and no others. */
  readonly when?: Condition
  /** The verb it rests on, where it rests on one. */
  readonly verb?: string
  /** It stands in the tool's name, which nothing talks away. */
  readonly isName?: true
}

/** How a call has to use an argument for evidence to concern it. */
export interface Condition {
  /** The argument, as a path where it stands inside another one: `params.force`. */
  readonly argument: string
  readonly path: readonly string[]
  /** `given`: it is there and not false, null or empty; `value`: it is exactly this; `stores`: a pipeline that writes. */
  readonly is: 'given' | 'value' | 'stores'
  readonly value?: unknown
}

/** How bad effects are, for comparing. */
export const effectRanks: Readonly<Record<Effect, number>> = { read: 0, write: 1, destructive: 2, execute: 3 }

/** The worse of two effects. */
export function worse(one: Effect, other: Effect): Effect {
  return effectRanks[one] >= effectRanks[other] ? one : other
}

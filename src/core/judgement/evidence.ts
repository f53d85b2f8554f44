/**
 * Evidence: one observation about a tool. Evidence is ranked by its worst effect; a tool is judged by its worst evidence
 * that nothing overrides. Evidence of an argument applies to the calls that use the argument in that way.
 */

/** Effects, from harmless to worst. `execute` runs what the caller writes. */
export type Effect = 'read' | 'write' | 'destructive' | 'execute'

/** How arguments decide the effect of a call. */
export interface Variation {
  /** The effect of a call that uses no argument named in `conditions`, without that of `choice`. */
  readonly baseEffect: Effect
  /** Uses of arguments that make a call worse than `baseEffect`. */
  readonly conditions: readonly (Evidence & { readonly when: Condition })[]
  /** The argument that selects what a call does. */
  readonly choice?: Choice
  /** A call with `true` at this path of its arguments changes nothing. */
  readonly dryRun?: readonly string[]
}

/** One observation and its consequence. */
export interface Evidence {
  readonly effect: Effect
  /** For people: a short clause, as in `its name says "delete"`. */
  readonly text: string
  /** A trusted server may override it with `destructiveHint: false`. */
  readonly isSoft?: true
  /** It applies only to calls that use this argument in this way. */
  readonly when?: Condition
  /** The verb it is based on, if any. */
  readonly verb?: string
  /** It says nothing of a tool that otherwise reads, whose description has such words too. */
  readonly isOfActs?: true
  /** It is based on the tool's name, which annotations do not override. */
  readonly isName?: true
}

/** How a call has to use an argument for evidence to apply. */
export interface Condition {
  /** The argument, as a path if it is nested: `params.force`. */
  readonly argument: string
  /** The members that lead to it; `*` stands for all items of an array. */
  readonly path: readonly string[]
  /**
   * `given`: it is present and not false, null or empty; `value`: it has a value that is not in `harmless`; `stores`: a
   * pipeline that writes.
   */
  readonly is: 'given' | 'value' | 'stores'
  /** In lower case. */
  readonly harmless?: readonly string[]
  /** The value that the schema declares for calls without the argument. */
  readonly fallback?: unknown
}

/** An argument whose value selects what a call does, such as `action: list`. */
export interface Choice {
  readonly argument: string
  /** The members that lead to it; `*` stands for all items of an array. */
  readonly path: readonly string[]
  /** The effect of each known value, which is in lower case. */
  readonly effects: Readonly<Record<string, Effect>>
  /** The effect of every other value. */
  readonly otherwise: Effect
  /** The effect of a call without the argument. */
  readonly missing: Effect
  /** Its schema requires it. */
  readonly isRequired?: true
}

/** Ranks of effects, for comparison. */
export const effectRanks: Readonly<Record<Effect, number>> = { read: 0, write: 1, destructive: 2, execute: 3 }

/** The worse of two effects. */
export function worse(one: Effect, other: Effect): Effect {
  return effectRanks[one] >= effectRanks[other] ? one : other
}

/** The worst of several effects; `read` of none. */
export function worst(effects: readonly Effect[]): Effect {
  return effects.reduce<Effect>(worse, 'read')
}

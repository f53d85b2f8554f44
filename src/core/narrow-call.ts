/**
 * Keeps a call that undoes another one as narrow as its tool allows: switches that hit more are given as `false`,
 * and each argument that is left out and may choose what is hit is named.
 */
import type { Expression } from './expression.ts'
import type { Source } from './filling.ts'
import { isAside, isTrial, isWidening } from './selectors.ts'
import type { Field, ToolShape } from './tool-shape.ts'

/** Whether an argument is a switch that widens what is hit, or makes a call a trial. */
export function isNarrowed(field: Field): boolean {
  return isWidening(field) || isTrial(field)
}

/** Gives such switches as `false`. */
export const narrowed: Source = (wanted) =>
  isNarrowed(wanted) ? { value: { kind: 'literal', value: false } } : undefined

/** Gives what would make a call a trial as `false`: there it is content that other switches may be. */
export const isForReal: Source = (wanted) =>
  isTrial(wanted) ? { value: { kind: 'literal', value: false } } : undefined

/** The doubts about arguments a call leaves out: what they are by default may hit other things. */
export function leftOpen({ name, inputs = [] }: ToolShape, { arguments: given }: Expression): string[] {
  return inputs
    .filter((field) => !given.has(field.name) && !isAside(field))
    .map((field) => `${name} is called without ${field.name}, which may change what it hits`)
}

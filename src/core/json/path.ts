/** Paths into JSON values, such as `$.result.items[0].id`. */
import { isObject } from './json.ts'

/** The possible roots of a path. */
export type Root = 'args' | 'result' | 'snapshot'

/** A path into the values of a call. */
export interface Path {
  readonly root: Root
  readonly steps: readonly Step[]
}

/** The values of a call: its arguments, its result, and what was read before it. */
export interface Scope {
  readonly args: Readonly<Record<string, unknown>>
  readonly result?: unknown
  readonly snapshot?: unknown
}

/** The value at a path; undefined if it does not exist, or is missing for one of several elements. */
export function find({ root, steps }: Path, scope: Scope): unknown {
  return follow(scope[root], steps)
}

/** A path as text. */
export function printPath({ root, steps }: Path): string {
  const step = (item: Step): string => {
    if (item === null) return '[*]'
    if (typeof item === 'number') return `[${item}]`
    return isStepName(item) ? `.${item}` : `[${JSON.stringify(item)}]`
  }
  return `$.${root}${steps.map(step).join('')}`
}

/** The value that steps lead to; undefined if it does not exist. */
export function follow(from: unknown, steps: readonly Step[]): unknown {
  let at = from
  for (const [index, step] of steps.entries()) {
    if (step === null) return followEach(at, steps.slice(index + 1))
    at = memberOf(at, step)
  }
  return at
}

function followEach(list: unknown, steps: readonly Step[]): unknown {
  if (!Array.isArray(list)) return undefined
  const found = list.map((element) => follow(element, steps))
  return found.includes(undefined) ? undefined : found
}

function memberOf(value: unknown, step: string | number): unknown {
  if (typeof step === 'number') return Array.isArray(value) ? value[step] : undefined
  return isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined
}

/** Whether a name can follow a dot in a path. */
function isStepName(text: string): boolean {
  return /^[\p{L}\p{N}_-]+$/u.test(text)
}

/** One step into a JSON value: a member by name, an element by index, or (`null`) each of them. */
export type Step = string | number | null

/** The maximum number of steps of a path. */
const MAX_STEPS = 64

/** Parses a path such as `$.items[*].email` or `$.rows[0]`; undefined if it is not a valid path. */
export function parseSteps(text: string): readonly Step[] | undefined {
  if (!/^\$(?:\.[^.[\]]+|\[(?:\d{1,9}|\*)\])*$/.test(text)) return undefined
  const steps = [...text.matchAll(/\.([^.[\]]+)|\[(\d+|\*)\]/g)].map(([, name, index]) => {
    if ((name ?? index) === '*') return null
    return name ?? Number(index)
  })
  return steps.length > MAX_STEPS ? undefined : steps
}

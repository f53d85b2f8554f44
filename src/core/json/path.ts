/** Paths into JSON values, as `$.result.items[0].id`. */
import { isObject } from './json.ts'

/** What paths of an expression begin with. */
export type Root = 'args' | 'result' | 'snapshot'

/** A way into what is known. */
export interface Path {
  readonly root: Root
  readonly steps: readonly Step[]
}

/** What is known of a call: its arguments, what it gave, and what was read before it. */
export interface Scope {
  readonly args: Readonly<Record<string, unknown>>
  readonly result?: unknown
  readonly snapshot?: unknown
}

/** What is at the end of a path; nothing where it leads nowhere, be it for one of several elements. */
export function find({ root, steps }: Path, scope: Scope): unknown {
  return follow(scope[root], steps)
}

/** A path as text. */
export function printPath({ root, steps }: Path): string {
  const step = (each: Step): string => {
    if (each === null) return '[*]'
    if (typeof each === 'number') return `[${each}]`
    return isStepName(each) ? `.${each}` : `[${JSON.stringify(each)}]`
  }
  return `$.${root}${steps.map(step).join('')}`
}

function follow(from: unknown, steps: readonly Step[]): unknown {
  let at = from
  for (const [index, step] of steps.entries()) {
    if (step === null) return each(at, steps.slice(index + 1))
    at = memberOf(at, step)
  }
  return at
}

function each(list: unknown, steps: readonly Step[]): unknown {
  if (!Array.isArray(list)) return undefined
  const found = list.map((element) => follow(element, steps))
  return found.includes(undefined) ? undefined : found
}

function memberOf(value: unknown, step: string | number): unknown {
  if (typeof step === 'number') return Array.isArray(value) ? value[step] : undefined
  return isObject(value) && Object.hasOwn(value, step) ? value[step] : undefined
}

/** Whether a name can stand behind a dot of a path. */
function isStepName(text: string): boolean {
  return /^[\p{L}\p{N}_-]+$/u.test(text)
}

/** One step into a JSON value: a member by name, an element by index, or (`null`) each of them. */
export type Step = string | number | null

/** How many steps a path may have. */
const MAX_STEPS = 64

/** Reads a path such as `$.items[*].email` or `$.rows[0]`; nothing where it is none. */
export function parseSteps(text: string): readonly Step[] | undefined {
  if (!/^\$(?:\.[^.[\]]+|\[(?:\d{1,9}|\*)\])*$/.test(text)) return undefined
  const steps = [...text.matchAll(/\.([^.[\]]+)|\[(\d+|\*)\]/g)].map(([, name, index]) => {
    if ((name ?? index) === '*') return null
    return name ?? Number(index)
  })
  return steps.length > MAX_STEPS ? undefined : steps
}

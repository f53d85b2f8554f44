import { isObject } from './json.ts'
import type { Step } from './json-path.ts'

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

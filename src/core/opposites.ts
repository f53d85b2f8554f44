import { readingOf } from './readings.ts'
import type { ToolNameIndex } from './tool-index.ts'
import type { ToolShape } from './tool-shape.ts'

/** A tool that by its name does the opposite of another one. */
export interface Antonym {
  readonly tool: ToolShape
  /** The verbs of both. */
  readonly verb: string
  readonly opposite: string
  /** What both are about. */
  readonly nouns: readonly string[]
  /** What is made or changed: of a label that is added to an issue, the label. */
  readonly thing: string | undefined
  /** The first one makes something, takes something away, or switches something over. */
  readonly kind: 'makes' | 'unmakes' | 'switches'
}

/** The tools that by their names do the opposite of one, the likeliest first. */
export function antonymsOf(tool: ToolShape, index: ToolNameIndex): Antonym[] {
  return readingOf(tool.words).flatMap(({ verb, nouns, thing }) =>
    oppositesOf(verb).flatMap(({ opposite, kind }) =>
      index
        .said([opposite], nouns)
        .filter((other) => other.isRead !== true && other.name !== tool.name)
        .map((other) => ({ tool: other, verb, opposite, nouns, thing, kind })),
    ),
  )
}

function oppositesOf(verb: string): { readonly opposite: string; readonly kind: Antonym['kind'] }[] {
  const made = makerVerbs.get(verb) ?? []
  const switched = switches.flatMap(([one, other]) => (one === verb ? other : other === verb ? one : []))
  const negated = verb.startsWith('un') ? [verb.slice(2)] : [`un${verb}`]
  const back = backs.get(verb) ?? []
  const makes = [...makerVerbs].flatMap(([maker, enders]) => (enders.includes(verb) ? [maker] : []))
  return [
    ...made.map((opposite) => ({ opposite, kind: 'makes' as const })),
    ...[...new Set([...switched, ...negated, ...back])].map((opposite) => ({
      opposite,
      kind: 'switches' as const,
    })),
    ...makes.map((opposite) => ({ opposite, kind: 'unmakes' as const })),
  ]
}

const makerVerbs: ReadonlyMap<string, readonly string[]> = new Map([
  ['create', ['delete', 'remove', 'destroy']],
  ['add', ['remove', 'delete']],
  ['insert', ['delete', 'remove']],
  ['upload', ['delete', 'remove']],
  ['register', ['unregister', 'deregister', 'delete', 'remove']],
  ['make', ['delete', 'remove']],
])

const switches: readonly (readonly [string, string])[] = [
  ['start', 'stop'],
  ['open', 'close'],
  ['reopen', 'close'],
  ['enable', 'disable'],
  ['activate', 'deactivate'],
  ['archive', 'restore'],
  ['grant', 'revoke'],
  ['attach', 'detach'],
  ['connect', 'disconnect'],
  ['join', 'leave'],
  ['pause', 'resume'],
  ['suspend', 'resume'],
]

/** What takes back what others took away, and is not itself undone by them. */
const backs: ReadonlyMap<string, readonly string[]> = new Map([
  ['delete', ['restore', 'undelete', 'recover']],
  ['remove', ['restore']],
  ['trash', ['restore', 'untrash']],
])

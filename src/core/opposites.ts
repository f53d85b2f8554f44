import type { ToolShape } from './tool-shape.ts'
import { areSameNouns } from './words.ts'

/** A tool that by its name does the opposite of another one. */
export interface Counterpart {
  readonly tool: ToolShape
  /** The verbs of both. */
  readonly verb: string
  readonly opposite: string
  /** What both are about. */
  readonly nouns: readonly string[]
  /** The first one makes something, takes something away, or switches something over. */
  readonly kind: 'makes' | 'unmakes' | 'switches'
}

/** The tools that by their names do the opposite of one, the likeliest first. */
export function counterparts(tool: ToolShape, others: readonly ToolShape[]): Counterpart[] {
  return saidBy(tool.words).flatMap(({ verb, nouns }) =>
    oppositesOf(verb).flatMap(({ opposite, kind }) =>
      others
        .filter((other) => other.isRead !== true && isSaid(other.words, opposite, nouns))
        .map((other) => ({ tool: other, verb, opposite, nouns, kind })),
    ),
  )
}

/** Each way to read a name as a verb and nouns. */
export function saidBy(
  words: readonly string[],
): { readonly verb: string; readonly nouns: readonly string[] }[] {
  const all = meaning(words)
  return all.map((verb, at) => ({ verb, nouns: all.toSpliced(at, 1) }))
}

/** Whether a name can be read as this verb with these nouns. */
export function isSaid(words: readonly string[], verb: string, nouns: readonly string[]): boolean {
  return saidBy(words).some((each) => each.verb === verb && areSameNouns(each.nouns, nouns))
}

function oppositesOf(verb: string): { readonly opposite: string; readonly kind: Counterpart['kind'] }[] {
  const made = makers.get(verb) ?? []
  const switched = switches.flatMap(([one, other]) => (one === verb ? other : other === verb ? one : []))
  const negated = verb.startsWith('un') ? [verb.slice(2)] : [`un${verb}`]
  const back = backs.get(verb) ?? []
  const makes = [...makers].flatMap(([maker, enders]) => (enders.includes(verb) ? [maker] : []))
  return [
    ...made.map((opposite) => ({ opposite, kind: 'makes' as const })),
    ...[...new Set([...switched, ...negated, ...back])].map((opposite) => ({
      opposite,
      kind: 'switches' as const,
    })),
    ...makes.map((opposite) => ({ opposite, kind: 'unmakes' as const })),
  ]
}

const makers: ReadonlyMap<string, readonly string[]> = new Map([
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

const little = new Set('a an the to from in into on onto of for at with out'.split(' '))

function meaning(words: readonly string[]): readonly string[] {
  const found = words.filter((word) => !little.has(word))
  return found.length === 0 ? words : found
}

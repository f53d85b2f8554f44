/**
 * Maps the arguments, the result and the snapshot of a call to the arguments of the call that undoes it. Invariant: a
 * value that the schemas do not guarantee has a caveat, and so has the call that uses it.
 */
import type { Expression, Value } from './expression.ts'
import type { Step, Root } from '../json/path.ts'
import { couldBe, couldList, type Field, fieldsOf, isTyped, type ToolShape } from './tool-shape.ts'
import { areSameNouns, isSameNoun } from '../text/words.ts'

/** A possible value of an argument. */
export interface MappedArgument {
  readonly value: Value
  /** For people. */
  readonly why?: string
  /** Why it may be absent or wrong; absent if the schemas guarantee it. */
  readonly caveat?: string
}

/** Looks for the value of an argument. */
export type ArgumentSource = (wanted: Field) => MappedArgument | undefined

/** A call with all arguments, or the missing argument. */
interface ArgumentMapping {
  readonly call?: Expression
  readonly missing?: Field
  readonly why: readonly string[]
  readonly caveats: readonly string[]
}

/**
 * Maps the arguments of a call: the required ones, and those that are `useful`. Undefined if the tool does not declare
 * its arguments.
 */
export function mapArguments(
  tool: ToolShape,
  sources: readonly ArgumentSource[],
  useful: (field: Field) => boolean,
): ArgumentMapping | undefined {
  if (!tool.inputs) return undefined
  const found = new Map<string, MappedArgument>()
  for (const field of tool.inputs.filter((input) => input.isRequired || useful(input))) {
    const filled = firstOf(sources, field)
    if (filled) found.set(field.name, filled)
    else if (field.isRequired) return { missing: field, why: [], caveats: [] }
  }
  const filled = [...found.values()]
  const given = new Map([...found].map(([name, { value }]) => [name, value]))
  return {
    call: { tool: tool.name, arguments: given },
    why: filled.flatMap(({ why }) => why ?? []),
    caveats: filled.flatMap(({ caveat }) => caveat ?? []),
  }
}

/** Maps fields of the same name: of the arguments, of the result, or of the snapshot. */
export function fromFields(
  root: Root,
  fields: readonly Field[],
  { noun, origin }: { readonly noun: string | undefined; readonly origin: string },
): ArgumentSource {
  return (wanted) => {
    const found = fields.find(({ name }) => name === wanted.name) ?? similarField(wanted, fields, noun)
    if (!found) return undefined
    const isList = couldList(found.schema, wanted.schema)
    if (!isList && !couldBe(found.schema, wanted.schema)) return undefined
    return {
      value: pathValue(root, [found.name], isList),
      why: `${wanted.name} comes from ${found.name} of the ${origin}`,
      ...caveatOf(`${found.name} of the ${origin}`, [found]),
    }
  }
}

/** Maps a member of each element of a list: the names of entities for `entityNames`. */
export function fromMembers(root: Root, fields: readonly Field[], origin: string): ArgumentSource {
  return (wanted) => {
    const [member = '', ...about] = wanted.words.toReversed()
    for (const list of fields) {
      const isAboutList = about.length === 0 || areSameNouns(about.toReversed(), list.words)
      const members = isAboutList && list.schema.type === 'array' ? fieldsOf(list.schema.items) : undefined
      const found = members?.find(({ words }) => words.length === 1 && isSameNoun(words[0] ?? '', member))
      if (!found || !couldList(found.schema, wanted.schema)) continue
      return {
        value: pathValue(root, [list.name, null, found.name]),
        why: `${wanted.name} comes from ${found.name} of each of ${list.name} of the ${origin}`,
        ...caveatOf(`${found.name} of each of ${list.name} of the ${origin}`, [list, found]),
      }
    }
    return undefined
  }
}

/** What the schemas do not guarantee about a value at a path of fields. */
export function caveatOf(what: string, fieldPath: readonly Field[]): { readonly caveat?: string } {
  if (fieldPath.some(({ isRequired }) => !isRequired)) return { caveat: `${what} may be absent` }
  const last = fieldPath.at(-1)
  return last && isTyped(last.schema) ? {} : { caveat: `the type of ${what} is not declared` }
}

/** A path, or a list with the value at a path as its only element. */
export function pathValue(root: Root, steps: readonly Step[], isList = false): Value {
  const value: Value = { kind: 'path', path: { root, steps } }
  return isList ? { kind: 'list', items: [value] } : value
}

/** A field with the same words in any naming style, optionally without the noun that everything is about. */
function similarField(wanted: Field, fields: readonly Field[], noun: string | undefined): Field | undefined {
  return (
    fields.find(({ words }) => areSameNouns(words, wanted.words)) ??
    fields.find(({ words }) => areSameNouns(withoutNoun(words, noun), withoutNoun(wanted.words, noun)))
  )
}

/** Words without the noun that everything is about, unless nothing would remain. */
export function withoutNoun(words: readonly string[], noun: string | undefined): readonly string[] {
  const remaining = words.filter((word) => noun === undefined || !isSameNoun(word, noun))
  return remaining.length === 0 ? words : remaining
}

function firstOf(sources: readonly ArgumentSource[], wanted: Field): MappedArgument | undefined {
  for (const source of sources) {
    const filled = source(wanted)
    if (filled) return filled
  }
  return undefined
}

/** The first path steps that the values of a call refer to. */
export function fieldsUsedBy(given: Expression['arguments']): ReadonlySet<string> {
  return new Set([...given.values()].flatMap(stepsIn))
}

function stepsIn(value: Value): string[] {
  if (value.kind === 'list') return value.items.flatMap(stepsIn)
  if (value.kind !== 'path') return []
  const [first] = value.path.steps
  return typeof first === 'string' ? [first] : []
}

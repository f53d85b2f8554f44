/**
 * Fills the arguments of a call that undoes another one, from the arguments, the result and what was read before.
 * Invariant: a value that schemas do not promise has a doubt with it, and so has the call it stands in.
 */
import type { Expression, Value } from './expression.ts'
import type { Step, Root } from '../json/path.ts'
import { couldBe, couldList, type Field, fieldsOf, isTyped, type ToolShape } from './tool-shape.ts'
import { areSameNouns, isSameNoun } from '../text/words.ts'

/** Where the value of an argument can come from. */
export interface MappedArgument {
  readonly value: Value
  /** For people. */
  readonly why?: string
  /** Why it may not be there, or be another one; absent where schemas say that it is there. */
  readonly caveat?: string
}

/** Looks for a value for an argument. */
export type ArgumentSource = (wanted: Field) => MappedArgument | undefined

/** A call whose arguments were all found, or what is missing. */
export type ArgumentMapping =
  | { readonly call: Expression; readonly why: readonly string[]; readonly caveats: readonly string[] }
  | { readonly missing: Field }

/** Fills a call of a tool: what it has to be told, and of the rest what is `useful`. Nothing where that is not said. */
export function mapArguments(
  tool: ToolShape,
  sources: readonly ArgumentSource[],
  useful: (field: Field) => boolean,
): ArgumentMapping | undefined {
  if (!tool.inputs) return undefined
  const found = new Map<string, MappedArgument>()
  for (const field of tool.inputs.filter((each) => each.isRequired || useful(each))) {
    const filled = firstOf(sources, field)
    if (filled) found.set(field.name, filled)
    else if (field.isRequired) return { missing: field }
  }
  const filled = [...found.values()]
  const given = new Map([...found].map(([name, { value }]) => [name, value]))
  return {
    call: { tool: tool.name, arguments: given },
    why: filled.flatMap(({ why }) => why ?? []),
    caveats: filled.flatMap(({ caveat }) => caveat ?? []),
  }
}

/** Takes values from fields of the same name: of the arguments, of the result, or of what was read. */
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

/** Takes a member of each element of a list: the names of entities for `entityNames`. */
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

/** What schemas leave open of a value on a way through fields. */
export function caveatOf(what: string, fieldPath: readonly Field[]): { readonly caveat?: string } {
  if (fieldPath.some(({ isRequired }) => !isRequired)) return { caveat: `${what} may be absent` }
  const last = fieldPath.at(-1)
  return last && isTyped(last.schema) ? {} : { caveat: `nothing says of what type ${what} is` }
}

/** A path, or a list with only what is at its end. */
export function pathValue(root: Root, steps: readonly Step[], isList = false): Value {
  const value: Value = { kind: 'path', path: { root, steps } }
  return isList ? { kind: 'list', items: [value] } : value
}

/** A field of the same words, in whatever style, or of the same words but for what they are all about. */
function similarField(wanted: Field, fields: readonly Field[], noun: string | undefined): Field | undefined {
  return (
    fields.find(({ words }) => areSameNouns(words, wanted.words)) ??
    fields.find(({ words }) => areSameNouns(withoutNoun(words, noun), withoutNoun(wanted.words, noun)))
  )
}

/** Words without the noun everything is about, where others are left. */
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

/** The members of what paths begin with that the values of a call are made of. */
export function fieldsUsedBy(given: Expression['arguments']): ReadonlySet<string> {
  return new Set([...given.values()].flatMap(stepsIn))
}

function stepsIn(value: Value): string[] {
  if (value.kind === 'list') return value.items.flatMap(stepsIn)
  if (value.kind !== 'path') return []
  const [first] = value.path.steps
  return typeof first === 'string' ? [first] : []
}

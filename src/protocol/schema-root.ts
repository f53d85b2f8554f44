/**
 * The root of an input schema as providers take it: an object with properties, without alternatives. Those of the root are
 * united: their properties become its properties, and it requires what all of them require. It accepts all that the
 * alternatives accept; which arguments belong together is in its description.
 */
import { asObject, isObject, isSame, pointerSegment } from '../core/json/json.ts'
import type { Fields } from '../core/payload.ts'
import { shortened } from '../core/text/escape.ts'

/** Notes what happens to the root: where, as a JSON pointer below it, and in words. */
interface RootNotes {
  changed(pointer: string, what: string): void
  unusable(pointer: string, what: string): never
}

/** Marks an argument that is also sent as a header (SEP-2243). */
export const MIRROR = 'x-mcp-header'
/** The maximum number of alternatives and arguments in the description, and the length of what it says of one. */
const MAX_DESCRIBED = 10
const MAX_NOTE_LENGTH = 300
/** Rules about all of an object, which an alternative or a part may have. */
const OBJECT_RULES = [
  'propertyNames',
  'minProperties',
  'maxProperties',
  'dependentRequired',
  'dependentSchemas',
]

/** A root without what providers refuse there; `isName` decides which names of arguments they take. */
export function plainRoot(root: Fields, isName: (name: string) => boolean, notes: RootNotes): Fields {
  const plain = withoutChoices(root, '', notes)
  return plain instanceof Unfit
    ? notes.unusable(plain.pointer, plain.what)
    : withoutOddNames(plain, isName, notes)
}

/** Whether a `type` admits a type; any does if there is none. */
export function admits(type: unknown, name: string): boolean {
  return type === undefined || (Array.isArray(type) ? type.includes(name) : type === name)
}

/** Why no object fits a schema. */
class Unfit {
  readonly pointer: string
  readonly what: string

  constructor(pointer: string, what: string) {
    this.pointer = pointer
    this.what = `${what}, and arguments are an object`
  }
}

function withoutChoices(given: Fields, at: string, notes: RootNotes): Fields | Unfit {
  let root = given
  for (const key of ['not', 'enum', 'const']) {
    if (!Object.hasOwn(root, key)) continue
    notes.changed(`${at}/${key}`, 'is not understood at the root: removed')
    root = without(root, [key])
  }
  const { allOf } = root
  if (Array.isArray(allOf)) {
    notes.changed(`${at}/allOf`, 'is not understood at the root: its parts are united')
    root = without(root, ['allOf'])
    for (const [index, part] of allOf.entries()) {
      const plain = objectOf(part, `${at}/allOf/${index}`, notes)
      if (plain instanceof Unfit) return plain
      root = withPart(root, plain)
    }
  }
  for (const key of ['anyOf', 'oneOf']) {
    const branches = root[key]
    if (!Array.isArray(branches)) continue
    notes.changed(`${at}/${key}`, 'is not understood at the root: its alternatives are united')
    const objects = branches.flatMap((each: unknown, index): readonly Fields[] => {
      const plain = objectOf(each, `${at}/${key}/${index}`, notes)
      return plain instanceof Unfit ? [] : [plain]
    })
    if (objects.length === 0) return new Unfit(`${at}/${key}`, 'has no alternative that accepts an object')
    root = withUnion(without(root, [key]), objects)
  }
  return root
}

/** A part or an alternative of the root, for objects. */
function objectOf(given: unknown, at: string, notes: RootNotes): Fields | Unfit {
  if (given === true) return {}
  if (!isObject(given) || !admits(given.type, 'object')) return new Unfit(at, 'accepts no object')
  return withoutChoices(given, at, notes)
}

/** The root with another schema that arguments must fit as well. */
function withPart(root: Fields, part: Fields): Fields {
  const rules = OBJECT_RULES.filter((key) => !Object.hasOwn(root, key) && Object.hasOwn(part, key))
  const hasCondition = Object.hasOwn(root, 'if')
  const conditions = hasCondition ? [] : ['if', 'then', 'else'].filter((key) => Object.hasOwn(part, key))
  const isClosed = root.additionalProperties === false || part.additionalProperties === false
  return {
    ...without(root, ['additionalProperties']),
    ...Object.fromEntries([...rules, ...conditions].map((key) => [key, part[key]] as const)),
    ...joined(root, part, 'properties'),
    ...joined(root, part, 'patternProperties'),
    ...requiring([...new Set([...namesIn(root), ...namesIn(part)])]),
    ...(isClosed && { additionalProperties: false }),
  }
}

function joined(root: Fields, part: Fields, key: 'properties' | 'patternProperties'): Fields {
  if (!isObject(part[key])) return {}
  const own = asObject(root[key])
  const added = Object.entries(part[key]).map(([name, schema]) => {
    const both = Object.hasOwn(own, name) && !isSame(own[name], schema)
    return [name, both ? conjunction(own[name], schema) : schema] as const
  })
  return { [key]: { ...own, ...Object.fromEntries(added) } }
}

function conjunction(one: unknown, other: unknown): unknown {
  if (isAnything(one)) return other
  return isAnything(other) ? one : { allOf: [one, other] }
}

/** The root, whose arguments fit one of these schemas as well. */
function withUnion(root: Fields, branches: readonly Fields[]): Fields {
  const own = asObject(root.properties)
  const isOpen = root.additionalProperties !== false
  const names = isOpen ? branches.flatMap(({ properties }) => Object.keys(asObject(properties))) : []
  const added = [...new Set(names)].filter((name) => !Object.hasOwn(own, name))
  const isClosed =
    root.additionalProperties === undefined &&
    branches.every((each) => each.additionalProperties === false && !Object.hasOwn(each, 'patternProperties'))
  const required = namesIn(root)
  const common = namesIn(branches[0] ?? {}).filter((name) =>
    branches.every((each) => namesIn(each).includes(name)),
  )
  const description = withSentence(root.description, choiceText(branches, [...required, ...common]))
  return {
    ...root,
    ...(added.length > 0 && {
      properties: {
        ...own,
        ...Object.fromEntries(added.map((name) => [name, propertyOf(name, branches)] as const)),
      },
    }),
    ...requiring([...new Set([...required, ...common])]),
    ...(isClosed && { additionalProperties: false }),
    ...(description !== undefined && { description }),
  }
}

/** What an argument may be in any of the alternatives. */
function propertyOf(name: string, branches: readonly Fields[]): unknown {
  const variants: unknown[] = []
  for (const { properties, additionalProperties: others = {}, patternProperties } of branches) {
    const own = asObject(properties)
    const isNamed = Object.hasOwn(own, name)
    if (!isNamed && others === false && patternProperties === undefined) continue
    // Where it is not named it may be anything that is allowed beside the named ones.
    const variant = isNamed ? own[name] : others === true || patternProperties !== undefined ? {} : others
    if (!variants.some((each) => isSame(each, variant))) variants.push(variant)
  }
  if (variants.length === 1) return variants[0]
  const values = variants.map((each) => (isObject(each) && isConstant(each) ? [each.const] : undefined))
  if (values.every((each) => each !== undefined)) return { enum: values.flat() }
  return { anyOf: variants }
}

/** Whether a schema says one value, and no more than its type. */
function isConstant(schema: Fields): boolean {
  return (
    Object.hasOwn(schema, 'const') && Object.keys(schema).every((key) => key === 'const' || key === 'type')
  )
}

/** Which arguments belong together, where the alternatives differ in what they require. */
function choiceText(branches: readonly Fields[], common: readonly string[]): string | undefined {
  const sets = branches.map((each) => namesIn(each).filter((name) => !common.includes(name)))
  const distinct = [...new Set(sets.map((names) => names.map((name) => JSON.stringify(name)).join(' and ')))]
  if (distinct.length < 2 || distinct.length > MAX_DESCRIBED || distinct.includes('')) return undefined
  return `Give ${distinct.join(', or ')}.`
}

/** The root without arguments that have names providers refuse; they can be given, as its description says. */
function withoutOddNames(root: Fields, isName: (name: string) => boolean, notes: RootNotes): Fields {
  const properties = asObject(root.properties)
  const odd = Object.entries(properties).filter(
    // An argument that clients mirror in a header has to be named.
    ([name, schema]) => !isName(name) && !(isObject(schema) && Object.hasOwn(schema, MIRROR)),
  )
  if (odd.length === 0) return root
  const required = namesIn(root)
  for (const [name] of odd)
    notes.changed(
      `/properties/${pointerSegment(name)}`,
      'has a name that providers refuse: moved to the description',
    )
  const sentences = odd.slice(0, MAX_DESCRIBED).map(([name, schema]) => {
    const { type, description } = asObject(schema)
    const about = [
      typeof type === 'string' ? type : undefined,
      required.includes(name) ? 'required' : undefined,
      typeof description === 'string' ? description : undefined,
    ].filter((each) => each !== undefined)
    const text = about.length > 0 ? ` (${about.join('; ')})` : ''
    return shortened(`Also takes ${JSON.stringify(name)}${text}.`, MAX_NOTE_LENGTH)
  })
  const names = odd.map(([name]) => name)
  return {
    ...without(root, ['additionalProperties', 'required']),
    properties: without(properties, names),
    ...requiring(required.filter((name) => !names.includes(name))),
    description: withSentence(root.description, sentences.join(' ')),
  }
}

/** A description with another sentence. */
export function withSentence(text: unknown, sentence: string | undefined): string | undefined {
  const own = typeof text === 'string' && text !== '' ? text : undefined
  if (own === undefined || sentence === undefined) return own ?? sentence
  return `${own}${/[\p{L}\p{N}]$/u.test(own) ? '.' : ''} ${sentence}`
}

function requiring(names: readonly string[]): Fields {
  return names.length > 0 ? { required: names } : {}
}

function namesIn({ required }: Fields): readonly string[] {
  return Array.isArray(required) ? required.filter((name: unknown) => typeof name === 'string') : []
}

function isAnything(schema: unknown): boolean {
  return schema === true || (isObject(schema) && Object.keys(schema).length === 0)
}

/** A schema without some of its rules. */
export function without(given: Fields, keys: readonly string[]): Fields {
  return Object.fromEntries(Object.entries(given).filter(([key]) => !keys.includes(key)))
}

/**
 * Finds out how a tool could be undone by another tool of its server, from names and schemas alone. Invariant: a
 * proposal without caveats passes its tool the identity of what was created or changed, and omits no argument that
 * selects what is affected. It affects nothing else, whatever else exists.
 */
import { areSameNouns, isSameNoun } from '../text/words.ts'
import { dryRunOff, isScopeOrDryRunSwitch, omittedArguments, switchesOff } from '../tool-call.ts'
import {
  caveatOf,
  mapArguments,
  type MappedArgument,
  fromFields,
  fromMembers,
  pathValue,
  type ArgumentSource,
  fieldsUsedBy,
  withoutNoun,
} from './argument-mapping.ts'
import { type Expression, type Value, printExpression } from './expression.ts'
import { readingOf, indexOf, type ToolNameIndex } from './name-readings.ts'
import { type Proposal, proposeRestore } from './restore.ts'
import {
  isAuxiliary,
  isBulk,
  isContainer,
  isDeep,
  isGlobalId,
  isFilter,
  isIdentity,
  isReplacing,
  isScope,
  names,
} from './selectors.ts'
import { type Field, fieldsOf, shapeOf, type ToolShape } from './tool-shape.ts'

/** The result of the search for an undo call. */
interface Suggestion {
  readonly proposal?: Proposal
  /** Why tools that seemed suitable are not, for people. */
  readonly misses: readonly string[]
}

type Definition = Readonly<Record<string, unknown>>

/**
 * How a tool could be undone with the tools of its server, given as entries of `tools/list` with or without the tool
 * itself; and why seemingly suitable tools are not.
 */
export function proposeUndo(definition: Definition, all: readonly Definition[]): Suggestion {
  const tool = shapeOf(definition)
  if (tool.isRead === true) return { misses: [] }
  const index = indexOf(all)
  const tried = [
    ...moveBack(tool),
    ...toggleBack(tool),
    ...antonymsOf(tool, index).map((item) => byCounterpart(tool, item)),
    ...proposeRestore(tool, index),
    ...byState(tool, index),
  ]
  const found = tried.flatMap((item) => (typeof item === 'string' ? [] : [item]))
  const proposal = found.find(isSure) ?? found[0]
  const misses = tried.flatMap((item) => (typeof item === 'string' ? [item] : []))
  return { ...(proposal && { proposal }), misses: [...new Set(misses)] }
}

/** Whether a proposal may be used without a review. */
export function isSure({ caveats }: Proposal): boolean {
  return caveats.length === 0
}

function byCounterpart(tool: ToolShape, counterpart: Antonym): Proposal | string {
  const { tool: other, verb, opposite, kind } = counterpart
  const isAll = kind === 'unmakes'
  const isUseful = (field: Field): boolean =>
    isAll ||
    isScopeOrDryRunSwitch(field) ||
    sharedWith(tool, field)?.isRequired === true ||
    isOwn(field, counterpart)
  const narrowing = isAll ? dryRunOff : switchesOff
  const mapping = mapArguments(other, [narrowing, ...sourcesOf(tool, counterpart)], isUseful)
  if (!mapping) return unreadable(other)
  const { call } = mapping
  const unset = isAll ? other.inputs?.find(({ name }) => call?.arguments.has(name) === false) : undefined
  const missing = mapping.missing ?? unset
  if (missing) return missingSource(missing, tool, other)
  if (!call) return unreadable(other)
  const text = printExpression(call)
  const why = [`${other.name} has the same name with "${opposite}" instead of "${verb}"`, ...mapping.why]
  if (isAll) {
    const caveats = [
      'the removed object may have had more content than the arguments contain',
      ...mapping.caveats,
    ]
    return { undo: { call: text, exact: false }, why, caveats }
  }
  const targeting = targetCaveats(tool, counterpart, call)
  if (typeof targeting === 'string') return targeting
  return { undo: text, why, caveats: [...mapping.caveats, ...omittedArguments(other, call), ...targeting] }
}

/**
 * Whether the affected object can be identified from the original call: the reason if not, or the remaining caveats.
 */
function targetCaveats(tool: ToolShape, counterpart: Antonym, call: Expression): readonly string[] | string {
  const { tool: other, kind, thing } = counterpart
  const { inputs = [] } = other
  const given = inputs.filter(({ name }) => call.arguments.has(name))
  const isTargeted = given.some((field) => isOwn(field, counterpart))
  const filter = inputs.find((field) => isFilter(field) && !names(field, thing))
  if (!isTargeted && filter)
    return `${other.name} affects everything that matches ${filter.name}, and nothing identifies what ${tool.name} affected`
  if (kind === 'switches') {
    const selecting = [...inputs, ...(tool.inputs ?? [])].filter((field) => !isAuxiliary(field))
    if (selecting.length > 0 && given.every(isScopeOrDryRunSwitch)) return noTarget(tool, other)
    return [`${other.name} would also change what was already in that state before the call`]
  }
  if (!isTargeted) return noTarget(tool, other)
  return caveatsOfCreated(tool, counterpart, call)
}

/** The caveats of a call that removes what a tool created, given what identifies it. */
function caveatsOfCreated(
  tool: ToolShape,
  counterpart: Antonym,
  { arguments: given }: Expression,
): readonly string[] | string {
  const { tool: other, thing, verb } = counterpart
  const { inputs = [] } = other
  const targets = inputs.flatMap((field) => {
    const value = given.get(field.name)
    return value && isOwn(field, counterpart) ? [{ field, value }] : []
  })
  const isMany = isBulk(tool, thing)
  const isList = targets.some(({ field }) => field.schema.type === 'array')
  if (isMany && !isList)
    return `${tool.name} may create several objects at once, and ${other.name} accepts one`
  const generated = targets.filter(({ value }) => isFromServer(value, tool))
  const isUnique = generated.some(({ field }) => isGlobalId(field))
  const isEmptied = inputs.some((field) => isDeep(field) && given.has(field.name))
  const isKeyed = !newMakers.has(verb) && tool.inputs?.some((field) => names(field, thing)) === true
  const isPlural = !isList && !areSameWords(tool, other, verb)
  return [
    ...(isKeyed || (generated.length === 0 && !newMakers.has(verb)) ? [callerChosen(tool)] : []),
    ...(generated.length > 0 ? [] : callerChosenCaveats(tool, counterpart, { given, isMany })),
    ...(isUnique ? [] : omittedScopes(tool, counterpart, given)),
    ...(tool.mayReuseExisting ? [`${tool.name} may reuse or replace an existing object`] : []),
    ...(tool.inputs ?? [])
      .filter(isReplacing)
      .map(({ name }) => `with ${name} it may replace an existing object`),
    ...(isPlural ? [`${tool.name} may create several objects at once, and ${other.name} accepts one`] : []),
    ...(other.removesRelated || (isContainer(thing) && !isEmptied)
      ? ['content that others added since would be removed too']
      : []),
  ]
}

/** The caveats if the caller chooses the identity of what is created. */
function callerChosenCaveats(
  tool: ToolShape,
  { verb }: Antonym,
  { given, isMany }: { readonly given: Expression['arguments']; readonly isMany: boolean },
): string[] {
  const usedFields = fieldsUsedBy(given)
  const bareIds = (tool.inputs ?? []).filter((field) => usedFields.has(field.name) && isBare(field))
  return [
    ...(isMany && newMakers.has(verb) ? [callerChosen(tool)] : []),
    ...bareIds.map(({ name }) => `${name} of ${tool.name} may identify another object`),
  ]
}

function callerChosen({ name }: ToolShape): string {
  return `the caller chooses its identifier, so it may have existed before ${name}`
}

/** Arguments of a tool that may be part of the identity of what it created, and that the undo call omits. */
function omittedScopes(
  tool: ToolShape,
  { tool: other, thing }: Antonym,
  given: Expression['arguments'],
): string[] {
  const usedFields = fieldsUsedBy(given)
  const omitted = (tool.inputs ?? []).filter(
    (field) => !usedFields.has(field.name) && !isAuxiliary(field) && isScope(field),
  )
  return omitted
    .filter((field) => !names(field, thing))
    .map(({ name }) => `${other.name} is called without ${name}, which ${tool.name} takes`)
}

/** Verbs of tools that fail if the name already exists, unless their servers say otherwise. */
const newMakers = new Set(['create', 'insert'])

/** An argument named only `id`, of a tool that creates something: it may identify the parent instead. */
function isBare(field: Field): boolean {
  return field.words.length === 1 && isIdentity(field) && !['key', 'slug'].includes(field.name)
}

/** Whether a value was generated by the server, and is not a copy of an argument. */
function isFromServer(value: Value, { inputs = [] }: ToolShape): boolean {
  const path = value.kind === 'list' ? value.items[0] : value
  if (path?.kind !== 'path' || path.path.root !== 'result') return false
  const [first] = path.path.steps
  return (
    path.path.steps.length > 1 ||
    !inputs.some(({ name, schema }) => name === first && schema.type !== 'array')
  )
}

/** Whether two tools use the same number for their nouns: one of several is not all of them. */
function areSameWords(tool: ToolShape, { words }: ToolShape, verb: string): boolean {
  return tool.words.every(
    (word) => word === verb || words.includes(word) || !words.some((own) => isSameNoun(own, word)),
  )
}

function noTarget(tool: ToolShape, { name }: ToolShape): string {
  return `${name} could undo it, but nothing identifies what ${tool.name} affected`
}

function sharedWith({ inputs }: ToolShape, { name, words }: Field): Field | undefined {
  return (
    inputs?.find((input) => input.name === name) ?? inputs?.find((input) => areSameNouns(input.words, words))
  )
}

/** Whether an argument identifies the object that both tools are about. */
function isOwn(field: Field, { thing, verb }: Antonym): boolean {
  if (names(field, thing)) return true
  return isIdentity(field) && field.words.slice(0, -1).every((word) => isOf(word, verb))
}

function sourcesOf(tool: ToolShape, { kind, thing: noun, verb }: Antonym): readonly ArgumentSource[] {
  const args = fromFields('args', tool.inputs ?? [], { noun, origin: 'arguments' })
  const results = fromFields('result', tool.outputs ?? [], { noun, origin: 'result' })
  // The result states which of the requested things were actually done.
  const done: ArgumentSource = (argument) =>
    argument.schema.type === 'array' || isIdentity(argument) ? results(argument) : undefined
  const members = fromMembers('result', tool.outputs ?? [], 'result')
  const first = kind === 'makes' ? [done, members] : []
  return [
    ...first,
    args,
    results,
    fromMembers('args', tool.inputs ?? [], 'arguments'),
    ...(kind === 'unmakes' ? [] : [nestedResult(tool, noun), guessedResult(tool, noun, verb)]),
  ]
}

/** What was created may be nested in the result under its own name. */
function nestedResult({ outputs }: ToolShape, noun: string | undefined): ArgumentSource {
  return (argument) => {
    const holder = outputs?.find(({ words }) => noun !== undefined && areSameNouns(words, [noun]))
    const fields = holder && fieldsOf(holder.schema)
    if (!holder || !fields || holder.schema.type === 'array') return undefined
    const found = fromFields('result', fields, { noun, origin: holder.name })(argument)
    if (found?.value.kind !== 'path') return undefined
    const steps = [holder.name, ...found.value.path.steps]
    const what = `${holder.name} of the result`
    return {
      ...found,
      value: pathValue('result', steps),
      ...(holder.isRequired ? {} : caveatOf(what, [holder])),
    }
  }
}

/** If the server does not declare its output, the result is assumed to contain the usual identifier. */
function guessedResult({ outputs }: ToolShape, noun: string | undefined, verb: string): ArgumentSource {
  return (argument): MappedArgument | undefined => {
    if (outputs || !isIdentity(argument)) return undefined
    const about = argument.words.slice(0, -1)
    if (!about.every((word) => (noun !== undefined && isSameNoun(word, noun)) || isOf(word, verb)))
      return undefined
    const name =
      about.length === 0 ? argument.name : (withoutNoun(argument.words, about[0]).at(-1) ?? argument.name)
    return {
      value: pathValue('result', [name]),
      caveat: `${argument.name} is assumed to be ${name} of the result, because there is no outputSchema`,
    }
  }
}

/** Whether a noun is derived from a verb: subscription, subscribe. */
function isOf(noun: string, verb: string): boolean {
  return noun.length > 5 && noun.slice(0, 5) === verb.slice(0, 5)
}

function missingSource(field: Field, tool: ToolShape, other: ToolShape): string {
  return `${other.name} could undo it, but requires ${field.name}, which is neither in the arguments nor in the result of ${tool.name}`
}

function unreadable({ name }: ToolShape): string {
  return `${name} could undo it, but its inputSchema does not list its arguments explicitly`
}

const moveVerbs = ['move', 'rename']
const endpointNames: readonly (readonly [string, string])[] = [
  ['source', 'destination'],
  ['source', 'target'],
  ['src', 'dst'],
  ['src', 'dest'],
  ['from', 'to'],
  ['old', 'new'],
  ['', 'new'],
]

/** A move from one place to another is undone by the opposite move. */
function moveBack(tool: ToolShape): readonly (Proposal | string)[] {
  const { thing, verb } = readingOf(tool.words).find((item) => moveVerbs.includes(item.verb)) ?? {}
  const needed = tool.inputs?.filter(({ isRequired }) => isRequired) ?? []
  if (verb === undefined) return []
  for (const [from, to] of endpointNames) {
    const start = needed.find((item) =>
      needed.some((end) => end !== item && areEndpoints(item, end, [from, to])),
    )
    const end = start && needed.find((item) => item !== start && areEndpoints(start, item, [from, to]))
    if (!start || !end) continue
    const isPlace = isPlaceOf([start, from], thing, verb)
    if (!isPlace && !needed.some((item) => isOther(item, [start, end], thing)))
      return [`${tool.name} may move several objects, and nothing identifies which of them to move back`]
    const swapped = new Map([
      [start.name, end.name],
      [end.name, start.name],
    ])
    const again: ArgumentSource = (argument) => ({
      value: pathValue('args', [swapped.get(argument.name) ?? argument.name]),
    })
    const mapping = mapArguments(tool, [switchesOff, again], isScopeOrDryRunSwitch)
    if (!mapping?.call) continue
    const { call } = mapping
    const replaced = (tool.inputs ?? []).filter(isReplacing)
    const caveats = [
      ...omittedArguments(tool, call),
      ...replaced.map(({ name }) => `with ${name} it may replace an existing object`),
      ...(tool.failsIfExists ? [] : [`${tool.name} may replace an existing object at ${end.name}`]),
      ...(isPlace ? [] : [`objects that were already in ${end.name} would be moved too`]),
    ]
    const why = [`it moves from ${start.name} to ${end.name} and can move back`]
    return [{ undo: printExpression(call), why, caveats }]
  }
  return []
}

/** Whether the source of a move is the object itself and not its container. */
function isPlaceOf(
  [start, from]: readonly [Field, string],
  thing: string | undefined,
  verb: string,
): boolean {
  const words = start.words.filter((word) => word !== from)
  if (words.length === 0) return verb === 'rename' || pathLike.has(thing ?? '')
  const isBareId = words.length === 1 && isIdentity({ words }) && !isSameNoun(words[0] ?? '', thing ?? '')
  return !isBareId && names({ ...start, words }, thing)
}

/** Objects identified by their path, so that `source` is the object and not its container. */
const pathLike = new Set(['file', 'directory', 'folder', 'dir', 'symlink', 'path'])

/** Whether another argument than the endpoints identifies the moved object. */
function isOther(field: Field, both: readonly Field[], thing: string | undefined): boolean {
  return !both.includes(field) && field.schema.type !== 'array' && names(field, thing)
}

/** A second toggle restores the state. */
function toggleBack(tool: ToolShape): readonly Proposal[] {
  if (!tool.words.includes('toggle') || !tool.inputs) return []
  const needed = tool.inputs.filter(({ isRequired }) => isRequired)
  const given = needed.map(({ name }) => [name, pathValue('args', [name])] as const)
  const call: Expression = { tool: tool.name, arguments: new Map(given) }
  const caveats = ['according to its name it toggles something, and a second call toggles it back']
  return [{ undo: printExpression(call), why: [], caveats }]
}

function areEndpoints(start: Field, end: Field, [from, to]: readonly [string, string]): boolean {
  if (!end.words.includes(to) || (from !== '' && !start.words.includes(from))) return false
  const rest = (words: readonly string[], word: string): string =>
    words.filter((item) => item !== word).join(' ')
  return rest(start.words, from) === rest(end.words, to)
}

const endStates = ['closed', 'archived', 'cancelled', 'canceled', 'deleted', 'inactive', 'disabled']
const makers = ['create', 'add', 'open', 'insert']

/** An object that cannot be deleted may have a final state. */
function byState(tool: ToolShape, index: ToolNameIndex): readonly (Proposal | string)[] {
  const { verb, nouns = [], thing } = readingOf(tool.words).find((item) => makers.includes(item.verb)) ?? {}
  if (verb === undefined) return []
  const updates = index.withNouns(['update', 'edit', 'set', 'modify'], nouns)
  return updates.flatMap((other): (Proposal | string)[] => {
    const state = other.inputs?.find(({ words }) => ['state', 'status'].includes(words.at(-1) ?? ''))
    const values: readonly unknown[] = Array.isArray(state?.schema.enum) ? state.schema.enum : []
    const value = endStates.find((endState) => values.includes(endState))
    if (!state || value === undefined) return []
    const stateSource: ArgumentSource = (argument) =>
      argument === state
        ? { value: { kind: 'literal', value }, why: `${state.name} can be ${JSON.stringify(value)}` }
        : undefined
    const counterpart: Antonym = { tool: other, verb, opposite: 'update', nouns, thing, kind: 'makes' }
    const isUseful = (field: Field): boolean => field === state || isOwn(field, counterpart)
    const mapping = mapArguments(other, [switchesOff, stateSource, ...sourcesOf(tool, counterpart)], isUseful)
    if (!mapping?.call) return []
    const targeting = targetCaveats(tool, counterpart, mapping.call)
    if (typeof targeting === 'string') return [targeting]
    const caveats = [
      'no tool deletes what it creates, so it is only closed',
      ...mapping.caveats,
      ...targeting,
    ]
    return [{ undo: { call: printExpression(mapping.call), exact: false }, why: mapping.why, caveats }]
  })
}

/** A tool whose name is the opposite of another one's. */
interface Antonym {
  readonly tool: ToolShape
  /** The verbs of both tools. */
  readonly verb: string
  readonly opposite: string
  /** The object of both tools. */
  readonly nouns: readonly string[]
  /** What is created or changed: the label, if a label is added to an issue. */
  readonly thing: string | undefined
  /** Whether the first tool creates something, removes something, or toggles something. */
  readonly kind: 'makes' | 'unmakes' | 'switches'
}

/** The tools with opposite names, most likely first. */
function antonymsOf(tool: ToolShape, index: ToolNameIndex): Antonym[] {
  return readingOf(tool.words).flatMap(({ verb, nouns, thing }) =>
    oppositesOf(verb).flatMap(({ opposite, kind }) =>
      index
        .withNouns([opposite], nouns)
        .filter((other) => other.isRead !== true && other.name !== tool.name)
        .map((other) => ({ tool: other, verb, opposite, nouns, thing, kind })),
    ),
  )
}

function oppositesOf(verb: string): { readonly opposite: string; readonly kind: Antonym['kind'] }[] {
  const removing = makerVerbs.get(verb) ?? []
  const switched = togglePairs.flatMap(([one, other]) => (one === verb ? other : other === verb ? one : []))
  const negated = verb.startsWith('un') ? [verb.slice(2)] : [`un${verb}`]
  const back = reversals.get(verb) ?? []
  const makes = [...makerVerbs].flatMap(([maker, enders]) => (enders.includes(verb) ? [maker] : []))
  return [
    ...removing.map((opposite) => ({ opposite, kind: 'makes' as const })),
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

const togglePairs: readonly (readonly [string, string])[] = [
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

/** Verbs that reverse a removal, and are not themselves undone by it. */
const reversals: ReadonlyMap<string, readonly string[]> = new Map([
  ['delete', ['restore', 'undelete', 'recover']],
  ['remove', ['restore']],
  ['trash', ['restore', 'untrash']],
])

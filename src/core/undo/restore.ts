/**
 * Undoes an overwriting tool by reading the previous state before the call and writing it back. Invariant: a proposal
 * without caveats reads exactly what is changed, all of it, and writes nothing else.
 */
import { type Value, printExpression, type UndoSettings } from './expression.ts'
import { mapArguments, fromFields, pathValue, type ArgumentSource, fieldsUsedBy } from './argument-mapping.ts'
import { dryRunOff, isScopeOrDryRunSwitch, omittedArguments, switchesOff } from '../tool-call.ts'
import type { Root } from '../json/path.ts'
import { plainNouns, type VerbReading, readingOf, type ToolNameIndex } from './name-readings.ts'
import {
  isAuxiliary,
  isBulk,
  isContainer,
  isFilter,
  isIdentity,
  isPlacing,
  isScope,
  isTrial,
  names,
} from './selectors.ts'
import { couldBe, type Field, type ToolShape } from './tool-shape.ts'
import { wordSet, areSameNouns } from '../text/words.ts'

const writers = wordSet(
  'write update set edit put replace save patch modify overwrite append change configure move rename',
)
/** Verbs of tools that can write back what was read: for other tools, and for themselves. */
const replaceVerbs = 'write set put replace save overwrite update'.split(' ')
const selfRestoringVerbs = new Set([...replaceVerbs, ...'change configure move rename'.split(' ')])
const removers = ['delete', 'remove', 'destroy']
const makers = ['create', 'add', 'insert']
/** Verbs of tools that can create what did not exist. */
const creatingVerbs = wordSet('write set put replace save overwrite append')
const readers = 'get read fetch retrieve load show view'.split(' ')

/** Proposals for an overwriting tool: read before, and write back. Most likely first. */
export function proposeRestore(tool: ToolShape, index: ToolNameIndex): (Proposal | string)[] {
  const reading = readingOf(tool.words).find(({ verb }) => writers.has(verb) || removers.includes(verb))
  if (!reading) return []
  const nouns = plainNouns(reading.nouns)
  const isRemoved = removers.includes(reading.verb)
  const candidates = (verbs: readonly string[]): readonly ToolShape[] =>
    index.withPlainNouns(verbs, nouns).filter(({ name }) => name !== tool.name)
  const reads = candidates(readers)
    .filter(({ isRead }) => isRead !== false)
    .toSorted((one, other) => Number(one.isDeprecated) - Number(other.isDeprecated))
  const fitting = candidates(isRemoved ? [...replaceVerbs, ...makers] : replaceVerbs).filter(
    ({ isRead }) => isRead !== true,
  )
  const restores = selfRestoringVerbs.has(reading.verb) ? [tool, ...fitting] : fitting
  const { thing } = reading
  const proposals = reads.flatMap((read) =>
    restores.map((restore) => proposeWith({ tool, read, restore, thing, isRemoved })),
  )
  const absent = creatingVerbs.has(reading.verb) ? absentRule(tool, index, reading) : undefined
  return proposals.map((proposal) =>
    typeof proposal === 'string' || absent === undefined || typeof proposal.undo === 'string'
      ? proposal
      : { ...proposal, undo: { ...proposal.undo, absent } },
  )
}

interface RestoreTools {
  readonly tool: ToolShape
  readonly read: ToolShape
  readonly restore: ToolShape
  readonly thing: string | undefined
  /** The changed object is removed. */
  readonly isRemoved: boolean
}

function proposeWith({ tool, read, restore, thing, isRemoved }: RestoreTools): Proposal | string {
  const args = fromFields('args', tool.inputs ?? [], { noun: thing, origin: 'arguments' })
  const lookup = mapArguments(read, [args], (field) => hasLike(tool, field))
  if (!lookup?.call) return `${read.name} has no argument that identifies what ${tool.name} changes`
  const { call: lookupCall } = lookup
  const shared: ArgumentSource = (field) => (hasLike(read, field) ? args(field) : undefined)
  const auxiliary: ArgumentSource = (field) => (isAuxiliary(field) ? args(field) : undefined)
  const sources = [shared, fromSnapshot(read, thing), textOf(read, tool), auxiliary, dryRunOff]
  const filled = mapArguments(restore, sources, (field) => !isAuxiliary(field))
  if (!filled?.call) return `${restore.name} cannot restore what ${read.name} reads`
  const { call } = filled
  const isFrom = (root: Root, name: string): boolean => rootOf(call.arguments.get(name)) === root
  if (![...call.arguments.keys()].some((name) => isFrom('snapshot', name)))
    return `${read.name} does not declare a result that ${restore.name} could restore`
  const readArguments = fieldsUsedBy(lookupCall.arguments)
  const unreadFields = (tool.inputs ?? []).filter(
    (field) =>
      !readArguments.has(field.name) &&
      !isAuxiliary(field) &&
      !isTrial(field) &&
      !(restore === tool && isFrom('snapshot', field.name)),
  )
  const filter = unreadFields.find(isFilter)
  if (filter)
    return `${tool.name} changes everything that matches ${filter.name}, and ${read.name} does not read the same selection`
  const isTargeted =
    read.inputs?.some((input) => lookupCall.arguments.has(input.name) && names(input, thing)) === true
  const usedArguments = fieldsUsedBy(call.arguments)
  if ([...readArguments].some((name) => !usedArguments.has(name)))
    return `${restore.name} does not receive the identity of what ${tool.name} changes`
  const unsetFields =
    restore.inputs?.filter((input) => !isAuxiliary(input) && !call.arguments.has(input.name)) ?? []
  const isNew = readingOf(restore.words).some(({ verb }) => makers.includes(verb))
  const undo: UndoSettings = {
    ...((isNew || isRemoved || unsetFields.length > 0) && { exact: false }),
    snapshot: printExpression(lookupCall),
    restore: printExpression(call),
  }
  const caveats = [
    ...lookup.caveats,
    ...filled.caveats,
    ...(read.inputs ?? [])
      .filter(
        (input) =>
          !lookupCall.arguments.has(input.name) &&
          (isPart(input) || isPlacing(input) || hasLike(tool, input)),
      )
      .map(
        ({ name }) => `${read.name} is called without ${name}, so it may read another object, or only a part`,
      ),
    ...unreadFields
      .filter((unreadField) => names(unreadField, thing) || isScope(unreadField))
      .map(({ name }) => `${read.name} does not receive ${name}, so it may read another object`),
    ...(restore.inputs ?? [])
      .filter(
        (input) =>
          isFrom('snapshot', input.name) && (isPlacing(input) || (isIdentity(input) && names(input, thing))),
      )
      .map(({ name }) => `${name} comes from the result of ${read.name}, which may describe another object`),
    ...(isTargeted ? [] : [`${read.name} does not receive the identity of what ${tool.name} changes`]),
    ...(restore === tool ? [] : unreadFields)
      .filter((item) => !isFrom('snapshot', item.name) && !isEdit(item))
      .map(({ name }) => `${restore.name} may not restore what ${name} changes`),
    ...(isBulk(tool, thing) ? [`${tool.name} may change several objects at once`] : []),
    ...(isNew || isRemoved ? ['the recreated object may differ from the original'] : []),
    ...unsetFields.map(({ name }) => `${read.name} does not return the previous value of ${name}`),
  ]
  const why = [`${read.name} reads the previous state, and ${restore.name} restores it`, ...filled.why]
  return { undo, why, caveats }
}

/** Whether an argument changes the content of an object, which is restored as a whole. */
function isEdit({ words }: Field): boolean {
  return words.some((word) => edits.has(word))
}

const edits = wordSet(
  'edit edits patch diff old new find replace search line lines insert append content contents text body',
)

/** Whether a tool accepts an argument with the same words. */
function hasLike({ inputs }: ToolShape, { words }: Field): boolean {
  return inputs?.some((input) => areSameNouns(input.words, words)) === true
}

/** Whether an argument restricts a read to a part of the object, possibly by default. */
function isPart({ words }: Field): boolean {
  return words.some((word) => parts.has(word))
}

const parts = wordSet('limit offset page cursor max length lines range skip size truncate count first')

/** The root of an argument's values. */
function rootOf(value: Value | undefined): Root | undefined {
  if (value?.kind === 'list') return rootOf(value.items[0])
  return value?.kind === 'path' ? value.path.root : undefined
}

function fromSnapshot({ outputs }: ToolShape, noun: string | undefined): ArgumentSource {
  const fields = fromFields('snapshot', outputs ?? [], { noun, origin: 'snapshot' })
  return (wanted) => fields({ ...wanted, words: wanted.words.filter((word) => word !== 'new') })
}

/** If the server does not declare the output of a read, its text is probably the complete content. */
function textOf({ outputs, name: read }: ToolShape, { inputs }: ToolShape): ArgumentSource {
  const texts = wordSet('content contents text body value data')
  return (wanted) =>
    outputs ||
    !wanted.isRequired ||
    !wanted.words.every((word) => texts.has(word)) ||
    !couldBe({ type: 'string' }, wanted.schema) ||
    !inputs?.includes(wanted)
      ? undefined
      : {
          value: pathValue('snapshot', []),
          caveat: `${wanted.name} is assumed to be the complete output of ${read}, because there is no outputSchema`,
        }
}

/** How a call is undone that created what did not exist. */
function absentRule(tool: ToolShape, index: ToolNameIndex, { nouns, thing }: VerbReading): string {
  const args = fromFields('args', tool.inputs ?? [], { noun: thing, origin: 'arguments' })
  if (isContainer(thing)) return 'none'
  for (const ender of index.withNouns(removers, nouns)) {
    const filled = mapArguments(ender, [switchesOff, args], isScopeOrDryRunSwitch)
    if (!filled?.call || filled.caveats.length > 0) continue
    const { call } = filled
    const given = ender.inputs?.filter(({ name }) => call.arguments.has(name)) ?? []
    const usedArguments = fieldsUsedBy(call.arguments)
    const isWhole = tool.inputs?.every((field) => usedArguments.has(field.name) || !isScope(field))
    const isTargeted = isWhole === true && given.some((field) => names(field, thing))
    if (isTargeted && omittedArguments(ender, call).length === 0) return printExpression(call)
  }
  return 'none'
}
/** A possible undo of a tool, according to names and schemas. */

export interface Proposal {
  /** In the form of the configuration. */
  readonly undo: string | UndoSettings
  /** The reasons, for people. */
  readonly why: readonly string[]
  /** Why it may undo less or more than the call, for people. Empty if it is certain. */
  readonly caveats: readonly string[]
}

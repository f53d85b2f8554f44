/**
 * Undoes what writes over something by reading it before, and putting back what was read.
 * Invariant: a proposal without doubts reads the very thing that is changed, all of it, and writes nothing else.
 */
import { type Value, printExpression } from './expression.ts'
import { mapArguments, fromFields, placed, type Source, namedIn } from './argument-mapping.ts'
import { isForReal, isNarrowed, leftOpen, narrowed } from '../tool-call.ts'
import type { Root } from '../json/path.ts'
import { plainNouns, type NameReading, readingOf, type ToolNameIndex } from './name-readings.ts'
import {
  isAside,
  isBulk,
  isContainer,
  isFilter,
  isIdentity,
  isPlacing,
  isScope,
  isTrial,
  names,
} from './selectors.ts'
import type { UndoSettings } from '../settings.ts'
import { couldBe, type Field, type ToolShape } from './tool-shape.ts'
import { areSameNouns } from '../text/words.ts'

const writers = new Set(
  'write update set edit put replace save patch modify overwrite append change configure move rename'.split(
    ' ',
  ),
)
/** The verbs of tools that can write what was read: those that undo others too, and all that undo themselves. */
const wholes = 'write set put replace save overwrite update'.split(' ')
const selves = new Set([...wholes, ...'change configure move rename'.split(' ')])
const removers = ['delete', 'remove', 'destroy']
const makers = ['create', 'add', 'insert']
/** The verbs of tools that may make what was not there. */
const mayMake = new Set('write set put replace save overwrite append'.split(' '))
const readers = 'get read fetch retrieve load show view'.split(' ')

/** For a tool that writes over something: read it before, and put it back. The likeliest ways first. */
export function proposeRestore(tool: ToolShape, index: ToolNameIndex): (Proposal | string)[] {
  const said = readingOf(tool.words).find(({ verb }) => writers.has(verb) || removers.includes(verb))
  if (!said) return []
  const nouns = plainNouns(said.nouns)
  const isRemoved = removers.includes(said.verb)
  const others = (verbs: readonly string[]): readonly ToolShape[] =>
    index.saidPlainly(verbs, nouns).filter(({ name }) => name !== tool.name)
  const reads = others(readers)
    .filter(({ isRead }) => isRead !== false)
    .toSorted((one, other) => Number(one.isOld) - Number(other.isOld))
  const fitting = others(isRemoved ? [...wholes, ...makers] : wholes).filter(({ isRead }) => isRead !== true)
  const restores = selves.has(said.verb) ? [tool, ...fitting] : fitting
  const { thing } = said
  const ways = reads.flatMap((read) =>
    restores.map((restore) => wayBack({ tool, read, restore, thing, isRemoved })),
  )
  const absent = mayMake.has(said.verb) ? absence(tool, index, said) : undefined
  return ways.map((way) =>
    typeof way === 'string' || absent === undefined || typeof way.undo === 'string'
      ? way
      : { ...way, undo: { ...way.undo, absent } },
  )
}

interface Way {
  readonly tool: ToolShape
  readonly read: ToolShape
  readonly restore: ToolShape
  readonly thing: string | undefined
  /** What is changed is taken away. */
  readonly isRemoved: boolean
}

function wayBack({ tool, read, restore, thing, isRemoved }: Way): Proposal | string {
  const args = fromFields('args', tool.inputs ?? [], { noun: thing, origin: 'arguments' })
  const looked = mapArguments(read, [args], (field) => hasLike(tool, field))
  if (!looked || 'missing' in looked)
    return `${read.name} cannot be told what ${tool.name} is about to change`
  const named: Source = (field) => (hasLike(read, field) ? args(field) : undefined)
  const aside: Source = (field) => (isAside(field) ? args(field) : undefined)
  const sources = [named, fromSnapshot(read, thing), textOf(read, tool), aside, isForReal]
  const filled = mapArguments(restore, sources, (field) => !isAside(field))
  if (!filled || 'missing' in filled) return `${restore.name} cannot put back what ${read.name} reads`
  const { call } = filled
  const isFrom = (root: Root, name: string): boolean => rootOf(call.arguments.get(name)) === root
  if (![...call.arguments.keys()].some((name) => isFrom('snapshot', name)))
    return `${read.name} does not say what it gives that ${restore.name} could put back`
  const seen = namedIn(looked.call.arguments)
  const unseen = (tool.inputs ?? []).filter(
    (field) =>
      !seen.has(field.name) &&
      !isAside(field) &&
      !isTrial(field) &&
      !(restore === tool && isFrom('snapshot', field.name)),
  )
  const filter = unseen.find(isFilter)
  if (filter)
    return `${tool.name} changes whatever fits ${filter.name}, and ${read.name} does not read just that`
  const isAimed =
    read.inputs?.some((each) => looked.call.arguments.has(each.name) && names(each, thing)) === true
  const told = namedIn(call.arguments)
  if ([...seen].some((name) => !told.has(name)))
    return `${restore.name} is not told which one ${tool.name} is about to change`
  const lost = restore.inputs?.filter((each) => !isAside(each) && !call.arguments.has(each.name)) ?? []
  const isNew = readingOf(restore.words).some(({ verb }) => makers.includes(verb))
  const undo: UndoSettings = {
    ...((isNew || isRemoved || lost.length > 0) && { exact: false }),
    snapshot: printExpression(looked.call),
    restore: printExpression(call),
  }
  const doubts = [
    ...looked.doubts,
    ...filled.doubts,
    ...(read.inputs ?? [])
      .filter(
        (each) =>
          !looked.call.arguments.has(each.name) && (isPart(each) || isPlacing(each) || hasLike(tool, each)),
      )
      .map(
        ({ name }) => `${read.name} is called without ${name}, so it may read something else, or only a part`,
      ),
    ...unseen
      .filter((each) => names(each, thing) || isScope(each))
      .map(({ name }) => `${read.name} is not told ${name}, so it may read something else`),
    ...(restore.inputs ?? [])
      .filter(
        (each) =>
          isFrom('snapshot', each.name) && (isPlacing(each) || (isIdentity(each) && names(each, thing))),
      )
      .map(({ name }) => `${name} is what ${read.name} says, which may be of something else`),
    ...(isAimed ? [] : [`nothing tells ${read.name} which one ${tool.name} is about to change`]),
    ...(restore === tool ? [] : unseen)
      .filter((each) => !isFrom('snapshot', each.name) && !isEdit(each))
      .map(({ name }) => `${restore.name} may not put back what ${name} changes`),
    ...(isBulk(tool, thing) ? [`${tool.name} may change several at once`] : []),
    ...(isNew || isRemoved ? ['what is made again may not be the same in all'] : []),
    ...lost.map(({ name }) => `${read.name} does not say what ${name} was`),
  ]
  const why = [`${read.name} reads what it changes, and ${restore.name} puts that back`, ...filled.why]
  return { undo, why, doubts }
}

/** Whether an argument changes the content of a thing, which is put back as a whole. */
function isEdit({ words }: Field): boolean {
  return words.some((word) => edits.has(word))
}

const edits = new Set(
  'edit edits patch diff old new find replace search line lines insert append content contents text body'.split(
    ' ',
  ),
)

/** Whether a tool takes an argument of the same words. */
function hasLike({ inputs }: ToolShape, { words }: Field): boolean {
  return inputs?.some((each) => areSameNouns(each.words, words)) === true
}

/** Whether an argument of a read has it give a part of what is there, as it may by itself. */
function isPart({ words }: Field): boolean {
  return words.some((word) => parts.has(word))
}

const parts = new Set(
  'limit offset page cursor max length lines range skip size truncate count first'.split(' '),
)

/** What the values of an argument begin with. */
function rootOf(value: Value | undefined): Root | undefined {
  if (value?.kind === 'list') return rootOf(value.items[0])
  return value?.kind === 'path' ? value.path.root : undefined
}

function fromSnapshot({ outputs }: ToolShape, noun: string | undefined): Source {
  const fields = fromFields('snapshot', outputs ?? [], { noun, origin: 'snapshot' })
  return (wanted) => fields({ ...wanted, words: wanted.words.filter((word) => word !== 'new') })
}

/** Where the server does not say what a read gives, its text is likely all there is. */
function textOf({ outputs, name: read }: ToolShape, { inputs }: ToolShape): Source {
  const texts = new Set('content contents text body value data'.split(' '))
  return (wanted) =>
    outputs ||
    !wanted.isRequired ||
    !wanted.words.every((word) => texts.has(word)) ||
    !couldBe({ type: 'string' }, wanted.schema) ||
    !inputs?.includes(wanted)
      ? undefined
      : {
          value: placed('snapshot', []),
          doubt: `${wanted.name} is taken to be all that ${read} gives: there is no outputSchema that says so`,
        }
}

/** What undoes a call that made what was not there. */
function absence(tool: ToolShape, index: ToolNameIndex, { nouns, thing }: NameReading): string {
  const args = fromFields('args', tool.inputs ?? [], { noun: thing, origin: 'arguments' })
  if (isContainer(thing)) return 'none'
  for (const ender of index.said(removers, nouns)) {
    const filled = mapArguments(ender, [narrowed, args], isNarrowed)
    if (!filled || 'missing' in filled || filled.doubts.length > 0) continue
    const given = ender.inputs?.filter(({ name }) => filled.call.arguments.has(name)) ?? []
    const told = namedIn(filled.call.arguments)
    const isWhole = tool.inputs?.every((field) => told.has(field.name) || !isScope(field))
    const isAimed = isWhole === true && given.some((field) => names(field, thing))
    if (isAimed && leftOpen(ender, filled.call).length === 0) return printExpression(filled.call)
  }
  return 'none'
}
/** How a tool could be undone, as far as names and schemas tell. */

export interface Proposal {
  /** As the configuration would say it. */
  readonly undo: string | UndoSettings
  /** Why, for people. */
  readonly why: readonly string[]
  /** Why it may do less or more than undo the call, for people. It is sure where there are none. */
  readonly doubts: readonly string[]
}

import { fillCall, fromFields, placed, type Source } from './filling.ts'
import type { Inverse } from './inverse.ts'
import { isSaid, saidBy } from './opposites.ts'
import { printExpression } from './print-expression.ts'
import type { UndoSettings } from './settings.ts'
import type { Field, ToolShape } from './tool-shape.ts'
import { areSameNouns } from './words.ts'

const writers = new Set(
  'write update set edit put replace save patch modify overwrite append change configure move rename'.split(
    ' ',
  ),
)
/** The verbs of tools that can write what was read: those that undo others too, and all that undo themselves. */
const wholes = 'write set put replace save overwrite update'.split(' ')
const selves = new Set([...wholes, ...'change configure move rename'.split(' ')])
const removers = new Set(['delete', 'remove', 'destroy'])
const makers = ['create', 'add', 'insert']
/** The verbs of tools that may make what was not there. */
const mayMake = new Set('write set put replace save overwrite append'.split(' '))
const readers = 'get read fetch retrieve load show view'.split(' ')
/** Words that say how something is read, not what. */
const manners = new Set('text content contents detail details full raw'.split(' '))
/** Arguments that say how to do it, and can be said again. */
const asides = new Set('message comment reason force dry run dryrun notify encoding branch commit'.split(' '))

/** For a tool that writes over something: read it before, and put it back. The likeliest ways first. */
export function putBack(tool: ToolShape, others: readonly ToolShape[]): (Inverse | string)[] {
  const said = saidBy(tool.words).find(({ verb }) => writers.has(verb) || removers.has(verb))
  if (!said) return []
  const nouns = plain(said.nouns)
  const verbs = removers.has(said.verb) ? [...wholes, ...makers] : wholes
  const reads = others
    .filter(
      ({ words, isRead }) => isRead !== false && readers.some((verb) => isSaidPlainly(words, verb, nouns)),
    )
    .toSorted((one, other) => Number(one.isOld) - Number(other.isOld))
  const fitting = others.filter(
    ({ words, isRead }) => isRead !== true && verbs.some((verb) => isSaidPlainly(words, verb, nouns)),
  )
  const restores = selves.has(said.verb) ? [tool, ...fitting] : fitting
  const ways = reads.flatMap((read) => restores.map((restore) => wayBack({ tool, read, restore, nouns })))
  const absent = mayMake.has(said.verb) ? absence(tool, others, said.nouns) : undefined
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
  readonly nouns: readonly string[]
}

function wayBack({ tool, read, restore, nouns }: Way): Inverse | string {
  const noun = nouns.at(-1)
  const args = fromFields('args', tool.inputs ?? [], { noun, origin: 'arguments' })
  const looked = fillCall(read, [args], () => false)
  if (!looked || 'missing' in looked)
    return `${read.name} can not be told what ${tool.name} is about to change`
  const isAbout = (field: Field): boolean =>
    read.inputs?.some(({ words }) => areSameNouns(words, field.words)) === true
  const named: Source = (field) => (isAbout(field) ? args(field) : undefined)
  const aside: Source = (field) => {
    const said = field.words.every((word) => asides.has(word)) ? args(field) : undefined
    return said && { ...said, isSure: false }
  }
  const sources = [named, fromSnapshot(read, noun), textOf(read, tool), aside]
  const filled = fillCall(restore, sources, (field) => !isAside(field))
  if (!filled || 'missing' in filled) return `${restore.name} can not put back what ${read.name} reads`
  const { call } = filled
  const back = [...call.arguments.values()].filter(
    (each) => each.kind === 'path' && each.path.root === 'snapshot',
  )
  if (back.length === 0) return `${read.name} does not say what it gives that ${restore.name} could put back`
  const lost = restore.inputs?.filter((each) => !isAside(each) && !call.arguments.has(each.name)) ?? []
  const isNew = makers.some((verb) => isSaidPlainly(restore.words, verb, nouns))
  const undo: UndoSettings = {
    ...((isNew || lost.length > 0) && { exact: false }),
    snapshot: printExpression(looked.call),
    restore: printExpression(call),
  }
  return {
    undo,
    why: [
      `${read.name} reads what it changes, and ${restore.name} puts that back`,
      ...filled.why,
      ...(isNew ? ['what is made again may not be the same in all'] : []),
      ...lost.map(({ name }) => `${read.name} does not say what ${name} was`),
    ],
    confidence: looked.isSure && filled.isSure && !isNew && lost.length === 0 ? 'sure' : 'check',
  }
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
    !inputs?.includes(wanted)
      ? undefined
      : {
          value: placed('snapshot', []),
          isSure: false,
          why: `${wanted.name} is taken to be all that ${read} gives: there is no outputSchema that says so`,
        }
}

/** What undoes a call that made what was not there. */
function absence(tool: ToolShape, others: readonly ToolShape[], nouns: readonly string[]): string {
  const args = fromFields('args', tool.inputs ?? [], { noun: nouns.at(-1), origin: 'arguments' })
  const enders = others.filter(({ words }) => [...removers].some((verb) => isSaid(words, verb, nouns)))
  for (const ender of enders) {
    const filled = fillCall(ender, [args], () => false)
    if (filled && 'call' in filled && filled.isSure) return printExpression(filled.call)
  }
  return 'none'
}

function isAside({ words }: Field): boolean {
  return words.every((word) => asides.has(word))
}

function isSaidPlainly(words: readonly string[], verb: string, nouns: readonly string[]): boolean {
  return saidBy(words).some((each) => each.verb === verb && areSameNouns(plain(each.nouns), nouns))
}

function plain(nouns: readonly string[]): readonly string[] {
  const by = nouns.indexOf('by')
  const about = by > 0 ? nouns.slice(0, by) : nouns
  const left = about.filter((word) => !manners.has(word))
  return left.length === 0 ? about : left
}

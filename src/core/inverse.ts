import type { Expression } from './expression.ts'
import {
  fillCall,
  type Filled,
  type Filling,
  fromFields,
  fromMembers,
  placed,
  type Source,
  without,
} from './filling.ts'
import { type Counterpart, counterparts, isSaid, saidBy } from './opposites.ts'
import { printExpression } from './print-expression.ts'
import { putBack } from './put-back.ts'
import type { UndoSettings } from './settings.ts'
import { type Field, fieldsOf, shapeOf, type ToolShape } from './tool-shape.ts'
import { areSameNouns, isSameNoun } from './words.ts'

/** How a tool could be undone, as far as names and schemas tell. */
export interface Inverse {
  /** As the configuration would say it. */
  readonly undo: string | UndoSettings
  /** Why, for people. */
  readonly why: readonly string[]
  /** `sure` where schemas say that every value is there; else somebody has to look. */
  readonly confidence: 'sure' | 'check'
}

/** What came of looking for a way to undo a tool. */
interface Proposal {
  readonly inverse?: Inverse
  /** Why tools that seemed to undo it can not, for people. */
  readonly misses: readonly string[]
}

type Definition = Readonly<Record<string, unknown>>

/** How a tool could be undone with the tools of its server: entries of `tools/list`, the tool's own included or not. */
export function inverseOf(tool: Definition, all: readonly Definition[]): Inverse | undefined {
  return proposeUndo(tool, all).inverse
}

/** The same, with why what seemed to undo it can not. */
export function proposeUndo(definition: Definition, all: readonly Definition[]): Proposal {
  const tool = shapeOf(definition)
  if (tool.isRead === true) return { misses: [] }
  const others = all.map(shapeOf).filter(({ name }) => name !== tool.name)
  const tried = [
    ...moveBack(tool),
    ...toggleBack(tool),
    ...counterparts(tool, others).map((each) => byCounterpart(tool, each)),
    ...putBack(tool, others),
    ...byState(tool, others),
  ]
  const found = tried.flatMap((each) => (typeof each === 'string' ? [] : [each]))
  const inverse = found.find(({ confidence }) => confidence === 'sure') ?? found[0]
  const misses = tried.flatMap((each) => (typeof each === 'string' ? [each] : []))
  return { ...(inverse && { inverse }), misses: [...new Set(misses)] }
}

function byCounterpart(tool: ToolShape, counterpart: Counterpart): Inverse | string {
  const { tool: other, verb, opposite, kind } = counterpart
  const isAll = kind === 'unmakes'
  const isUseful = (field: Field): boolean =>
    isAll || sharedWith(tool, field)?.isRequired === true || isOwnIdentity(field, counterpart)
  const filling = fillCall(other, sourcesOf(tool, counterpart), isUseful)
  const missing = missingOf(filling, isAll ? other.inputs : [])
  if (!filling || missing) return missing ? missed(missing, tool, other) : unreadable(other)
  if (!('call' in filling)) return unreadable(other)
  const { call, isSure, why } = filling
  const text = printExpression(call)
  const left = isAll ? [] : leftOut(tool, counterpart, call)
  return {
    undo: isAll ? { call: text, exact: false } : text,
    why: [
      `${other.name} has its name with "${opposite}" for "${verb}"`,
      ...why,
      ...(isAll ? ['what was taken away may have held more than its arguments say'] : []),
      ...left,
    ],
    confidence: isSure && !isAll && left.length === 0 ? 'sure' : 'check',
  }
}

/** What is left over of those that all have to be filled. */
function missingOf(filling: Filling | undefined, all: readonly Field[] | undefined): Field | undefined {
  if (!filling) return undefined
  if ('missing' in filling) return filling.missing
  return all?.find(({ name }) => !filling.call.arguments.has(name))
}

/** What a call does not say that may tell which thing is meant, for people: without it other things may be hit. */
function leftOut(
  tool: ToolShape,
  counterpart: Counterpart,
  { arguments: given }: Expression,
): readonly string[] {
  const { inputs = [], name } = counterpart.tool
  const isDoubtful = (field: Field): boolean =>
    !given.has(field.name) && (sharedWith(tool, field) !== undefined || isOwnIdentity(field, counterpart))
  const left = inputs.filter(isDoubtful).map((field) => `${name} is called without ${field.name}`)
  const isNameless = given.size === 0 && (tool.inputs?.length ?? 0) > 0
  return isNameless && left.length === 0 ? [`nothing tells ${name} which one is meant`] : left
}

function sharedWith({ inputs }: ToolShape, { name }: Field): Field | undefined {
  return inputs?.find((each) => each.name === name)
}

/** Whether an argument says which of the things is meant that both tools are about. */
function isOwnIdentity(field: Field, { nouns, verb }: Counterpart): boolean {
  return isIdentity(field) && isAbout(field.words.slice(0, -1), nouns.at(-1), verb)
}

function isAbout(words: readonly string[], noun: string | undefined, verb: string): boolean {
  return words.every((word) => (noun !== undefined && isSameNoun(word, noun)) || isOf(word, verb))
}

function sourcesOf(tool: ToolShape, { kind, nouns, verb }: Counterpart): readonly Source[] {
  const noun = nouns.at(-1)
  const args = fromFields('args', tool.inputs ?? [], { noun, origin: 'arguments' })
  const results = fromFields('result', tool.outputs ?? [], { noun, origin: 'result' })
  // Of what was asked for, the result says what was really done.
  const done: Source = (wanted) =>
    wanted.schema.type === 'array' || isIdentity(wanted) ? results(wanted) : undefined
  const members = fromMembers('result', tool.outputs ?? [], 'result')
  const first = kind === 'makes' ? [done, members] : []
  return [
    ...first,
    args,
    results,
    fromMembers('args', tool.inputs ?? [], 'arguments'),
    ...(kind === 'unmakes' ? [] : [inside(tool, noun), guess(tool, noun, verb)]),
  ]
}

const identities = new Set('id key number uuid guid iid'.split(' '))

function isIdentity({ words }: Field): boolean {
  return identities.has(words.at(-1) ?? '')
}

/** What was made may stand in the result under its own name. */
function inside({ outputs }: ToolShape, noun: string | undefined): Source {
  return (wanted) => {
    const holder = outputs?.find(({ words }) => noun !== undefined && areSameNouns(words, [noun]))
    const fields = holder && fieldsOf(holder.schema)
    if (!holder || !fields || holder.schema.type === 'array') return undefined
    const found = fromFields('result', fields, { noun, origin: holder.name })(wanted)
    if (found?.value.kind !== 'path') return undefined
    const steps = [holder.name, ...found.value.path.steps]
    return { ...found, value: placed('result', steps), isSure: found.isSure && holder.isRequired }
  }
}

/** Where the server does not say what it answers, what it made is likely known by what such things are known by. */
function guess({ outputs }: ToolShape, noun: string | undefined, verb: string): Source {
  return (wanted): Filled | undefined => {
    if (outputs || !isIdentity(wanted)) return undefined
    const about = wanted.words.slice(0, -1)
    if (!isAbout(about, noun, verb)) return undefined
    const name = about.length === 0 ? wanted.name : (without(wanted.words, about[0]).at(-1) ?? wanted.name)
    return {
      value: placed('result', [name]),
      isSure: false,
      why: `${wanted.name} is taken to be ${name} of the result: there is no outputSchema that says so`,
    }
  }
}

/** Whether a noun is made of a verb: subscription, subscribe. */
function isOf(noun: string, verb: string): boolean {
  return noun.length > 5 && noun.slice(0, 5) === verb.slice(0, 5)
}

function missed(field: Field, tool: ToolShape, other: ToolShape): string {
  return `${other.name} seems to undo it, but takes ${field.name}, which neither the arguments nor the result of ${tool.name} have`
}

function unreadable({ name }: ToolShape): string {
  return `${name} seems to undo it, but its inputSchema does not list its arguments one by one`
}

const moves = ['move', 'rename']
const ends: readonly (readonly [string, string])[] = [
  ['source', 'destination'],
  ['source', 'target'],
  ['src', 'dst'],
  ['src', 'dest'],
  ['from', 'to'],
  ['old', 'new'],
  ['', 'new'],
]

/** What was moved from one place to another is moved the other way. */
function moveBack(tool: ToolShape): readonly Inverse[] {
  const needed = tool.inputs?.filter(({ isRequired }) => isRequired) ?? []
  if (!tool.words.some((word) => moves.includes(word))) return []
  for (const [from, to] of ends) {
    const start = needed.find((each) => needed.some((end) => end !== each && areEnds(each, end, [from, to])))
    const end = start && needed.find((each) => each !== start && areEnds(start, each, [from, to]))
    if (!start || !end) continue
    const swapped = new Map([
      [start.name, end.name],
      [end.name, start.name],
    ])
    const given = needed.map(({ name }) => [name, placed('args', [swapped.get(name) ?? name])] as const)
    const call: Expression = { tool: tool.name, arguments: new Map(given) }
    const why = [`it moves from ${start.name} to ${end.name}, and so it moves back`]
    return [{ undo: printExpression(call), why, confidence: 'sure' }]
  }
  return []
}

/** What switches something over does so the second time too. */
function toggleBack(tool: ToolShape): readonly Inverse[] {
  if (!tool.words.includes('toggle') || !tool.inputs) return []
  const needed = tool.inputs.filter(({ isRequired }) => isRequired)
  const given = needed.map(({ name }) => [name, placed('args', [name])] as const)
  const call: Expression = { tool: tool.name, arguments: new Map(given) }
  const why = ['by its name it switches something over, which a second call switches back']
  return [{ undo: printExpression(call), why, confidence: 'check' }]
}

function areEnds(start: Field, end: Field, [from, to]: readonly [string, string]): boolean {
  if (!end.words.includes(to) || (from !== '' && !start.words.includes(from))) return false
  const rest = (words: readonly string[], word: string): string =>
    words.filter((each) => each !== word).join(' ')
  return rest(start.words, from) === rest(end.words, to)
}

const over = ['closed', 'archived', 'cancelled', 'canceled', 'deleted', 'inactive', 'disabled']
const makers = ['create', 'add', 'open', 'insert']

/** What was made and can not be deleted may have a state in which it is over. */
function byState(tool: ToolShape, others: readonly ToolShape[]): readonly Inverse[] {
  const { verb, nouns = [] } = saidBy(tool.words).find((each) => makers.includes(each.verb)) ?? {}
  if (verb === undefined) return []
  const updates = others.filter(({ words }) =>
    ['update', 'edit', 'set', 'modify'].some((each) => isSaid(words, each, nouns)),
  )
  return updates.flatMap((other): Inverse[] => {
    const state = other.inputs?.find(({ words }) => ['state', 'status'].includes(words.at(-1) ?? ''))
    const values: readonly unknown[] = Array.isArray(state?.schema.enum) ? state.schema.enum : []
    const value = over.find((each) => values.includes(each))
    if (!state || value === undefined) return []
    const said: Source = (wanted) =>
      wanted === state
        ? {
            value: { kind: 'literal', value },
            isSure: true,
            why: `${state.name} can be ${JSON.stringify(value)}`,
          }
        : undefined
    const counterpart: Counterpart = { tool: other, verb, opposite: 'update', nouns, kind: 'makes' }
    const filling = fillCall(other, [said, ...sourcesOf(tool, counterpart)], (field) => field === state)
    if (!filling || 'missing' in filling) return []
    const why = ['nothing deletes what it makes', ...filling.why]
    return [{ undo: { call: printExpression(filling.call), exact: false }, why, confidence: 'check' }]
  })
}

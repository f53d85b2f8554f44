/** The state of a server as its reads show it: which reads, what they return, and where two states differ. */
import { displayCall } from '../../core/masked-arguments.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { isObject } from '../../core/json/json.ts'
import { shortened } from '../../core/text/escape.ts'
import { fromFields, fromMembers, mapArguments } from '../../core/undo/argument-mapping.ts'
import { evaluate, type Expression } from '../../core/undo/expression.ts'
import { nounOf } from '../../core/undo/selectors.ts'
import { type Field, shapeOf } from '../../core/undo/tool-shape.ts'
import { valuesThatDiffer } from '../diff.ts'
import { steady, timeShapes } from '../steady.ts'
import { isPathName, type Sandbox } from './sandbox.ts'
import type { Json, ProofCall, ProofTarget } from './target.ts'

/** The most reads of a state. */
const MAX_READS = 24

/** What each read returns, without times. */
export type State = readonly { readonly call: ProofCall; readonly value: unknown }[]

interface ReadSources {
  readonly reads: readonly Descriptor[]
  readonly sandbox: Sandbox
  /** Reads that belong to the rules of the tool. */
  readonly expressions: readonly Expression[]
  /** Reads that show the state, in place of those that are found. */
  readonly given: readonly ProofCall[]
}

/** The reads that could show the effect of a call with these arguments. */
export function readsFor(tool: Json, args: Json, sources: ReadSources): readonly ProofCall[] {
  const { reads, sandbox, expressions, given } = sources
  const own = expressions.flatMap((expression) => callsOf(expression, args))
  if (given.length > 0) return [...given, ...own].slice(0, MAX_READS)
  const shape = shapeOf(tool)
  const noun = nounOf(shape.words)
  const inputs = shape.inputs ?? []
  const fields = [
    fromFields('args', inputs, { noun, origin: 'arguments' }),
    fromMembers('args', inputs, 'arguments'),
  ]
  const places = placesIn(args, sandbox)
  const found = reads.flatMap(({ definition }): ProofCall[] => {
    const read = shapeOf(definition)
    const mapped = mapArguments(read, fields, () => false)
    const byName = mapped?.call ? callsOf(mapped.call, args) : []
    return [...byName, ...byPlace(read.name, read.inputs ?? [], places)]
  })
  const unique = new Map([...own, ...found].map((call) => [keyOf(call), call]))
  return [...unique.values()].slice(0, MAX_READS)
}

/** Reads the state. */
export async function readState(target: ProofTarget, reads: readonly ProofCall[]): Promise<State> {
  const state: State[number][] = []
  for (const call of reads) {
    const { failure, fields, value } = await target.call(call)
    const { structuredContent, content } = fields
    const shownFields = failure === undefined ? (structuredContent ?? content ?? value) : { failure }
    state.push({ call, value: steady(shownFields, timeShapes) })
  }
  return state
}

/** The reads that return the same twice, so that a difference is an effect. */
export async function steadyReads(
  target: ProofTarget,
  reads: readonly ProofCall[],
): Promise<readonly ProofCall[]> {
  const [before, after] = [await readState(target, reads), await readState(target, reads)]
  return reads.filter(
    (_call, at) => differenceOf(before.slice(at, at + 1), after.slice(at, at + 1)) === undefined,
  )
}

/** Where two states of the same reads differ first, for people; undefined if they are equal. */
export function differenceOf(before: State, after: State): string | undefined {
  for (const [at, { call, value }] of before.entries()) {
    const [changed] = valuesThatDiffer(value, after[at]?.value)
    if (!changed) continue
    const { path } = changed
    const [was, is] = [shown(changed.before), shown(changed.after)]
    return `${displayCall(call.tool, call.arguments)} shows ${path === '' ? 'the result' : path} as ${is}, not as ${was}`
  }
  return undefined
}

const MAX_SHOWN = 80

function shown(value: unknown): string {
  return shortened(JSON.stringify(value) ?? 'absent', MAX_SHOWN)
}

/** The call of an expression, if its values are in the arguments. */
function callsOf(expression: Expression, args: Json): ProofCall[] {
  try {
    return [{ tool: expression.tool, arguments: evaluate(expression, { args }) }]
  } catch {
    return []
  }
}

/** Reads of each place: of those in the arguments, and of the whole sandbox. */
function byPlace(tool: string, inputs: readonly Field[], places: Places): ProofCall[] {
  const required = inputs.filter(({ isRequired }) => isRequired)
  const [field, ...others] = required
  if (!field || others.length > 0) return []
  const values = isPathName(field.name) ? places.paths : (places.named.get(field.name) ?? [])
  const isList = field.schema.type === 'array'
  return values.map((value) => ({ tool, arguments: { [field.name]: isList ? [value] : value } }))
}

interface Places {
  readonly paths: readonly string[]
  readonly named: ReadonlyMap<string, readonly string[]>
}

function placesIn(args: Json, { folders, named }: Sandbox): Places {
  const texts: string[] = []
  const look = (value: unknown, name: string): void => {
    if (typeof value === 'string' && isPathName(name)) texts.push(value)
    else if (Array.isArray(value)) value.forEach((each) => look(each, name))
    else if (isObject(value)) for (const [key, member] of Object.entries(value)) look(member, key)
  }
  look(args, '')
  const fixed = [...named]
    .filter(([, value]) => !value.endsWith('*'))
    .map(([name, value]) => [name, [value]] as const)
  const inNamed = [...named].flatMap(([name, value]) =>
    isPathName(name) && !value.endsWith('*') ? [value] : [],
  )
  return { paths: [...new Set([...folders, ...inNamed, ...texts])], named: new Map(fixed) }
}

function keyOf({ tool, arguments: args }: ProofCall): string {
  return `${tool} ${JSON.stringify(args)}`
}

/** Reads that show whether a call with a lost response took effect: how they are proposed, and what they found. */
import { isObject } from '../json/json.ts'
import type { Path } from '../json/path.ts'
import { fromFields, mapArguments } from './argument-mapping.ts'
import { printExpression } from './expression.ts'
import { indexOf, readingOf } from './name-readings.ts'
import { shapeOf, type ToolShape } from './tool-shape.ts'
import { wordSet } from '../text/words.ts'

/**
 * What a verifying read found at its path. The value is absent if a list is too short, a value is null, or the last
 * member is missing; if the structure differs from the path in any other way, the read is inconclusive.
 * @throws Error if the read is inconclusive
 */
export function foundAt(result: unknown, { steps }: Path): { readonly value: unknown } | undefined {
  let current = result
  for (const [index, step] of steps.entries()) {
    if (step === null) throw new Error('the path matches several values')
    if (current === null) return undefined
    if (typeof step === 'number') {
      if (!Array.isArray(current)) throw new Error(`no list before [${step}]`)
      current = current[step]
      if (current === undefined) return undefined
      continue
    }
    if (!isObject(current)) throw new Error(`no object before .${step}`)
    const isLast = index === steps.length - 1
    if (!Object.hasOwn(current, step)) {
      if (isLast) return undefined
      throw new Error(`no member .${step}`)
    }
    current = current[step]
  }
  if (current === undefined) throw new Error('the read returned no result')
  const isEmpty = current === null || current === '' || (Array.isArray(current) && current.length === 0)
  return isEmpty ? undefined : { value: current }
}

type Definition = Readonly<Record<string, unknown>>

const creatingVerbs = wordSet('create add insert upload register send post open write append make submit')
const findingVerbs = 'list search find query lookup get read'.split(' ')

/** A proposed `verify` rule: a read that could show whether a tool took effect; undefined if the server lists none. */
export function proposeVerify(definition: Definition, reads: readonly Definition[]): string | undefined {
  const tool = shapeOf(definition)
  const created = readingOf(tool.words).find(({ verb }) => creatingVerbs.has(verb))
  if (!created) return undefined
  const plans = indexOf(reads)
    .withNouns(findingVerbs, created.nouns)
    .flatMap((read) => readPlan(tool, read, created.nouns.at(-1)) ?? [])
  return plans.toSorted((one, other) => other.given - one.given)[0]?.text
}

/** A call of a read with arguments from the call of the tool, and where the result shows that it took effect. */
function readPlan(
  tool: ToolShape,
  read: ToolShape,
  noun: string | undefined,
): { readonly given: number; readonly text: string } | undefined {
  const args = fromFields('args', tool.inputs ?? [], { noun, origin: 'arguments' })
  const names = new Set(tool.inputs?.filter(({ isRequired }) => isRequired).map(({ name }) => name))
  const mapped = mapArguments(read, [args], ({ name }) => names.has(name))
  if (!mapped?.call || mapped.call.arguments.size === 0) return undefined
  const list = read.outputs?.find(({ schema }) => schema.type === 'array')
  if (!list) return undefined
  const find = { root: 'result', steps: [list.name, 0] } as const
  return { given: mapped.call.arguments.size, text: printExpression({ ...mapped.call, find }) }
}

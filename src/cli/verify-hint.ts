import { mapArguments, fromFields } from '../core/filling.ts'
import { printExpression } from '../core/print-expression.ts'
import { readingOf } from '../core/readings.ts'
import { indexOf } from '../core/tool-index.ts'
import { shapeOf, type ToolShape } from '../core/tool-shape.ts'

type Definition = Readonly<Record<string, unknown>>

const makers = new Set('create add insert upload register send post open write append make submit'.split(' '))
const finders = 'list search find query lookup get read'.split(' ')

/** A read that could tell whether a tool took effect: what `verify` may say, where the server lists one. */
export function verifyHint(definition: Definition, reads: readonly Definition[]): string | undefined {
  const tool = shapeOf(definition)
  const said = readingOf(tool.words).find(({ verb }) => makers.has(verb))
  if (!said) return undefined
  const finding = indexOf(reads)
    .said(finders, said.nouns)
    .flatMap((read) => looking(tool, read, said.nouns.at(-1)) ?? [])
  return finding.toSorted((one, other) => other.given - one.given)[0]?.text
}

/** A call of a read that names something the call of the tool named, and what is there if it took effect. */
function looking(
  tool: ToolShape,
  read: ToolShape,
  noun: string | undefined,
): { readonly given: number; readonly text: string } | undefined {
  const args = fromFields('args', tool.inputs ?? [], { noun, origin: 'arguments' })
  const names = new Set(tool.inputs?.filter(({ isRequired }) => isRequired).map(({ name }) => name))
  const filled = mapArguments(read, [args], ({ name }) => names.has(name))
  if (!filled || 'missing' in filled || filled.call.arguments.size === 0) return undefined
  const list = read.outputs?.find(({ schema }) => schema.type === 'array')
  if (!list) return undefined
  const find = { root: 'result', steps: [list.name, 0] } as const
  return { given: filled.call.arguments.size, text: printExpression({ ...filled.call, find }) }
}

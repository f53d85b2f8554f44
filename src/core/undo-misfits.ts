/**
 * Holds the calls that undo or verify a tool against what its server lists: that the tools, arguments and fields
 * they name are there, and that the types of their values go together.
 */
import type { Descriptor } from './entry.ts'
import { type Expression, pathsOf } from './expression.ts'
import { hint, argumentMismatches, strayed } from './misfits.ts'
import type { Root } from './path.ts'
import type { UndoRule } from './undo.ts'

/** A call as the configuration has it, and where its values come from. */
export interface WrittenUndo {
  readonly expression: Expression
  /** The tools it is written for. */
  readonly subjects: readonly Descriptor[]
  /** Whose result `$.result` stands for; of the subjects unless said otherwise. */
  readonly resultOf?: 'itself'
  /** What is read before the call; its result is what `$.snapshot` stands for. */
  readonly snapshot?: Expression
  /** The tool it names must not do anything. */
  readonly mustRead?: true
}

/** What of a call does not go together with the tools of a server, for people. */
export function writtenMismatches(
  written: WrittenUndo,
  upstream: string,
  tools: readonly Descriptor[],
): string[] {
  const { expression, mustRead, subjects, snapshot, resultOf } = written
  const named = (name: string): Descriptor | undefined => tools.find((each) => each.name === name)
  const target = named(expression.tool)
  if (!target) {
    const known = tools.map(({ name }) => name)
    return [`${upstream} has no tool ${expression.tool}${hint(expression.tool, known)}`]
  }
  const read = snapshot && named(snapshot.tool)
  const answering = resultOf === 'itself' ? [target] : subjects
  const schemas: Schemas = {
    args: subjects.map(({ name, definition }) => [name, definition.inputSchema]),
    result: answering.map(({ name, definition }) => [name, definition.outputSchema]),
    snapshot: read ? [[read.name, read.definition.outputSchema]] : [],
  }
  return [
    ...(mustRead && target.classification.op !== 'read' ? [notReading(target)] : []),
    ...argumentMismatches(expression, target.definition.inputSchema, schemas),
    ...astray(expression, schemas),
  ]
}

/** The calls of a rule, by the key they are written under. */
export function callsOf(
  rule: UndoRule,
): readonly (Pick<WrittenUndo, 'expression' | 'snapshot' | 'mustRead'> & { readonly key: string })[] {
  if (rule.kind === 'none') return []
  if (rule.kind === 'call') return [{ key: 'call', expression: rule.call }]
  const { snapshot, restore, absent } = rule
  return [
    { key: 'snapshot', expression: snapshot, mustRead: true },
    { key: 'restore', expression: restore, snapshot },
    ...(absent ? [{ key: 'absent', expression: absent }] : []),
  ]
}

/** What of a rule does not go together with the tools of a server, for one tool it is for. */
export function undoMismatches(rule: UndoRule, subject: Descriptor, tools: readonly Descriptor[]): string[] {
  const found = callsOf(rule).flatMap((call) =>
    writtenMismatches({ ...call, subjects: [subject] }, subject.upstream, tools),
  )
  return [...new Set(found)]
}

/** What paths lead into: schemas, with the names of their tools. */
type Schemas = Readonly<Record<Root, readonly (readonly [string, unknown])[]>>

/** A path that leads nowhere for any of the tools is one too many. */
function astray(expression: Expression, schemas: Schemas): string[] {
  const { find } = expression
  const paths = [...pathsOf(expression), ...(find ? [find] : [])]
  return paths.flatMap((path) =>
    schemas[path.root].flatMap(([tool, schema]) => strayed(path, schema, tool) ?? []),
  )
}

function notReading({ name, classification }: Descriptor): string {
  const [why] = classification.evidence
  const because = why === undefined ? '' : ` (${why})`
  return `${name} is called to look something up, but does not only read${because}; write op: read for it if it does`
}

import type { Entry } from '../../core/entry.ts'
import { type Expression, parseExpression, pathsOf } from '../../core/expression.ts'
import type { Root } from '../../core/path.ts'
import type { Finding } from '../../core/finding.ts'
import { hint, misfits, strayed } from '../../core/misfits.ts'
import type { ToolSettings } from '../../core/settings.ts'
import { settingOf } from '../../core/tool-settings.ts'
import { readUndo } from '../../core/undo.ts'
import { toolsToCheck } from '../discovered.ts'
import type { Deps } from '../feature.ts'

/** What of the calls that undo or verify does not go together with what servers list. */
export async function liveProblems(deps: Deps): Promise<Finding[]> {
  const found = await Promise.all(deps.servers().map((name) => serverProblems(name, deps)))
  return found.flat()
}

async function serverProblems(upstream: string, deps: Deps): Promise<Finding[]> {
  const settings = deps.server(upstream)?.tools ?? {}
  const written = Object.entries(settings).flatMap(([glob, tool]) => writtenIn(glob, tool))
  if (written.length === 0) return []
  const tools = await toolsToCheck(upstream, deps, 'undo.unchecked')
  if (!tools) return []
  return written.flatMap(({ path, ...each }) => {
    const found = problemsOf(each, { upstream, tools, settings })
    return [...new Set(found)].map((message) => ({
      path: ['upstreams', upstream, 'tools', ...path],
      message,
    }))
  })
}

/** An expression of the configuration. */
interface Written {
  readonly glob: string
  readonly key: 'undo' | 'verify'
  readonly expression: Expression
  /** What is read before the call; its result is what `$.snapshot` stands for. */
  readonly snapshot?: Expression
  /** The tool it names must not do anything. */
  readonly mustRead?: true
}

type Placed = Written & { readonly path: readonly string[] }

function writtenIn(glob: string, { undo, verify }: ToolSettings): Placed[] {
  const verifying: Placed[] =
    verify === undefined
      ? []
      : [{ glob, key: 'verify', path: [glob, 'verify'], expression: parseExpression(verify), mustRead: true }]
  if (undo === undefined) return verifying
  const rule = readUndo(undo)
  if (rule.kind === 'none') return verifying
  const at = (key: string): readonly string[] =>
    typeof undo === 'string' ? [glob, 'undo'] : [glob, 'undo', key]
  if (rule.kind === 'call')
    return [{ glob, key: 'undo', path: at('call'), expression: rule.call }, ...verifying]
  const { snapshot, restore, absent } = rule
  return [
    { glob, key: 'undo', path: at('snapshot'), expression: snapshot, mustRead: true },
    { glob, key: 'undo', path: at('restore'), expression: restore, snapshot },
    ...(absent ? [{ glob, key: 'undo', path: at('absent'), expression: absent } as const] : []),
    ...verifying,
  ]
}

interface Surroundings {
  readonly upstream: string
  readonly tools: readonly Entry[]
  readonly settings: Readonly<Record<string, ToolSettings>>
}

function problemsOf(written: Written, { upstream, tools, settings }: Surroundings): string[] {
  const { expression, glob, key, mustRead } = written
  const named = (name: string): Entry | undefined => tools.find((each) => each.name === name)
  const target = named(expression.tool)
  if (!target) {
    const known = tools.map(({ name }) => name)
    return [`${upstream} has no tool ${expression.tool}${hint(expression.tool, known)}`]
  }
  const subjects = tools.filter(({ name }) => settingOf(settings, name, key)?.glob === glob)
  const read = written.snapshot && named(written.snapshot.tool)
  const schemas: Schemas = {
    args: subjects.map(({ name, definition }) => [name, definition.inputSchema]),
    result: (key === 'verify' ? [target] : subjects).map(({ name, definition }) => [
      name,
      definition.outputSchema,
    ]),
    snapshot: read ? [[read.name, read.definition.outputSchema]] : [],
  }
  return [
    ...(mustRead && target.nature.op !== 'read' ? [notReading(target)] : []),
    ...misfits(expression, target.definition.inputSchema),
    ...astray(expression, schemas),
  ]
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

function notReading({ name, nature }: Entry): string {
  const [why] = nature.evidence
  const because = why === undefined ? '' : ` (${why})`
  return `${name} is called to look something up, but does not only read${because}; write op: read for it if it does`
}

import type { Entry } from '../core/entry.ts'
import { inverseOf } from '../core/inverse.ts'
import type { ToolSettings } from '../core/settings.ts'
import { readUndo, type UndoRule, undoRuleOf } from '../core/undo.ts'

interface Options {
  settings(upstream: string): Readonly<Record<string, ToolSettings>> | undefined
  /** The entries of all tools of a server. @throws what listing throws */
  tools(upstream: string): Promise<readonly Entry[]>
  /** Whether it may be found out from a server's own tools how one of them is undone. */
  isDerived(upstream: string): boolean
}

/** How what a tool of a server does is undone. @throws what listing throws */
type UndoRules = (upstream: string, tool: string) => UndoRule | undefined | Promise<UndoRule | undefined>

/** How long the tools of a server are taken as they were, in milliseconds. */
const FRESH = 10_000

/** Finds how tools are undone: what is configured goes before what is found out. */
export function createUndoRules({ settings, tools, isDerived }: Options): UndoRules {
  const known = new Map<string, { readonly at: number; readonly rules: Promise<Rules> }>()
  const rulesOf = (upstream: string): Promise<Rules> => {
    const found = known.get(upstream)
    if (found && performance.now() - found.at < FRESH) return found.rules
    const rules = tools(upstream).then((entries) => derived(entries))
    known.set(upstream, { at: performance.now(), rules })
    rules.catch(() => known.delete(upstream))
    return rules
  }
  return (upstream, tool) => {
    const own = settings(upstream)
    const configured = own && undoRuleOf(own, tool)
    if (configured || !own || !isDerived(upstream)) return configured?.rule
    return rulesOf(upstream).then((rules) => rules.get(tool))
  }
}

type Rules = ReadonlyMap<string, UndoRule>

/** The rules nobody has to look at before they are used. */
function derived(entries: readonly Entry[]): Rules {
  const all = entries.map(({ definition }) => definition)
  const found = entries.flatMap(({ name, definition }) => {
    const inverse = inverseOf(definition, all)
    return inverse?.confidence === 'sure' ? [[name, readUndo(inverse.undo)] as const] : []
  })
  return new Map(found)
}

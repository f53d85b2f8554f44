/**
 * Finds the undo rule of a tool: the configured rule takes precedence over one derived from the server's list. Only
 * what `judgeUndo` reports as derived is used.
 */
import { world } from '../core/world.ts'
import type { Descriptor } from '../core/descriptor.ts'
import type { ToolSettings } from '../core/settings.ts'
import { type UndoRule, undoRuleOf } from '../core/undo/rules.ts'
import { judgeUndo } from '../core/undo/judge-undo.ts'

interface Options {
  settings(upstream: string): Readonly<Record<string, ToolSettings>> | undefined
  /** The descriptors of all tools of a server. @throws the error of listing */
  tools(upstream: string): Promise<readonly Descriptor[]>
  /** Whether undo rules may be derived from a server's own tools. */
  isDerived(upstream: string): boolean
}

/** The undo rules of the servers' tools. */
interface UndoRules {
  /** The undo rule of a tool, immediately if it is configured. @throws the error of listing */
  of(upstream: string, tool: string): UndoRule | undefined | Promise<UndoRule | undefined>
  /** The undo rule of a tool, given all tools of its server. */
  among(entry: Descriptor, all: readonly Descriptor[]): UndoRule | undefined
}

/** How long the list of a server's tools is cached, in milliseconds. */
const FRESH_MS = 10_000

/** Creates the lookup of undo rules. */
export function createUndoRules({ settings, tools, isDerived }: Options): UndoRules {
  const known = new Map<string, { readonly at: number; readonly listed: Promise<readonly Descriptor[]> }>()
  const listedBy = (upstream: string): Promise<readonly Descriptor[]> => {
    const found = known.get(upstream)
    if (found && world.monotonic() - found.at < FRESH_MS) return found.listed
    const listed = tools(upstream)
    known.set(upstream, { at: world.monotonic(), listed })
    listed.catch(() => known.delete(upstream))
    return listed
  }
  const judged = new WeakMap<Descriptor, UndoRule | undefined>()
  const derived = (entry: Descriptor, all: readonly Descriptor[]): UndoRule | undefined => {
    if (judged.has(entry)) return judged.get(entry)
    const { rule } = judgeUndo(entry, all, { tools: settings(entry.upstream) ?? {}, isDerived: true })
    judged.set(entry, rule)
    return rule
  }
  return {
    of: (upstream, tool) => {
      const own = settings(upstream)
      const configured = own && undoRuleOf(own, tool)
      if (configured || !own || !isDerived(upstream)) return configured?.rule
      return listedBy(upstream).then((all) => {
        const entry = all.find(({ name }) => name === tool)
        return entry && derived(entry, all)
      })
    },
    among: (entry, all) => {
      const configured = undoRuleOf(settings(entry.upstream) ?? {}, entry.name)
      if (configured || !isDerived(entry.upstream)) return configured?.rule
      return derived(entry, all)
    },
  }
}

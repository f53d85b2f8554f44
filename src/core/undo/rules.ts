/** The undo rule of a tool from its settings. */
import { type Expression, parseExpression, type UndoSettings } from './expression.ts'
import { type ToolSettings, settingOf } from '../settings.ts'

/** How the effect of a tool is undone. */
export type UndoRule =
  | (Manner & { readonly kind: 'call'; readonly call: Expression })
  | (Manner & {
      readonly kind: 'restore'
      /** What is read before the call, and what restores it. */
      readonly snapshot: Expression
      readonly restore: Expression
      /** What undoes the call if there was nothing to read; without it nothing can. */
      readonly absent?: Expression
    })
  /** Declared to be irreversible. */
  | { readonly kind: 'none' }

interface Manner {
  /** Whether the undo restores everything. */
  readonly isExact: boolean
  readonly description?: string
}

/** A rule, and the glob of the tools it applies to. */
interface FoundUndoRule {
  readonly glob: string
  readonly rule: UndoRule
}

/** Declares that there is none, instead of an expression. */
const NONE = 'none'

/** The configured undo rule of a tool; undefined if there is none. @throws TypeError */
export function undoRuleOf(
  tools: Readonly<Record<string, ToolSettings>>,
  name: string,
): FoundUndoRule | undefined {
  const found = settingOf(tools, name, 'undo')
  if (!found) return undefined
  const known = rules.get(tools) ?? new Map<string, UndoRule>()
  rules.set(tools, known)
  const rule = known.get(found.glob) ?? readUndo(found.value)
  known.set(found.glob, rule)
  return { glob: found.glob, rule }
}

/** Parsed rules, by their settings object and glob. */
const rules = new WeakMap<object, Map<string, UndoRule>>()

/** Parses an undo setting. @throws TypeError if it is invalid */
export function readUndo(written: string | UndoSettings): UndoRule {
  if (written === NONE) return { kind: 'none' }
  if (typeof written === 'string') return { kind: 'call', call: parseExpression(written), isExact: true }
  const { call, snapshot, restore, absent = NONE, exact, description } = written
  const manner: Manner = { isExact: exact ?? true, ...(description !== undefined && { description }) }
  if (call !== undefined) return { kind: 'call', call: parseExpression(call), ...manner }
  if (snapshot === undefined || restore === undefined)
    throw new TypeError('it requires `call`, or `snapshot` and `restore`')
  return {
    kind: 'restore',
    snapshot: parseExpression(snapshot),
    restore: parseExpression(restore),
    ...(absent !== NONE && { absent: parseExpression(absent) }),
    ...manner,
  }
}

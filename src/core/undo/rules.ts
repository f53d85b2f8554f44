/** The undo rule of a tool from its settings. */
import { type Expression, parseExpression } from './expression.ts'
import { type ToolSettings, type UndoSettings, settingOf } from '../settings.ts'

/** How what a tool does is undone. */
export type UndoRule =
  | (Manner & { readonly kind: 'call'; readonly call: Expression })
  | (Manner & {
      readonly kind: 'restore'
      /** What is read before the call, and what puts it back. */
      readonly snapshot: Expression
      readonly restore: Expression
      /** What undoes the call where there was nothing to read; nothing can where it is not there. */
      readonly absent?: Expression
    })
  /** It is said that there is no way back. */
  | { readonly kind: 'none' }

interface Manner {
  /** Everything is as before once it is undone. */
  readonly isExact: boolean
  readonly description?: string
}

/** A rule, and the glob of the tools it is for. */
interface FoundUndoRule {
  readonly glob: string
  readonly rule: UndoRule
}

/** Says that there is none, instead of an expression. */
const NONE = 'none'

/** How the configuration says a tool is undone; nothing where it says nothing of it. @throws TypeError */
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

/** Rules that were read, by the settings they stand in and then by glob. */
const rules = new WeakMap<object, Map<string, UndoRule>>()

/** Reads how a tool is undone. @throws TypeError where it cannot be understood */
export function readUndo(written: string | UndoSettings): UndoRule {
  if (written === NONE) return { kind: 'none' }
  if (typeof written === 'string') return { kind: 'call', call: parseExpression(written), isExact: true }
  const { call, snapshot, restore, absent = NONE, exact, description } = written
  const manner: Manner = { isExact: exact ?? true, ...(description !== undefined && { description }) }
  if (call !== undefined) return { kind: 'call', call: parseExpression(call), ...manner }
  if (snapshot === undefined || restore === undefined)
    throw new TypeError('it needs `call`, or `snapshot` and `restore`')
  return {
    kind: 'restore',
    snapshot: parseExpression(snapshot),
    restore: parseExpression(restore),
    ...(absent !== NONE && { absent: parseExpression(absent) }),
    ...manner,
  }
}

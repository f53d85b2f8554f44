import type { Call } from '../../core/call.ts'
import { evaluate, type Expression } from '../../core/expression.ts'
import { isObject } from '../../core/json.ts'
import { asCalled } from '../../core/judgement/call.ts'
import type { Principal } from '../../core/principal.ts'
import { isTrialCall } from '../../core/selectors.ts'
import { settingOf } from '../../core/tool-settings.ts'
import type { Step } from '../../records/transactions.ts'
import type { Deps } from '../feature.ts'
import { howToConfigure, howToPivot, noUndo } from '../no-undo.ts'

/** What kind of step a call is. */
export async function kindOf(call: Call, deps: Deps): Promise<Step['kind']> {
  const { upstream = '', name = '' } = call.target
  // A tool whose server says nothing of it may change something.
  const entry = await Promise.resolve(deps.entry(call)).catch(() => undefined)
  if (entry && asCalled(entry, call).classification.op === 'read') return 'read'
  if (entry && isTrialCall(entry.definition, call.params.fields.arguments)) return 'read'
  return settingOf(deps.server(upstream)?.tools ?? {}, name, 'pivot')?.value === true ? 'pivot' : 'write'
}

/**
 * Sees to it that what a call does can be undone, as far as that is known before it is made: there is a way back,
 * and the caller may go it. @throws COMPENSATION_UNAVAILABLE
 */
export async function mustBeUndoable(call: Call, principal: Principal, deps: Deps): Promise<void> {
  const { upstream = '', name = '' } = call.target
  const at = { upstream, tool: name }
  if (!deps.isOn('undo', upstream))
    throw noUndo(at, 'undo is switched off', `Switch features.undo on for ${upstream}.`)
  const rule = await deps.undoRule(upstream, name)
  if (!rule) throw noUndo(at, 'it is not known how it is undone', howToConfigure(at))
  if (rule.kind === 'none') throw noUndo(at, 'it is configured to have no undo', howToPivot(at))
  const ways = rule.kind === 'call' ? [rule.call] : [rule.restore, rule.absent]
  for (const way of ways) {
    if (!way) continue
    const { tool } = way
    const order = {
      purpose: 'compensate',
      principal,
      upstream,
      tool,
      arguments: foreseen(way, call),
    } as const
    if (!(await deps.isPermitted(deps.internal(order))))
      throw noUndo(at, `you may not call ${tool}, which undoes it`, `Get the rights to call ${tool}.`)
  }
}

/** The arguments of an expression that are known before the call is made. */
function foreseen({ tool, arguments: given }: Expression, { params }: Call): Record<string, unknown> {
  const args = isObject(params.fields.arguments) ? params.fields.arguments : {}
  const known = [...given].flatMap((each) => {
    try {
      return Object.entries(evaluate({ tool, arguments: new Map([each]) }, { args }))
    } catch {
      return []
    }
  })
  return Object.fromEntries(known)
}

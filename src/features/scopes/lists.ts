import type { Call } from '../../core/call.ts'
import type { Entry } from '../../core/entry.ts'
import { Payload } from '../../core/payload.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { NS } from '../../wire/extensions.ts'
import { method } from '../../wire/methods.ts'
import type { Context, Guard } from './context.ts'
import { type Gate, gateOf, isShut } from './gate.ts'
import { missingScopes, requiredScopes } from './requirement.ts'

/** Tells in a list what its entries need of the caller, or leaves out those the caller may not use. */
export function listGuard(name: string, settings: UpstreamSettings, context: Context): Guard {
  const key = method(name).list ?? ''
  const kindOf = (entry: Payload): Gate | undefined => gateFor(entry, key, settings, context)
  return {
    isForAll: context.isHiding && Object.values(settings.deny).includes(true),
    show: (call, outcome) => {
      const list = outcome.kind === 'result' ? outcome.result.at(key) : undefined
      if (outcome.kind !== 'result' || !list || !Array.isArray(list.value)) return outcome
      const entries = list.items.flatMap((entry) => shown(entry, kindOf(entry), call, context.isHiding))
      const text = `[${entries.map((entry) => entry.text).join(',')}]`
      const isPublic = outcome.result.fields.cacheScope === 'public'
      const edits = { [key]: Payload.text(text), ...(isPublic && { cacheScope: 'private' }) }
      return { kind: 'result', result: outcome.result.with(edits) }
    },
  }
}

function gateFor(
  entry: Payload,
  key: string,
  settings: UpstreamSettings,
  { listed, gates }: Context,
): Gate | undefined {
  if (key === 'tools') {
    const tool: Entry | undefined = listed(settings.name, entry.fields)
    return tool && gates(tool, settings)
  }
  const { name, uri, uriTemplate } = entry.fields
  const [kind, subject] =
    key === 'prompts' ? (['prompt', name] as const) : (['resource', uri ?? uriTemplate] as const)
  if (typeof subject !== 'string') return undefined
  return gateOf({ kind, name: subject, nature: { op: 'read', risk: 'safe' } }, settings)
}

function shown(entry: Payload, gate: Gate | undefined, { principal }: Call, isHiding: boolean): Payload[] {
  if (!gate) return isHiding ? [] : [entry]
  if (isHiding && isShut(gate, principal.scopes)) return []
  if (!principal.scopes) return [entry]
  const missing = missingScopes(gate.requirement, principal.scopes)
  const notes = {
    [`${NS}/required_scopes`]: requiredScopes(gate.requirement),
    ...(missing.length > 0 && { [`${NS}/missing_scopes`]: missing }),
  }
  return [entry.withMeta(notes)]
}

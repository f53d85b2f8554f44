import { LRUCache } from 'lru-cache'
import type { Call } from '../../core/call.ts'
import type { Descriptor } from '../../core/entry.ts'
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
  const known = new LRUCache<string, Noted>({ max: MAX_CALLERS })
  const noted = (call: Call, result: Payload): Payload => {
    const list = result.at(key)
    if (!list || !Array.isArray(list.value)) return result
    const entries = list.items.flatMap((entry) => shown(entry, kindOf(entry), call, context.isHiding))
    const text = `[${entries.map((entry) => entry.text).join(',')}]`
    const isPublic = result.fields.cacheScope === 'public'
    return result.with({ [key]: Payload.text(text), ...(isPublic && { cacheScope: 'private' }) })
  }
  return {
    isForAll: context.isHiding && Object.values(settings.deny).includes(true),
    show: (call, outcome) => {
      if (outcome.kind !== 'result') return outcome
      const { text } = outcome.result
      const { scopes } = call.principal
      const who = scopes ? JSON.stringify([...scopes].toSorted()) : ''
      const before = known.get(who)
      // The same list for the same rights is told in the same words, which are encoded once.
      if (before?.text === text) return { kind: 'result', result: before.result }
      const result = noted(call, outcome.result)
      known.set(who, { text, result })
      return { kind: 'result', result }
    },
  }
}

/** A list as it came, and what was made of it. */
interface Noted {
  readonly text: string
  readonly result: Payload
}

/** For how many kinds of callers a list is kept. */
const MAX_CALLERS = 16

function gateFor(
  entry: Payload,
  key: string,
  settings: UpstreamSettings,
  { listed, gates }: Context,
): Gate | undefined {
  if (key === 'tools') {
    const tool: Descriptor | undefined = listed(settings.name, entry.fields)
    return tool && gates(tool, settings)
  }
  const { name, uri, uriTemplate } = entry.fields
  const [kind, subject] =
    key === 'prompts' ? (['prompt', name] as const) : (['resource', uri ?? uriTemplate] as const)
  if (typeof subject !== 'string') return undefined
  return gateOf({ kind, name: subject, classification: { op: 'read', risk: 'safe' } }, settings)
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

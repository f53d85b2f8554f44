import type { Call } from '../../core/call.ts'
import type { Descriptor } from '../../core/entry.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject } from '../../core/json.ts'
import { knownScopes } from '../../core/scope.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import type { Target } from '../../core/target.ts'
import { unknownPrompt, unknownResource, unknownTool } from '../../core/unknown.ts'
import { untilAborted } from '../../core/waiting.ts'
import { method } from '../../wire/methods.ts'
import type { Context, Guard } from './context.ts'
import { type Gate, gateOf, isShut, judge, refusal, type Verdict } from './gate.ts'
import { listGuard } from './lists.ts'
import type { Requirement } from './requirement.ts'
import { hasRules } from './rules.ts'
import { refuseDuplicateReferences, refuseDuplicateKeys, refuseDuplicateKeysWithin } from './twins.ts'

/** The guard of a target; nothing where anybody may call it. */
export function guardOf(target: Target, settings: UpstreamSettings, context: Context): Guard | undefined {
  switch (target.method) {
    case 'tools/call':
      return toolGuard(settings, context)
    case 'prompts/get':
      return nameGuard('prompt', target, settings, context)
    case 'resources/read':
      return nameGuard('resource', target, settings, context)
    case 'completion/complete':
      return { isForAll: hasRules(settings), admit: (call) => admitReference(call, settings, context) }
    case 'subscriptions/listen':
      return { isForAll: hasRules(settings), admit: (call) => withoutShut(call, settings) }
    case 'tools/list':
    case 'prompts/list':
    case 'resources/list':
    case 'resources/templates/list':
      return listGuard(target.method, settings, context)
    default:
      if (target.method.startsWith('tasks/')) return scopeGuard([knownScopes(settings)], context)
      // What the protocol does not define may do anything, as far as one can know.
      return isOfProtocol(target.method) ? undefined : scopeGuard([[`write:${settings.name}`]], context)
  }
}

function toolGuard(settings: UpstreamSettings, context: Context): Guard {
  const { entry, gates, elevateUrl, isHiding } = context
  const pass = (call: Call, found: Descriptor | undefined): Call => {
    const gate = found && gates(found, settings)
    const { scopes } = call.principal
    if (!gate || (isHiding && isShut(gate, scopes))) throw unknownTool(call.target.name ?? '')
    if (gate.rules) refuseDuplicateKeysWithin(call.params.at('arguments'))
    return permitted(call, judge(gate, call.params.fields.arguments, scopes), elevateUrl)
  }
  return {
    isForAll: hasRules(settings),
    admit: (call) => {
      refuseDuplicateKeys(call.params)
      if (call.target.name === undefined) throw unnamed('name')
      const found = entry(call)
      if (!(found instanceof Promise)) return pass(call, found)
      return untilAborted(found, call.signal).then((listed) => pass(call, listed))
    },
  }
}

/** What is only read is known by its name alone. */
function nameGuard(
  kind: 'prompt' | 'resource',
  { name }: Target,
  settings: UpstreamSettings,
  context: Context,
): Guard {
  const isNamed = name !== undefined && name.length <= MAX_NAME_LENGTH
  const gate = isNamed ? gateOf({ kind, name, classification: reading }, settings) : undefined
  return {
    isForAll: hasRules(settings),
    admit: (call) => {
      refuseDuplicateKeys(call.params)
      if (!gate || name === undefined) throw unnamed(kind === 'prompt' ? 'name' : 'uri')
      return admitRead(call, { kind, name, gate }, context)
    },
  }
}

interface Read {
  readonly kind: 'prompt' | 'resource'
  readonly name: string
  readonly gate: Gate
}

function admitRead(call: Call, { kind, name, gate }: Read, { elevateUrl, isHiding }: Context): Call {
  const { scopes } = call.principal
  if (isHiding && isShut(gate, scopes)) throw unknownRead(kind, name)
  if (gate.rules) refuseDuplicateKeysWithin(call.params.at('arguments'))
  return permitted(call, judge(gate, call.params.fields.arguments, scopes), elevateUrl)
}

/** The call, unless it is refused; the audit log is told by which rule. @throws SCOPE_INSUFFICIENT, PERMISSION_DENIED */
function permitted(call: Call, verdict: Verdict, elevateUrl: string | undefined): Call {
  if (verdict.kind === 'allowed') return call
  call.logFields.set('rule', verdict.kind === 'denied' ? 'arguments' : `scopes ${verdict.missing.join(' ')}`)
  throw refusal(verdict, elevateUrl)
}

/** Completing an argument tells of the prompt or resource it is for. */
function admitReference(call: Call, settings: UpstreamSettings, context: Context): Call {
  refuseDuplicateKeys(call.params)
  const { ref } = call.params.fields
  refuseDuplicateReferences(call.params.at('ref'))
  const { name, uri } = isObject(ref) ? ref : {}
  const [kind, subject] = typeof uri === 'string' ? (['resource', uri] as const) : (['prompt', name] as const)
  if (typeof subject !== 'string' || subject.length > MAX_NAME_LENGTH) throw unnamed('ref')
  const gate = gateOf({ kind, name: subject, classification: reading }, settings)
  // The arguments are not those of a prompt, so rules about arguments say nothing of them.
  const bare = { ...gate, rules: gate.rules?.isClosed === true ? gate.rules : undefined }
  return admitRead(call, { kind, name: subject, gate: bare }, context)
}

/** Resources a caller may not read can not be watched either: they are not honoured. */
function withoutShut(call: Call, settings: UpstreamSettings): Call {
  const { notifications } = call.params.fields
  if (!isObject(notifications) || !Array.isArray(notifications.resourceSubscriptions)) return call
  const all: readonly unknown[] = notifications.resourceSubscriptions
  const open = all.filter((uri) => {
    if (typeof uri !== 'string' || uri.length > MAX_NAME_LENGTH) return false
    return !isShut(
      gateOf({ kind: 'resource', name: uri, classification: reading }, settings),
      call.principal.scopes,
    )
  })
  if (open.length === all.length) return call
  const kept = { ...notifications, resourceSubscriptions: open }
  return { ...call, params: call.params.with({ notifications: kept }) }
}

/** What has no name to tell it by: a task is of those who may call anything here. */
function scopeGuard(requirement: Requirement, { elevateUrl }: Context): Guard {
  return {
    isForAll: false,
    admit: (call) =>
      permitted(call, judge({ requirement, rules: undefined }, {}, call.principal.scopes), elevateUrl),
  }
}

function isOfProtocol(name: string): boolean {
  const { capability, only, nameIn } = method(name)
  return capability !== undefined || only !== undefined || nameIn !== undefined
}

/** How long a name may be, in characters: each is read in many ways. */
const MAX_NAME_LENGTH = 8192

const reading = { op: 'read', risk: 'safe' } as const

function unknownRead(kind: 'prompt' | 'resource', name: string): GatewayError {
  return kind === 'prompt' ? unknownPrompt(name) : unknownResource(name)
}

function unnamed(member: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${member} must say what the call is for.`)
}

/** What is checked for each kind of call: tools, names, URIs, lists. Ambiguous JSON is refused. */
import { LRUCache } from 'lru-cache'
import { type Call, listedTool, type Target } from '../../core/call.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { GatewayError } from '../../core/error.ts'
import { isObject, elements, members } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import { knownScopes } from '../../core/principal.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { unknownPrompt, unknownResource, unknownTool } from '../../core/error.ts'
import { NS } from '../../protocol/meta-keys.ts'
import { method } from '../../protocol/methods.ts'
import {
  type Context,
  type Guard,
  type Gate,
  gateOf,
  isShut,
  judge,
  refusal,
  type Verdict,
  type Requirement,
  missingScopes,
  requiredScopes,
} from './gate.ts'
import { fold } from './path-variants.ts'
import { hasRules } from './rules.ts'

/** The guard of a target; undefined where every caller may call it. */
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
  const { gates, elevateUrl, isHiding } = context
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
      return pass(call, listedTool(call))
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

/** The call, unless it is refused; the deciding rule goes to the audit log. @throws SCOPE_INSUFFICIENT, PERMISSION_DENIED */
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

/** Resources a caller may not read cannot be watched either: they are not honoured. */
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

/** Tells in a list what its entries need of the caller, or leaves out those the caller may not use. */
function listGuard(name: string, settings: UpstreamSettings, context: Context): Guard {
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
      // The same list for the same rights is encoded once.
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
  { gates, servers: { describe: listed } }: Context,
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

/** The params that say what a call is for, and the members of a reference that do. */
const deciding = new Set(['name', 'arguments', 'uri', 'ref'])
const referring = new Set(['type', 'name', 'uri'])
const MAX_DEPTH = 64

/** Refuses params that another parser could read as a different call. @throws INVALID_INPUT */
function refuseDuplicateKeys(params: Payload): void {
  const keys = Object.keys(params.fields)
  if (members(params.text).length !== keys.length || hasVariant(keys, deciding)) throw ambiguous()
}

/** Refuses a reference that another parser, or another reading, could take for another one. @throws INVALID_INPUT */
function refuseDuplicateReferences(reference: Payload | undefined): void {
  refuseDuplicateKeysWithin(reference)
  const keys = Object.keys(reference?.fields ?? {})
  if ((keys.includes('name') && keys.includes('uri')) || hasVariant(keys, referring)) throw ambiguous()
}

/** Some parsers do not tell upper from lower case, nor `ſ` from `s`. */
function hasVariant(keys: readonly string[], names: ReadonlySet<string>): boolean {
  return keys.some((key) => !names.has(key) && names.has(fold(key)))
}

/** Refuses arguments in which a key stands twice. @throws INVALID_INPUT */
function refuseDuplicateKeysWithin(args: Payload | undefined): void {
  const left: [text: string, value: unknown, depth: number][] = args ? [[args.text, args.value, 0]] : []
  for (let next = left.pop(); next; next = left.pop()) {
    const [text, value, depth] = next
    if (depth > MAX_DEPTH) throw ambiguous()
    if (Array.isArray(value)) {
      elements(text).forEach((part, index) => left.push([part, value[index], depth + 1]))
    } else if (isObject(value)) {
      const found = members(text)
      if (found.length !== Object.keys(value).length) throw ambiguous()
      for (const each of found) left.push([text.slice(each.valueStart, each.end), value[each.key], depth + 1])
    }
  }
}

function ambiguous(): GatewayError {
  return new GatewayError('INVALID_INPUT', 'Invalid params: a key stands twice, or its values lie too deep.')
}

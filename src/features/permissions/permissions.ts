/**
 * The feature `permissions`: scopes and rules for calls, sessions with fewer scopes, and hidden entries.
 * Each kind of call has its checks: tools, names, URIs, lists. Ambiguous JSON is refused.
 */
import { NS } from '../../core/identity.ts'
import { LRUCache } from 'lru-cache'
import {
  type Call,
  type Handler,
  type Outcome,
  type Middleware,
  type Target,
  listedTool,
} from '../../core/call.ts'
import { withFinding } from '../../core/dry-run.ts'
import { GatewayError, unknownPrompt, unknownResource, unknownTool } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import { extensionOf, hasExtension, SESSION_TOKEN, withoutExtension } from '../../protocol/meta-keys.ts'
import { isProtocolNotification, method } from '../../protocol/methods.ts'
import { asTool } from '../builtin-tool.ts'
import type { Feature, SettingsOf, Services } from '../feature.ts'
import { callerValues, toolFacts } from '../offers.ts'
import {
  type Context,
  type Guard,
  createGates,
  limitedBySession,
  requiredScopes,
  type Gate,
  gateOf,
  isInaccessible,
  decide,
  refusal,
  type AccessDecision,
  type Requirement,
  missingScopes,
  hasRules,
} from './gate.ts'
import { answerHeld, answerCheck, checkTool } from './preflight.ts'
import { answerNegotiate, negotiateTool, Sessions } from './negotiate.ts'
import { type PermissionSettings, permissionsSchema } from '../settings/authorize.ts'
import type { Descriptor } from '../../core/descriptor.ts'
import { asObject, isObject, elements, members } from '../../core/json/json.ts'
import { Payload } from '../../core/payload.ts'
import type { UpstreamSettings } from '../../core/settings.ts'
import { fold } from './path-variants.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'pages' | 'gateway'>

/** Permits calls according to scopes and the rules of each server, and answers permission checks in advance. */
export const permissions: Feature<PermissionSettings | false> = {
  ...permissionsSchema,
  create: (settings, deps) => {
    const { maxTtl, idle } = deps.gateway.settings.auth.session
    const sessions = new Sessions({ store: deps.store, log: deps.log, idle, maxTtl })
    const gates = createGates()
    const contextOf = contexts(settings, deps, gates)
    const guarding = (target: Target): Middleware =>
      applyGuard(target, guardFor(target, contextOf, deps), sessions)
    const check = answerCheck(contextOf, deps)
    const negotiate = answerNegotiate(settings, sessions, deps)
    return {
      calls: {
        judgesArguments: true,
        middleware: (target) => {
          if (isProtocolNotification(target.method)) return undefined
          return guarding(target)
        },
        dryRun: (target) => {
          const server = target.isBuiltin ? undefined : deps.servers.settings(target.upstream ?? '')
          const withScopes = (call: Call): Call =>
            call.tool && server
              ? withFinding(call, { scopes: requiredScopes(gates(call.tool, server).requirement) })
              : call
          return (next) => guarding(target)((call) => next(withScopes(call)))
        },
      },
      builtins: {
        methods: { [CHECK]: check, [LIST]: answerHeld(contextOf, deps), [NEGOTIATE]: negotiate },
        tools: [asTool(checkTool, check), asTool(negotiateTool, negotiate)],
      },
      offers: [
        toolFacts.offer((entry) => {
          const server = deps.servers.settings(entry.upstream)
          const isOn = settings(entry.upstream) !== false && server
          return isOn ? { scopes: gates(entry, server).requirement } : {}
        }),
        callerValues.offer([{ name: SESSION_TOKEN, header: 'X-MCP-Session-Token' }]),
      ],
    }
  },
}

const CHECK = 'permissions/check'
const LIST = 'permissions/list'
const NEGOTIATE = 'permissions/negotiate'

function contexts(
  settings: SettingsOf<PermissionSettings | false>,
  {
    servers,
    gateway: {
      settings: { auth },
    },
  }: Deps,
  gates: Context['gates'],
): (upstream: string) => Context {
  return (upstream) => {
    const own = settings(upstream)
    const { elevate_url: url, hide_unpermitted: hidesInaccessible = false } = own || {}
    return { servers, gates, isOff: own === false, hidesInaccessible, elevateUrl: url ?? auth.elevateUrl }
  }
}

function guardFor(
  target: Target,
  contextOf: (upstream: string) => Context,
  { servers: { settings: server } }: Deps,
): Guard | undefined {
  if (target.isBuiltin || target.upstream === undefined) return undefined
  const settings = server(target.upstream)
  return settings && guardOf(target, settings, contextOf(target.upstream))
}

function applyGuard(target: Target, guard: Guard | undefined, sessions: Sessions): Middleware {
  const isForAll = guard?.isForAll === true
  return (next) => {
    const guarded = guard ? withGuard(guard, next) : next
    return (call) => {
      if (hasExtension(call, SESSION_TOKEN)) {
        const guardedInSession = guard ? withGuard(inSession(guard, call.principal), next) : next
        return restrictToSession(call, target, sessions).then(guardedInSession)
      }
      return isForAll || call.principal.scopes ? guarded(call) : next(call)
    }
  }
}

/** The guard of a caller in a session: a refusal says whether the caller could make the call outside of it. */
function inSession({ admit, ...guard }: Guard, principal: Principal): Guard {
  if (!admit) return guard
  return {
    ...guard,
    admit: async (call) => {
      try {
        return await admit(call)
      } catch (error) {
        if (!(error instanceof GatewayError) || error.code !== 'SCOPE_INSUFFICIENT') throw error
        const isAdmitted = await succeeds(() => admit({ ...call, principal }))
        throw isAdmitted ? limitedBySession(error) : error
      }
    },
  }
}

async function succeeds(admit: () => unknown): Promise<boolean> {
  try {
    await admit()
    return true
  } catch {
    return false
  }
}

function withGuard({ admit, filterResult }: Guard, next: Handler): Handler {
  const run = (call: Call, admitted: Call): Promise<Outcome> =>
    filterResult ? next(admitted).then((outcome) => filterResult(call, outcome)) : next(admitted)
  return (call) => {
    try {
      const admitted = admit ? admit(call) : call
      return admitted instanceof Promise ? admitted.then((each) => run(call, each)) : run(call, admitted)
    } catch (error) {
      return Promise.reject(error)
    }
  }
}

/** Restricts a call to the scopes of its session token, which is not forwarded. @throws TOKEN_EXPIRED, INVALID_INPUT */
async function restrictToSession(call: Call, target: Target, sessions: Sessions): Promise<Call> {
  const token = extensionOf(call, SESSION_TOKEN)
  const withoutToken = withoutExtension(call, SESSION_TOKEN)
  if (typeof token !== 'string') {
    throw new GatewayError('INVALID_INPUT', `Invalid params: ${SESSION_TOKEN} must be a string.`)
  }
  try {
    const { scopes } = await sessions.find(token, call.principal)
    return { ...withoutToken, principal: withScopes(call.principal, scopes) }
  } catch (error) {
    // An expired session does not prevent its caller from negotiating a new one.
    const isEnded = error instanceof GatewayError && error.code === 'TOKEN_EXPIRED'
    if (isEnded && target.isBuiltin && isNegotiation(target)) return withoutToken
    throw error
  }
}

function isNegotiation({ method, name }: Target): boolean {
  return method === NEGOTIATE || (method === 'tools/call' && name?.endsWith(negotiateTool.name) === true)
}

function withScopes(principal: Principal, scopes: readonly string[]): Principal {
  const { scopes: available } = principal
  const outside = available ? { scopes: available } : {}
  return {
    ...principal,
    outside,
    scopes: new Set(available ? scopes.filter((scope) => available.has(scope)) : scopes),
  }
}

/** The guard of a target; undefined if every caller may call it. */
function guardOf(target: Target, settings: UpstreamSettings, context: Context): Guard | undefined {
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
      return { isForAll: hasRules(settings), admit: (call) => withoutInaccessible(call, settings) }
    case 'tools/list':
    case 'prompts/list':
    case 'resources/list':
    case 'resources/templates/list':
      return listGuard(target.method, settings, context)
    default:
      // A method that the protocol does not define may do anything.
      return isOfProtocol(target.method) ? undefined : scopeGuard([[`write:${settings.name}`]], context)
  }
}

function toolGuard(settings: UpstreamSettings, context: Context): Guard {
  const { gates, elevateUrl, hidesInaccessible } = context
  return {
    isForAll: hasRules(settings),
    admit: (call) => {
      refuseDuplicateKeys(call.params)
      const { name } = call.target
      if (name === undefined) throw missingTarget('name')
      const tool = listedTool(call)
      const gate = tool && gates(tool, settings)
      const { scopes } = call.principal
      if (!gate || (hidesInaccessible && isInaccessible(gate, scopes))) throw unknownTool(name)
      if (gate.rules) refuseDuplicateKeysWithin(call.params.at('arguments'))
      return permitted(call, decide(gate, call.params.fields.arguments, scopes), elevateUrl)
    },
  }
}

/** Prompts and resources are identified by name alone. */
function nameGuard(
  kind: 'prompt' | 'resource',
  { name }: Target,
  settings: UpstreamSettings,
  context: Context,
): Guard {
  const hasValidName = name !== undefined && name.length <= MAX_NAME_LENGTH
  const gate = hasValidName ? gateOf({ kind, name, classification: readAccess }, settings) : undefined
  return {
    isForAll: hasRules(settings),
    admit: (call) => {
      refuseDuplicateKeys(call.params)
      if (!gate || name === undefined) throw missingTarget(kind === 'prompt' ? 'name' : 'uri')
      return admitRead(call, { kind, name, gate }, context)
    },
  }
}

interface Read {
  readonly kind: 'prompt' | 'resource'
  readonly name: string
  readonly gate: Gate
}

function admitRead(call: Call, { kind, name, gate }: Read, { elevateUrl, hidesInaccessible }: Context): Call {
  const { scopes } = call.principal
  if (hidesInaccessible && isInaccessible(gate, scopes)) throw unknownRead(kind, name)
  if (gate.rules) refuseDuplicateKeysWithin(call.params.at('arguments'))
  return permitted(call, decide(gate, call.params.fields.arguments, scopes), elevateUrl)
}

/** The call, unless it is refused; the deciding rule is logged. @throws SCOPE_INSUFFICIENT, PERMISSION_DENIED */
function permitted(call: Call, decision: AccessDecision, elevateUrl: string | undefined): Call {
  if (decision.kind === 'allowed') return call
  call.logFields.set(
    'rule',
    decision.kind === 'denied' ? 'arguments' : `scopes ${decision.missing.join(' ')}`,
  )
  throw refusal(decision, elevateUrl)
}

/** Completion reveals data of the prompt or resource that it is for, so the same access is required. */
function admitReference(call: Call, settings: UpstreamSettings, context: Context): Call {
  refuseDuplicateKeys(call.params)
  const { ref } = call.params.fields
  refuseDuplicateReferences(call.params.at('ref'))
  const { name, uri } = asObject(ref)
  const [kind, subject] = typeof uri === 'string' ? (['resource', uri] as const) : (['prompt', name] as const)
  if (typeof subject !== 'string' || subject.length > MAX_NAME_LENGTH) throw missingTarget('ref')
  const gate = gateOf({ kind, name: subject, classification: readAccess }, settings)
  // The arguments are not those of the prompt, so rules on arguments do not apply.
  const withoutArgumentRules = { ...gate, rules: gate.rules?.isClosed === true ? gate.rules : undefined }
  return admitRead(call, { kind, name: subject, gate: withoutArgumentRules }, context)
}

/** Removes subscriptions to resources that the caller may not read. */
function withoutInaccessible(call: Call, settings: UpstreamSettings): Call {
  const { notifications } = call.params.fields
  if (!isObject(notifications) || !Array.isArray(notifications.resourceSubscriptions)) return call
  const all: readonly unknown[] = notifications.resourceSubscriptions
  const open = all.filter((uri) => {
    if (typeof uri !== 'string' || uri.length > MAX_NAME_LENGTH) return false
    return !isInaccessible(
      gateOf({ kind: 'resource', name: uri, classification: readAccess }, settings),
      call.principal.scopes,
    )
  })
  if (open.length === all.length) return call
  const kept = { ...notifications, resourceSubscriptions: open }
  return { ...call, params: call.params.with({ notifications: kept }) }
}

/** For methods without a name: the caller needs all scopes of the server. */
function scopeGuard(requirement: Requirement, { elevateUrl }: Context): Guard {
  return {
    isForAll: false,
    admit: (call) =>
      permitted(call, decide({ requirement, rules: undefined }, {}, call.principal.scopes), elevateUrl),
  }
}

function isOfProtocol(name: string): boolean {
  const { capability, only, nameIn } = method(name)
  return capability !== undefined || only !== undefined || nameIn !== undefined
}

/** The maximum length of a name, in characters: many readings of it are checked. */
const MAX_NAME_LENGTH = 8192

const readAccess = { op: 'read', risk: 'safe' } as const

function unknownRead(kind: 'prompt' | 'resource', name: string): GatewayError {
  return kind === 'prompt' ? unknownPrompt(name) : unknownResource(name)
}

function missingTarget(member: string): GatewayError {
  return new GatewayError('INVALID_INPUT', `Invalid params: ${member} must identify what the call is for.`)
}

/** Annotates list entries with required scopes, or hides entries that the caller may not use. */
function listGuard(name: string, settings: UpstreamSettings, context: Context): Guard {
  const key = method(name).list ?? ''
  const gateOfEntry = (entry: Payload): Gate | undefined => gateFor(entry, key, settings, context)
  const known = new LRUCache<string, AnnotatedList>({ max: MAX_SCOPE_SETS })
  const annotateList = (call: Call, result: Payload): Payload => {
    const list = result.at(key)
    if (!list || !Array.isArray(list.value)) return result
    const entries = list.items.flatMap((entry) =>
      annotate(entry, gateOfEntry(entry), call, context.hidesInaccessible),
    )
    const text = `[${entries.map((entry) => entry.text).join(',')}]`
    const isPublic = result.fields.cacheScope === 'public'
    return result.with({ [key]: Payload.text(text), ...(isPublic && { cacheScope: 'private' }) })
  }
  return {
    isForAll: context.hidesInaccessible && Object.values(settings.deny).includes(true),
    filterResult: (call, outcome) => {
      if (outcome.kind !== 'result') return outcome
      const { text } = outcome.result
      const { scopes } = call.principal
      const scopeKey = scopes ? JSON.stringify([...scopes].toSorted()) : ''
      const before = known.get(scopeKey)
      // The same list for the same scopes is encoded once.
      if (before?.text === text) return { kind: 'result', result: before.result }
      const result = annotateList(call, outcome.result)
      known.set(scopeKey, { text, result })
      return { kind: 'result', result }
    },
  }
}

/** A list, and its annotated form. */
interface AnnotatedList {
  readonly text: string
  readonly result: Payload
}

/** For how many different scope sets a list is cached. */
const MAX_SCOPE_SETS = 16

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
  return gateOf({ kind, name: subject, classification: readAccess }, settings)
}

function annotate(
  entry: Payload,
  gate: Gate | undefined,
  { principal }: Call,
  hidesInaccessible: boolean,
): Payload[] {
  if (!gate) return hidesInaccessible ? [] : [entry]
  if (hidesInaccessible && isInaccessible(gate, principal.scopes)) return []
  if (!principal.scopes) return [entry]
  const missing = missingScopes(gate.requirement, principal.scopes)
  const notes = {
    [`${NS}/required_scopes`]: requiredScopes(gate.requirement),
    ...(missing.length > 0 && { [`${NS}/missing_scopes`]: missing }),
  }
  return [entry.withMeta(notes)]
}

/** The params that identify the target of a call, and the members of a reference that do. */
const targetMembers = new Set(['name', 'arguments', 'uri', 'ref'])
const referenceMembers = new Set(['type', 'name', 'uri'])
const MAX_DEPTH = 64

/** Refuses params that another parser could read as a different call. @throws INVALID_INPUT */
function refuseDuplicateKeys(params: Payload): void {
  const keys = Object.keys(params.fields)
  if (members(params.text).length !== keys.length || hasVariant(keys, targetMembers)) throw ambiguous()
}

/** Refuses a reference that another parser could read as a different one. @throws INVALID_INPUT */
function refuseDuplicateReferences(reference: Payload | undefined): void {
  refuseDuplicateKeysWithin(reference)
  const keys = Object.keys(reference?.fields ?? {})
  if ((keys.includes('name') && keys.includes('uri')) || hasVariant(keys, referenceMembers)) throw ambiguous()
}

/** Some parsers ignore case, and equate `ſ` with `s`. */
function hasVariant(keys: readonly string[], names: ReadonlySet<string>): boolean {
  return keys.some((key) => !names.has(key) && names.has(fold(key)))
}

/** Refuses arguments with a duplicate key. @throws INVALID_INPUT */
function refuseDuplicateKeysWithin(args: Payload | undefined): void {
  const pending: [text: string, value: unknown, depth: number][] = args ? [[args.text, args.value, 0]] : []
  for (let next = pending.pop(); next; next = pending.pop()) {
    const [text, value, depth] = next
    if (depth > MAX_DEPTH) throw ambiguous()
    if (Array.isArray(value)) {
      elements(text).forEach((part, index) => pending.push([part, value[index], depth + 1]))
    } else if (isObject(value)) {
      const found = members(text)
      if (found.length !== Object.keys(value).length) throw ambiguous()
      for (const each of found)
        pending.push([text.slice(each.valueStart, each.end), value[each.key], depth + 1])
    }
  }
}

function ambiguous(): GatewayError {
  return new GatewayError(
    'INVALID_INPUT',
    'Invalid params: a key is duplicated, or values are nested too deeply.',
  )
}

/** The feature `permissions`: scopes and rules for calls, sessions with fewer scopes, and hidden entries. */
import type { Call, Handler, Outcome, Middleware, Target } from '../../core/call.ts'
import { withFinding } from '../../core/dry-run.ts'
import { GatewayError } from '../../core/error.ts'
import type { Principal } from '../../core/principal.ts'
import { extensionOf, hasExtension, SESSION_TOKEN, withoutExtension } from '../../protocol/meta-keys.ts'
import { isProtocolNotification } from '../../protocol/methods.ts'
import { asTool } from '../builtin-tool.ts'
import type { Feature, SettingsOf, Services } from '../feature.ts'
import { callerValues, toolFacts } from '../offers.ts'
import { type Context, type Guard, createGates, limitedBySession, requiredScopes } from './gate.ts'
import { guardOf } from './guard.ts'
import { answerHeld } from './held.ts'
import { answerNegotiate, negotiateTool } from './negotiate.ts'
import { answerCheck, checkTool } from './preflight.ts'
import { Sessions } from './sessions.ts'
import { type PermissionSettings, permissionsSchema } from './settings.ts'

type Deps = Pick<Services, 'log' | 'store' | 'servers' | 'pages' | 'gateway'>

/** Permits calls according to scopes and the rules of each server, and answers permission checks in advance. */
export const permissions: Feature<PermissionSettings | false> = {
  ...permissionsSchema,
  create: (settings, deps) => {
    const { maxTtl, idle } = deps.gateway.auth.session
    const sessions = new Sessions({ store: deps.store, log: deps.log, idle, maxTtl })
    const gates = createGates()
    const contextOf = contexts(settings, deps, gates)
    const guarding = (target: Target): Middleware =>
      applyGuard(target, guardFor(target, contextOf, deps), sessions)
    const check = answerCheck(contextOf, deps)
    const negotiate = answerNegotiate(settings, { deps, sessions })
    return {
      calls: {
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
  { servers, gateway: { auth } }: Deps,
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
